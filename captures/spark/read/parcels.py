"""Stage 1 for shuffles: the segments of a split as parcels, one for each flow and portion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from kproxy.captures.garbage import one_collection
from kproxy.captures.ports import Ports
from kproxy.captures.spark.plan import files
from kproxy.captures.spark.plan.order import Summary
from kproxy.captures.spark.plan.splits import Split
from kproxy.captures.spark.read import reading
from kproxy.captures.spark.read.by_flow import ByFlow
from kproxy.captures.spark.read.packing import PARCELS, packed
from kproxy.captures.spark.read.pieces import PIECES, Sent
from kproxy.captures.spark.read.reading import Segments
from kproxy.decoders.stream import Source

PORTION: Final = 32 << 20
"""Maximum bytes of payload in a portion of a split. A flow has a parcel in each portion, which bounds memory."""
SEGMENTS_OF_PORTION: Final = 1 << 18
GROUP: Final = 2048
"""Maximum number of segments that are packed together: intermediate results then stay in the CPU's cache."""


def read(split: Split, wanted: Ports | None = None, *, payload: bool = False) -> Iterator[Any]:
    """The parcels and summaries of a split, as batches of captures.spark.read.packing.PARCELS.

    Parcels contain all payload if `payload` is true or the bytes cannot be read by address
    (captures.spark.read.addressed); otherwise the heads of frames for files at URLs, which saves requests, and no
    payload for local files. Raises CaptureError if a file cannot be opened.
    """
    by_address = (split.stamp is not None or split.slice is not None) and not payload
    sent = Sent.ALL if not by_address else Sent.HEADS if files.is_url(split.paths[0]) else Sent.NONE
    held, bytes_of = ByFlow(), _Bytes()
    for found in reading.segments(split, wanted):
        if isinstance(found, Summary):
            if len(held):
                yield from _portion(held, bytes_of, sent)
            held, bytes_of = ByFlow(), _Bytes()
            yield _rows({"summary": [found.json()]})
            continue
        held.add(found)
        if sent is not Sent.NONE:
            bytes_of.add(found)
        if (sent is Sent.ALL and held.size >= PORTION) or len(held) >= SEGMENTS_OF_PORTION:
            yield from _portion(held, bytes_of, sent)
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


def _portion(held: ByFlow, source: Source, sent: Sent) -> list[Any]:
    """The rows of a portion of a split."""
    with one_collection():
        rows: list[tuple[int, int, bytes]] = []
        for flows in held.groups(GROUP):
            rows += packed(flows, PIECES[sent](flows, source), source)
        columns = zip(*rows, strict=True)
        return [_rows(dict(zip(PARCELS.names, columns, strict=False)))]


def _rows(columns: Mapping[str, Sequence[Any]]) -> Any:
    count = len(next(iter(columns.values())))
    return pa.record_batch(
        [pa.array(columns.get(one.name, [None] * count), one.type) for one in PARCELS], schema=PARCELS
    )
