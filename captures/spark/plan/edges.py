"""Finds, and proves, offsets at which a capture can be cut so that each packet is in exactly one piece.

A payload may contain a capture, so bytes that look like a packet header prove nothing. But every stretch as long as the
longest possible record contains the beginning of a record. The search therefore treats every offset in such a stretch
before a border as a candidate beginning, follows each candidate from record to record, and drops those that reach an
impossible record. The true beginning is never dropped. So where all remaining candidates have met, a record begins.

The proof assumes plausible records: no longer than the limit, captured length at most the original length, time within
years of the first packet. The reader of a piece checks it nevertheless: if a walk from the file's beginning ends
exactly at each next edge, it has read every record once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Final

import numpy as np

from kproxy.captures.formats.gather import Bytes
from kproxy.captures.formats.magic import PCAP
from kproxy.captures.formats.pcap import HEADER, LONGEST, RECORD, PcapWalker
from kproxy.captures.formats.pcapng import BYTE_ORDER_MAGIC
from kproxy.captures.formats.records import Walker

BLOCK: Final = 12
"""Size in bytes of the smallest pcapng block: its type, and its length twice."""
LONGEST_BLOCK: Final = LONGEST + (1 << 17)
LONGEST_RECORD: Final = 4 << 20
"""Maximum snap length, in bytes, of a pcap file that is cut."""
LONGEST_TIME: Final = 1 << 28
"""Maximum time, in seconds, between a file's first packet and any other.

Four bytes after the start of a true header, the bytes look like a header too, except for their time.
"""
MOST_STEPS: Final = 1 << 17
"""Maximum number of records that are followed to find one edge."""

_DEAD: Final = -1


@dataclass(frozen=True, slots=True)
class _Form:
    """How records follow one another in a file.

    `first` is the offset of the first record, `longest` the maximum size of a record. `next_of` returns the offset
    after the record at an offset, _DEAD if no record can be there, and the file's size if the record goes beyond it.
    `all_next` does this for all offsets of a range, and may omit those at the file's end.
    """

    first: int
    longest: int
    next_of: Callable[[int], int]
    all_next: Callable[[int, int], list[int]]


Need = Callable[[int, int], None]
"""A function called with the range (start, end) of a view's bytes that is read next."""


def edges(view: memoryview, walker: Walker, nominal: Sequence[int], need: Need | None = None) -> list[int]:
    """For each offset in `nominal`, the first offset at or after it at which a packet record provably begins.

    The result is sorted, without duplicates and without offsets that cannot be proven; it depends only on the file and
    `nominal`. `walker` belongs to the file, whose first 64 KiB must be present; `need` is called for other ranges.
    """
    form = _pcap(view, walker.longest) if isinstance(walker, PcapWalker) else _pcapng(view)
    if form is None:
        return []
    found = {edge for at in nominal if (edge := _edge(form, at, len(view), need or _there)) is not None}
    return sorted(found)


def _there(_: int, __: int) -> None:
    pass


def _edge(form: _Form, at: int, size: int, need: Need) -> int | None:
    begin = at - form.longest
    need(begin, at + form.longest)
    heads = [form.first] if begin <= form.first else form.all_next(begin, at)
    heapify(heads)
    for _ in range(MOST_STEPS):
        if not heads or heads[0] >= size:
            return None
        if len(heads) == 1 and heads[0] >= at:
            return heads[0]
        need(heads[0], heads[0] + form.longest)
        following = form.next_of(heads[0])
        if following == _DEAD or following in heads:
            heappop(heads)
        else:
            heapreplace(heads, following)
    return None


def _pcap(view: memoryview, longest: int) -> _Form | None:
    if longest > LONGEST_RECORD:
        return None
    order, _ = PCAP[bytes(view[:4])]
    size, header_of = len(view), struct.Struct(order + "IIII").unpack_from
    if size < HEADER + RECORD:
        return None
    began = header_of(view, HEADER)[0]
    u32 = Bytes(view).view(order + "u4")

    def next_of(at: int) -> int:
        if at + RECORD > size:
            return size
        seconds, _, captured, wire = header_of(view, at)
        right = captured <= longest and captured <= wire and abs(seconds - began) < LONGEST_TIME
        return min(at + RECORD + captured, size) if right else _DEAD

    def all_next(begin: int, end: int) -> list[int]:
        at = np.arange(begin, min(end, size - RECORD + 1), dtype=np.int64)
        captured = u32[at + 8].astype(np.int64)
        following = at + RECORD + captured
        right = (captured <= longest) & (following >= end)
        at, captured, following = at[right], captured[right], following[right]
        seconds, wire = u32[at].astype(np.int64), u32[at + 12].astype(np.int64)
        right = (captured <= wire) & (abs(seconds - began) < LONGEST_TIME)
        heads: list[int] = np.unique(np.minimum(following[right], size)).tolist()
        return heads

    return _Form(HEADER, RECORD + longest, next_of, all_next)


def _pcapng(view: memoryview) -> _Form:
    order = "<" if bytes(view[8:12]) == struct.pack("<I", BYTE_ORDER_MAGIC) else ">"
    size, length_of = len(view), struct.Struct(order + "I").unpack_from
    u32 = Bytes(view).view(order + "u4")

    def next_of(at: int) -> int:
        if at + BLOCK > size:
            return size
        length: int = length_of(view, at + 4)[0]
        if length % 4 or not BLOCK <= length <= LONGEST_BLOCK:
            return _DEAD
        after = at + length
        if after > size:
            return size
        return after if length_of(view, after - 4)[0] == length else _DEAD

    def all_next(begin: int, end: int) -> list[int]:
        at = np.arange(begin & ~3, min(end, size - BLOCK + 1), 4, dtype=np.int64)
        length = u32[at + 4].astype(np.int64)
        following = at + length
        right = (length % 4 == 0) & (length >= BLOCK) & (length <= LONGEST_BLOCK) & (following >= end)
        following, length = following[right], length[right]
        whole = following <= size
        closed = u32[following[whole] - 4] == length[whole]
        beyond = [] if whole.all() else [size]
        return [*np.unique(following[whole][closed]).tolist(), *beyond]

    return _Form(0, LONGEST_BLOCK, next_of, all_next)
