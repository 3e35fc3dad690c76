"""Builds capture files block by block."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kproxy.captures.formats.detect import walker
from kproxy.captures.formats.link import LinkLayers
from kproxy.captures.tcp.packets import Packets, joined, nothing

ETHERNET = 1
Packet = tuple[int, bytes]
"""Nanoseconds since the epoch, and the frame."""


def pcap(
    packets: Iterable[Packet], *, link: int = ETHERNET, order: str = "<", nano: bool = False, snap: int = 262_144
) -> bytes:
    """A pcap file; frames are cut at `snap`."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for time, frame in packets:
        seconds, rest = divmod(time, 1_000_000_000)
        held = frame[:snap]
        out.append(struct.pack(order + "IIII", seconds, rest if nano else rest // 1000, len(held), len(frame)) + held)
    return b"".join(out)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    length = 12 + len(body) + (-len(body) % 4)
    return struct.pack(order + "II", kind, length) + body + bytes(-len(body) % 4) + struct.pack(order + "I", length)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link: int = ETHERNET, *, resolution: int | None = None, offset: int | None = None, order: str = "<"
) -> bytes:
    options = b""
    if resolution is not None:
        options += option(9, bytes([resolution]), order)
    if offset is not None:
        options += option(14, struct.pack(order + "q", offset), order)
    return block(1, struct.pack(order + "HHI", link, 0, 0) + options, order)


def enhanced(number: int, ticks: int, frame: bytes, *, comments: Sequence[str] = (), order: str = "<") -> bytes:
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    options = b"".join(option(1, text.encode(), order) for text in comments)
    if options:
        options += option(0, b"", order)
    return block(6, head + frame + bytes(-len(frame) % 4) + options, order)


def simple(frame: bytes, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", len(frame)) + frame, order)


def obsolete(number: int, ticks: int, frame: bytes, order: str = "<") -> bytes:
    head = struct.pack(order + "HHIIII", number, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    return block(2, head + frame, order)


def statistics(number: int, dropped: int, order: str = "<") -> bytes:
    return block(
        5, struct.pack(order + "III", number, 0, 0) + option(5, struct.pack(order + "Q", dropped), order), order
    )


def segments(data: bytes, *, step: int = 1000) -> Packets:
    """All TCP segments of a capture as one batch, read `step` records at a time."""
    view = memoryview(data)
    found = walker(view, whole=True)
    assert found is not None
    links = LinkLayers()
    parts = []
    while (records := found.walk(view, step)) is not None:
        parts.append(links.segments(view, records, 0))
    assert not links.unknown
    return joined(parts) if parts else nothing()


def rows(packets: Packets, data: bytes) -> list[tuple[Any, ...]]:
    """Rows to compare: key, time, seq, ack, flags, length on the wire, captured bytes."""
    return [
        (key, time, seq, ack, flags, length, data[at : at + stored])
        for key, time, seq, ack, flags, at, length, stored in zip(
            packets.keys,
            packets.time.tolist(),
            packets.seq.tolist(),
            packets.ack.tolist(),
            packets.flags.tolist(),
            packets.at.tolist(),
            packets.length.tolist(),
            packets.stored.tolist(),
            strict=True,
        )
    ]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
