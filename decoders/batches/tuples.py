"""Makes the tuples of a record. In C, loop.pxd replaces these functions by others that reuse released tuples."""

from __future__ import annotations

from kproxy.decoders.batches.record import Header, Record


def record_tuple(
    last: Record | None,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...],
) -> Record:
    """Make a record from its fields; in C, reuse the tuple `last` if nothing else refers to it."""
    del last
    return offset, timestamp, key, value, headers


def header_tuple(last: tuple[Header] | None, name: bytes, content: bytes | None) -> tuple[Header]:
    """The headers of a record with one header.

    In C, the tuples of `last` are reused if nothing else refers to them.
    """
    del last
    return ((name, content),)
