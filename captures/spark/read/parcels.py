"""Stage 1 for stage 2: the segments of a split, packed together for each flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kproxy.captures.garbage import one_collection
from kproxy.captures.ports import Ports
from kproxy.captures.spark.plan import files
from kproxy.captures.spark.plan.order import Summary
from kproxy.captures.spark.plan.splits import Split
from kproxy.captures.spark.read import reading
from kproxy.captures.spark.read.by_flow import ByFlow
from kproxy.captures.spark.read.packing import PARCELS, packed
from kproxy.captures.spark.read.reading import Segments
from kproxy.captures.tcp.packets import PSH, Ints, Packets
from kproxy.decoders.stream import Source

PORTION: Final = 32 << 20
"""Maximum bytes of payload in a portion of a split. A flow has a parcel in each portion, which bounds memory."""
SEGMENTS_OF_PORTION: Final = 1 << 18
HEAD: Final = 64
"""Number of bytes of a write that hold the header of a frame, and usually the client id."""
ALL: Final = 1 << 40
"""More than the size of any segment."""
GROUP: Final = 2048
"""Maximum number of segments of flows that are packed together: few, so that the results stay in the CPU's cache."""


def read(split: Split, wanted: Ports | None = None, *, payload: bool = False) -> Iterator[Any]:
    """The parcels and summaries of a split, as batches of captures.spark.read.packing.PARCELS.

    With `payload`, and where bytes cannot be read by address (captures.spark.read.addressed), they have all bytes of
    segments. Of files at URLs they have the `heads` of segments, which saves requests. Otherwise they have none. Raises
    CaptureError if a file cannot be opened.
    """
    payload = payload or split.stamp is None
    most = ALL if payload else HEAD if files.is_url(split.paths[0]) else 0
    held, bytes_of = ByFlow(), _Bytes()
    for found in reading.segments(split, wanted):
        if isinstance(found, Summary):
            if len(held):
                yield from _portion(held, bytes_of, most=most)
            held, bytes_of = ByFlow(), _Bytes()
            yield _rows({"summary": [found.json()]})
            continue
        held.add(found)
        if most:
            bytes_of.add(found)
        if (payload and held.size >= PORTION) or len(held) >= SEGMENTS_OF_PORTION:
            yield from _portion(held, bytes_of, most=most)
            held, bytes_of = ByFlow(), _Bytes()


class _Bytes:
    """The bytes of segments, at their addresses."""

    def __init__(self) -> None:
        self._mapped: tuple[memoryview, int] | None = None
        self._copied: dict[int, bytes] = {}

    def add(self, some: Segments) -> None:
        if some.stays:
            self._mapped = some.view, some.base
        else:
            held = zip(some.packets.at.tolist(), some.payload(), strict=True)
            self._copied.update((at, data) for at, data in held if data)

    def read(self, start: int, end: int) -> bytes | memoryview:
        """The bytes of one segment from its beginning on."""
        if self._mapped is None:
            return self._copied[start][: end - start]
        view, base = self._mapped
        return view[start - base : end - base]


def _portion(held: ByFlow, source: Source, *, most: int) -> list[Any]:
    """The rows of a portion of a split."""
    with one_collection():
        rows: list[tuple[int, int, bytes]] = []
        for flows in held.groups(GROUP):
            rows += packed(flows, heads(flows.share.packets, most), source)
        columns = zip(*rows, strict=True)
        return [_rows(dict(zip(PARCELS.names, columns, strict=False)))]


def heads(packets: Packets, most: int) -> Ints:
    """For each segment, the number of its leading bytes that are sent: at most `most`, and none inside a longer write.

    A segment begins a write if the one before it in its direction had the PSH flag, or is not in the portion.
    """
    sent = np.minimum(packets.stored, most)
    if most == ALL:
        return sent
    data = np.flatnonzero(packets.stored)
    order = data[np.argsort(packets.direction[data], kind="stable")]
    inside = (packets.direction[order[1:]] == packets.direction[order[:-1]]) & (packets.flags[order[:-1]] & PSH == 0)
    sent[order[1:][inside]] = 0
    return sent


def _rows(columns: Mapping[str, Sequence[Any]]) -> Any:
    count = len(next(iter(columns.values())))
    return pa.record_batch(
        [pa.array(columns.get(one.name, [None] * count), one.type) for one in PARCELS], schema=PARCELS
    )
