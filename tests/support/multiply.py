"""Makes a large capture out of a small one: python -m tests.support.multiply BASE.pcap[.xz] COPIES OUT.pcap.

Copies follow one another in time. Second and third octet of both IPv4 addresses hold the copy's number, so that each
copy has its own connections. The base is a little-endian pcap of Ethernet frames with IPv4.
"""

from __future__ import annotations

import lzma
import struct
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from zlib import crc32

HEADER, RECORD = 24, 16
IP, SOURCE, DESTINATION = 14, 26, 30
"""Offsets of the IP header and its addresses in a frame."""
OPENS, CLOSES = 0x02, 0x05
"""Flags of TCP: SYN; FIN and RST."""


Record = tuple[int, int, int, int, bytes]
"""Seconds, microseconds, bytes held, bytes on the wire, and the frame."""


def multiply(base: Path, copies: int, out: Path) -> None:
    """Write `copies` of `base` to `out`."""
    header, records = _read(base)
    span = records[-1][0] - records[0][0] + 1
    with out.open("wb") as file:
        file.write(header)
        for copy in range(copies):
            for seconds, micro, held, wire, frame in records:
                file.write(struct.pack("<IIII", seconds + copy * span, micro, held, wire))
                file.write(_renumbered(frame, copy))


def deal(base: Path, copies: int, outs: Sequence[Path]) -> None:
    """Write `copies` of `base`, each connection to one of several captures, as brokers record them at once."""
    header, records = _read(base)
    span = records[-1][0] - records[0][0] + 1
    with ExitStack() as stack:
        opened = [stack.enter_context(out.open("wb")) for out in outs]
        for file in opened:
            file.write(header)
        for copy in range(copies):
            for seconds, micro, held, wire, frame in records:
                ends = _ends(frame)
                file = opened[crc32(min(ends[:6] + ends[6:], ends[6:] + ends[:6])) % len(outs)]
                file.write(struct.pack("<IIII", seconds + copy * span, micro, held, wire))
                file.write(_renumbered(frame, copy))


def interleave(base: Path, copies: int, out: Path) -> None:
    """Write `copies` of `base` to `out`, all at the same time: packet by packet."""
    header, records = _read(base)
    with out.open("wb") as file:
        file.write(header)
        for seconds, micro, held, wire, frame in records:
            for copy in range(copies):
                file.write(struct.pack("<IIII", seconds, micro, held, wire))
                file.write(_renumbered(frame, copy))


def lengthen(base: Path, copies: int, out: Path) -> None:
    """Write the connection of `base` with the most packets, its payload repeated `copies` times on that connection."""
    header, records = _read(base)
    talks: dict[frozenset[bytes], list[Record]] = {}
    for record in records:
        ends = _ends(record[4])
        talks.setdefault(frozenset({ends[:6], ends[6:]}), []).append(record)
    mine = max(talks.values(), key=len)
    seen: dict[bytes, list[int]] = {}
    for *_, frame in mine:
        if size := len(_payload(frame)):
            seq = int.from_bytes(frame[_tcp(frame) + 4 : _tcp(frame) + 8], "big")
            seen.setdefault(_ends(frame), []).extend((seq, seq + size))
    sent = {ends: max(reached) - min(reached) for ends, reached in seen.items()}
    span = mine[-1][0] - mine[0][0] + 1
    with out.open("wb") as file:
        file.write(header)
        for copy in range(copies):
            for seconds, micro, held, wire, frame in mine:
                ends = _ends(frame)
                back = ends[6:] + ends[:6]
                flags = _flags(frame)
                if (flags & OPENS and copy) or (flags & CLOSES and copy < copies - 1):
                    continue
                changed = bytearray(frame)
                tcp = _tcp(frame)
                seq, ack = struct.unpack_from(">II", frame, tcp + 4)
                moved = (seq + copy * sent.get(ends, 0)) & 0xFFFFFFFF, (ack + copy * sent.get(back, 0)) & 0xFFFFFFFF
                struct.pack_into(">II", changed, tcp + 4, *moved)
                file.write(struct.pack("<IIII", seconds + copy * span, micro, held, wire))
                file.write(changed)


def _read(base: Path) -> tuple[bytes, list[Record]]:
    data = lzma.decompress(base.read_bytes()) if base.suffix == ".xz" else base.read_bytes()
    records = []
    at = HEADER
    while at < len(data):
        seconds, micro, held, wire = struct.unpack_from("<IIII", data, at)
        at += RECORD
        records.append((seconds, micro, held, wire, data[at : at + held]))
        at += held
    return data[:HEADER], records


def _tcp(frame: bytes) -> int:
    return IP + 4 * (frame[IP] & 15)


def _flags(frame: bytes) -> int:
    return frame[_tcp(frame) + 13]


def _payload(frame: bytes) -> bytes:
    tcp = _tcp(frame)
    return frame[tcp + 4 * (frame[tcp + 12] >> 4) : IP + int.from_bytes(frame[IP + 2 : IP + 4], "big")]


def _ends(frame: bytes) -> bytes:
    """Address and port of sender and receiver."""
    tcp = _tcp(frame)
    one, other = frame[SOURCE : SOURCE + 4], frame[DESTINATION : DESTINATION + 4]
    return one + frame[tcp : tcp + 2] + other + frame[tcp + 2 : tcp + 4]


def _renumbered(frame: bytes, copy: int) -> bytes:
    if not copy:
        return frame
    changed = bytearray(frame)
    for address in (SOURCE, DESTINATION):
        changed[address + 1] = (changed[address + 1] + (copy >> 8)) & 0xFF
        changed[address + 2] = copy & 0xFF
    return bytes(changed)


def main() -> None:
    if len(sys.argv) == 4:
        multiply(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))


if __name__ == "__main__":
    main()
