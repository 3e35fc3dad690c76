"""The tuples that a record is made of. In C loop.pxd has others in their place, which fill anew what is let go."""

from __future__ import annotations

from kproxy.decoders.records.record import Header, Record


def record_tuple(
    last: Record | None,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...],
) -> Record:
    """A record; in C the `last` one, where nobody else holds it."""
    del last
    return offset, timestamp, key, value, headers


def header_tuple(last: tuple[Header] | None, name: bytes, content: bytes | None) -> tuple[Header]:
    """The only header of a record; in C the `last` one, where nobody else holds it or its header."""
    del last
    return ((name, content),)
