"""Divides batches of exchanges and stream problems into chunks of bounded size, which are dealt to processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from kproxy.decoders.exchange import Exchange, StreamProblem

CHUNK_ITEMS: Final = 256
CHUNK_BYTES: Final = 1 << 20
"""A chunk ends with the item that reaches CHUNK_ITEMS items or CHUNK_BYTES bytes of frames."""

AnItem = TypeVar("AnItem", bound=Exchange | StreamProblem)


def chunks(batch: Sequence[AnItem]) -> Iterator[Sequence[AnItem]]:
    """The chunks of a batch, in order: slices of it."""
    start = size = 0
    for index, item in enumerate(batch):
        if isinstance(item, Exchange):
            size += item.size
        if size >= CHUNK_BYTES or index - start >= CHUNK_ITEMS - 1:
            yield batch[start : index + 1]
            start, size = index + 1, 0
    if start < len(batch):
        yield batch[start:]
