"""Make a capture of any size out of a small one: python -m tests.support.multiply BASE.pcap[.xz] COPIES OUT.pcap.

Copies follow one another, each with its own addresses (the second and third octet of both IPv4 addresses count it) and
its own time, so that each brings connections of its own. The base is a little-endian pcap of Ethernet frames with IPv4.
"""

from __future__ import annotations

import lzma
import struct
import sys
from pathlib import Path

HEADER, RECORD = 24, 16
SOURCE, DESTINATION = 26, 30
"""Offsets of the addresses in a frame."""


def multiply(base: Path, copies: int, out: Path) -> None:
    """Write `copies` of `base` to `out`."""
    data = lzma.decompress(base.read_bytes()) if base.suffix == ".xz" else base.read_bytes()
    records = []
    at = HEADER
    while at < len(data):
        seconds, micro, held, wire = struct.unpack_from("<IIII", data, at)
        at += RECORD
        records.append((seconds, micro, held, wire, data[at : at + held]))
        at += held
    span = records[-1][0] - records[0][0] + 1
    with out.open("wb") as file:
        file.write(data[:HEADER])
        for copy in range(copies):
            for seconds, micro, held, wire, frame in records:
                file.write(struct.pack("<IIII", seconds + copy * span, micro, held, wire))
                file.write(_renumbered(frame, copy))


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
