"""Events of a batch in slices of bounded size: packets that waited, or followed a gap, are all released at once.

The slices are in the order of addresses, as batches are, so results do not depend on where the slices end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from kproxy.captures.tcp.reassembly import TcpConnection
from kproxy.decoders.stream import Event, Run

SLICE_BYTES = 2 << 20
"""Maximum size of a slice. A batch is bounded equally (captures.reader.BATCH_BYTES), so it is usually one slice."""


@dataclass(slots=True)
class Events:
    """Events of a connection in a slice; `last` means that no later slice of the batch has more of them."""

    connection: TcpConnection
    events: list[Event]
    last: bool = True


def slices(connections: Sequence[TcpConnection]) -> Iterator[list[Events]]:
    """Move the events out of connections, in one or more slices, each of at most SLICE_BYTES or of one segment."""
    given = whole(connections)
    runs = (event for one in given for event in one.events if isinstance(event, Run) and len(event.ends))
    if sum(run.ends[-1] - run.start for run in runs) <= SLICE_BYTES:
        yield given
    else:
        yield from _sliced(given)


def whole(connections: Sequence[TcpConnection]) -> list[Events]:
    """Move the events out of connections, as one slice."""
    given = []
    for connection in connections:
        given.append(Events(connection, connection.events))
        connection.events = []
    return given


_Place = tuple[int, int, int]
"""An address; the number of a connection; the number of a segment or other event in that connection."""


def _sliced(given: Sequence[Events]) -> Iterator[list[Events]]:
    pieces = [list(_pieces(one.events)) for one in given]
    places = sorted((address, i, j, size) for i, each in enumerate(pieces) for j, (address, size, _) in enumerate(each))
    totals = list(accumulate(size for *_, size in places))
    begin, borders = 0, [0]
    while begin < len(places):
        before = totals[begin - 1] if begin else 0
        begin = max(bisect_right(totals, before + SLICE_BYTES), begin + 1)
        borders.append(begin)
    left = [len(each) for each in pieces]
    for first, end in pairwise(borders):
        here: dict[int, list[Event]] = {}
        for _, i, j, _ in places[first:end]:
            here.setdefault(i, []).append(pieces[i][j][2])
            left[i] -= 1
        yield [Events(given[i].connection, events, last=not left[i]) for i, events in sorted(here.items())]


def _pieces(events: Sequence[Event]) -> Iterator[tuple[int, int, Event]]:
    """Each segment of each run as its own run, and each other event: (address, size in bytes, event)."""
    for event in events:
        if not isinstance(event, Run):
            yield event.at, 0, event
        elif not len(event.ends):
            yield event.released, 0, event
        else:
            yield from _segments(event)


def _segments(run: Run) -> Iterator[tuple[int, int, Run]]:
    start = run.start
    for i, end in enumerate(run.ends):
        one = Run(run.side, start, [end], [run.at[i]], [run.times[i]], released=run.released)
        if run.stored is not None:
            one.stored = [run.stored[i]]
        if start in run.comments:
            one.comments[start] = run.comments[start]
        if not i:
            one.overlaps, one.copies = run.overlaps, run.copies
        yield max(run.at[i], run.released), end - start, one
        start = end
