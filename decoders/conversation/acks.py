"""Computes the path to a request's field `acks` from its definition.

The module loop uses the path to find requests without a reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kproxy.decoders.schema import irregular
from kproxy.decoders.schema.layout import Layout, Shape, layout
from kproxy.decoders.schema.lookup import Definitions

ENOUGH = 1 << 16
"""Number of bytes of a frame that are read to find `acks`; a transactional id before it has at most 32 KiB."""

STRING, COMPACT_STRING, TAGS = -1, -2, -3


@dataclass(frozen=True, slots=True)
class Way:
    """The steps from the start of a frame to `acks`: each skips some bytes, a string, or tagged fields."""

    steps: tuple[int, ...]
    unanswered: frozenset[int]
    """The values of `acks` for which the broker sends no reply."""


@lru_cache(maxsize=256)
def way(definitions: Definitions, key: int, version: int) -> Way | None:
    """The path to `acks` in requests of this API key and version.

    None if they have no `acks`, or if a field before it cannot be skipped.
    """
    if version not in definitions.versions(key):
        return None
    header_version = definitions.request_header_version(key, version)
    header, body = definitions.message("RequestHeader", header_version), definitions.request(key, version)
    if header is None or body is None:
        return None
    steps: list[int] = [4]
    if not _skip(layout(header, header_version), steps) or _skip(layout(body, version), steps):
        return None
    merged: list[int] = []
    for step in steps:
        if step > 0 and merged and merged[-1] > 0:
            merged[-1] += step
        else:
            merged.append(step)
    unanswered = frozenset(acks for acks in range(-1, 2) if irregular.expects_no_reply(key, version, acks))
    return Way(tuple(merged), unanswered)


def _skip(fields: Layout, steps: list[int]) -> bool:
    """Append the steps over a struct's fields to `steps`.

    Returns False at `acks` or at a field that cannot be skipped.
    """
    for slot in fields.slots:
        if slot.name == "acks":
            return False
        if slot.shape is Shape.FIXED:
            steps.append(slot.minimum)
        elif slot.shape is Shape.STRING:
            steps.append(COMPACT_STRING if slot.compact else STRING)
        else:
            steps.append(1 << 30)
            return False
    if fields.flexible:
        steps.append(TAGS)
    return True
