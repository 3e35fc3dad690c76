"""TCP segments as a script, and the result of reassembly in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from kproxy.captures.tcp.connections import TcpConnection
from kproxy.captures.tcp.packets import Packets, numbered, turned
from kproxy.captures.tcp.reassembly import Reassembler
from kproxy.decoders.stream import End, Gap, Run

FIN, SYN, RST, ACK = 1, 2, 4, 16
KEY = bytes([10, 0, 0, 1, 10, 0, 0, 2]) + (51234).to_bytes(2, "big") + (9092).to_bytes(2, "big")
MILLISECOND = 1_000_000


@dataclass
class Segment:
    way: int
    seq: int
    data: bytes = b""
    flags: int = ACK
    ack: int = 0
    time: int | None = None
    stored: int | None = None
    key: bytes = KEY
    comment: str | None = None
    length: int | None = None
    """Length on the wire, if it is not that of `data`."""


@dataclass
class Script:
    """Segments in capture order; `memory` holds their bytes one after the other, each after room for a header."""

    segments: list[Segment]
    memory: bytearray = field(default_factory=bytearray)
    packets: Packets = field(init=False)

    def __post_init__(self) -> None:
        columns: list[tuple[int, ...]] = []
        keys, comments = [], {}
        for i, segment in enumerate(self.segments):
            self.memory += bytes(54)
            keys.append(turned(segment.key) if segment.way else segment.key)
            time = i * MILLISECOND if segment.time is None else segment.time
            stored = len(segment.data) if segment.stored is None else segment.stored
            columns.append(
                (
                    time,
                    segment.seq % 2**32,
                    segment.ack % 2**32,
                    segment.flags,
                    len(self.memory),
                    segment.length or len(segment.data),
                    stored,
                )
            )
            self.memory += segment.data[:stored]
            if segment.comment:
                comments[i] = segment.comment
        table = np.array(columns, np.int64).reshape(-1, 7)
        times, seq, ack, flags, at, length, held = (table[:, i] for i in range(7))
        self.packets = Packets(*numbered(keys), times, seq, ack, flags, at, length, held, comments)

    def same(self, a: int, b: int, length: int) -> bool:
        return self.memory[a : a + length] == self.memory[b : b + length]

    def run(self, borders: Iterable[int] = ()) -> list[list[Any]]:
        """The events of each connection, in batches that are cut at `borders`."""
        reassembler = Reassembler(self.same)
        seen: dict[TcpConnection, list[Any]] = {}
        cuts = sorted({0, len(self.segments), *borders})
        for a, b in pairwise(cuts):
            self._collect(reassembler.feed(self.packets.some(slice(a, b))), seen)
        self._collect(reassembler.finish(len(self.memory)), seen)
        return list(seen.values())

    def _collect(self, connections: Sequence[TcpConnection], seen: dict[TcpConnection, list[Any]]) -> None:
        for connection in connections:
            seen.setdefault(connection, []).extend(connection.events)
            connection.events = []

    def streams(self, events: list[Any]) -> list[list[Any]]:
        """The events of each side in order: (start, bytes, address of delivery), gaps and ends."""
        sides: list[list[Any]] = [[], []]
        for event in events:
            if isinstance(event, End):
                for side in (0, 1) if event.side is None else (event.side,):
                    sides[side].append(("end", event.reason, event.at))
            elif isinstance(event, Gap):
                sides[event.side].append(("gap", event.start, event.end, event.at))
            else:
                sides[event.side] += self._segments(event)
        return sides

    def _segments(self, run: Run) -> list[Any]:
        found: list[Any] = []
        start = run.start
        for i, (end, at, time) in enumerate(zip(run.ends, run.at, run.times[: len(run.at)], strict=True)):
            stored = end - start if run.stored is None else run.stored[i]
            data = bytes(self.memory[at : at + stored])
            found.append((start, end, data, max(at, run.released), time, run.comments.get(start)))
            start = end
        if run.overlaps:
            found.append(("overlaps", tuple(sorted(run.overlaps))))
        return found


def stream(side: list[Any]) -> bytes:
    """The bytes of a side, with zeros in gaps."""
    out = bytearray()
    for item in side:
        if item[0] == "gap":
            out += bytes(item[2] - item[1])
        elif isinstance(item[0], int):
            assert item[0] == len(out)
            out += item[2]
    return bytes(out)


def gaps(side: list[Any]) -> list[tuple[int, int]]:
    return [(item[1], item[2]) for item in side if item[0] == "gap"]


def overlaps(side: list[Any]) -> list[tuple[int, int]]:
    return [span for item in side if item[0] == "overlaps" for span in item[1]]


def ends(side: list[Any]) -> list[str]:
    return [item[1] for item in side if item[0] == "end"]
