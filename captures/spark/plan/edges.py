"""Where a capture can be cut so that each packet is in exactly one of the pieces: proven, not guessed.

A payload may hold a capture of its own, so that what looks like a packet's header proves nothing. But somewhere in any
stretch as long as the longest record a record begins. All offsets of the stretch before a border are therefore taken
for beginnings, each is followed from record to record, and those that come to what no record can be are dropped. The
true one is never dropped, so where all that are left have come together, there a record begins.

That holds as long as every record is what one can be: no longer than is believed, not captured longer than it was, not
years from the first. Whoever walks a piece checks it all the same: a walk from the file's beginning that ends each time
exactly at the next edge has read every record once.
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
"""Bytes of the smallest block of pcapng: its type and, twice, its length."""
LONGEST_BLOCK: Final = LONGEST + (1 << 17)
LONGEST_RECORD: Final = 4 << 20
"""A pcap file with a snap length beyond is not cut."""
LONGEST_TIME: Final = 1 << 28
"""Seconds from a file's first packet to any other. Four bytes further on a header looks like one, but for its time."""
MOST_STEPS: Final = 1 << 17
"""Records that are followed for one edge."""

_DEAD: Final = -1


@dataclass(frozen=True, slots=True)
class _Form:
    """How records follow one another in a file: where its first one begins, bytes of the longest, and what is next.

    `next_of` gives the offset behind the record at an offset, _DEAD where there can be none, and the file's size where
    it goes beyond; `all_next` the same for many offsets, of which those at the file's end may be left out.
    """

    first: int
    longest: int
    next_of: Callable[[int], int]
    all_next: Callable[[int, int], list[int]]


Need = Callable[[int, int], None]
"""Told which bytes of a view are looked at next, from where to where."""


def edges(view: memoryview, walker: Walker, nominal: Sequence[int], need: Need | None = None) -> list[int]:
    """The first proven edge at or behind each of some offsets of a file, each once; fewer where none can be proven.

    `walker` is of the file, whose first 64 KiB are there; `need` is asked for what else of it is looked at. What comes
    out depends on the file and the offset alone.
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
