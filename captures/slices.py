"""Divides the events of a batch into slices of bounded size: one packet may release many others that waited for it.

Slices are in the order of addresses, as batches are, so results do not depend on where slices end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from kproxy.captures.tcp.connections import TcpConnection
from kproxy.decoders.stream import Event, Run

SLICE_BYTES = 2 << 20
"""Maximum bytes of a slice. A batch has the same bound (captures.reader.BATCH_BYTES), so it is usually one slice."""


@dataclass(slots=True)
class Events:
    """The events of a connection in a slice; `last` is false if a later slice of the batch has more events of it."""

    connection: TcpConnection
    events: list[Event]
    last: bool = True


def slices(connections: Sequence[TcpConnection]) -> Iterator[list[Events]]:
    """Move the events of connections into slices; a slice has at most SLICE_BYTES bytes, or is one segment."""
    given = whole(connections)
    runs = (event for one in given for event in one.events if isinstance(event, Run) and len(event.ends))
    if sum(run.ends[-1] - run.start for run in runs) <= SLICE_BYTES:
        yield given
    else:
        yield from _sliced(given)


def whole(connections: Sequence[TcpConnection]) -> list[Events]:
    """Move the events out of connections into one slice."""
    given = []
    for connection in connections:
        given.append(Events(connection, connection.events))
        connection.events = []
    return given


_Place = tuple[int, int, int]
"""(address, number of the connection, number of the event in it); each segment of a run counts as an event."""


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
    """(address, size in bytes, event) of each event; a run is divided into one run for each of its segments."""
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
