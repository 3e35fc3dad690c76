"""Stretches of a flow whose segments hold whole claimed exchanges and nothing else.

A reading that has understood everything before such a stretch, and waits for nothing, finds the same exchanges in it as
any other reading, and is afterwards in the same state at a later position. So stage 2 skips these stretches without
reading them (captures.spark.claims.judging).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kproxy.captures.spark.claims.by_flow import Flows
from kproxy.captures.tcp.packets import FIN, RST, SYN, Ints, Mask, Packets
from kproxy.decoders.conversation.conversation import Conversation
from kproxy.decoders.conversation.loop import HEAD
from kproxy.decoders.conversation.responses import Responses
from kproxy.decoders.exchange import Connection
from kproxy.decoders.stream import Event, Run

LEAST: Final = 64
"""Minimum number of segments for which skipping is cheaper than reading."""
_SPECIAL: Final = SYN | FIN | RST


class Plain(NamedTuple):
    """A plain stretch: the segments [start, end) of a parcel, which hold `claims` claims from number `first` on.

    `place` is the stream offset of the first request as the portion counts; `client` and `broker` are the addresses of
    the connection.
    """

    start: int
    end: int
    first: int
    claims: int
    place: int
    client: str
    broker: str


@dataclass(slots=True)
class Passing:
    """A plain stretch that a reading reaches; its segments are `packets`.

    `read` is called if the stretch cannot be skipped. Otherwise `connection` is the connection that skipped it, and
    `place` the stream offset of that connection's next request.
    """

    plain: Plain
    packets: Packets
    read: Callable[[], None]
    connection: Connection | None = None
    place: int = 0

    def over(self, conversation: Conversation, events: Sequence[Event]) -> bool:
        """Let a conversation skip the stretch; False if it cannot.

        It can if nothing else happens in these segments and the conversation waits for nothing.
        """
        connection = conversation.connection
        runs = [event for event in events if isinstance(event, Run)]
        if (
            not runs
            or len(runs) < len(events)
            or (connection.client, connection.broker) != (self.plain.client, self.plain.broker)
            or not conversation.rests(int(self.packets.time.min()))
            or not self._are(runs)
        ):
            return False
        self.connection, self.place = connection, conversation.asked
        conversation.pass_over(runs)
        return True

    def _are(self, runs: Sequence[Run]) -> bool:
        """Whether the runs, at least one, are exactly the segments of the stretch."""
        if any(run.stored is not None or run.comments or run.overlaps or run.released for run in runs):
            return False
        at, length = self.packets.at, self.packets.length
        size = sum(run.ends[-1] - run.start for run in runs)
        found = np.sort(np.concatenate([np.asarray(run.at) for run in runs]), kind="stable")
        return size == int(length.sum()) and np.array_equal(found, at[length > 0])


class Frames:
    """The frames of a flow's claims.

    `asked` and `answered` are the number of pieces of each claim's request and response; `spans` and `talks` are those
    of captures.spark.claims.checks.Found.
    """

    def __init__(self, asked: Ints, answered: Ints, spans: array[int], talks: list[tuple[int, Connection]]) -> None:
        counts = np.stack([asked, answered], 1).ravel()
        self.counts = counts[counts > 0]
        """For each frame, its number of pieces."""
        self.heads = np.tile([HEAD, Responses.head], len(asked))[counts > 0]
        """For each frame, the number of leading bytes that the conversation always reads."""
        self.claims = asked + answered
        self.talks = talks
        self.columns = np.frombuffer(spans, np.int64).reshape(-1, 2).T

    def bodies(self) -> tuple[Ints, Ints]:
        """(first addresses, end addresses) of the frames' bytes behind those that the conversation always reads,
        sorted.
        """
        (starts, lengths), counts = self.columns, self.counts
        ends = np.cumsum(lengths)
        before = ends - lengths
        head = np.clip(np.repeat(before[np.cumsum(counts) - counts] + self.heads, counts) - before, 0, lengths)
        some = np.flatnonzero(head < lengths)
        order = np.argsort(starts[some], kind="stable")
        return (starts + head)[some][order], (starts + lengths)[some][order]

    def stretches(self, flows: Flows, claims: Ints, places: Ints) -> dict[int, list[Plain]]:
        """The plain stretches of flows, by the flow's index: flow i has the claims [claims[i], claims[i + 1]).

        `places` are the stream offsets of requests.
        """
        found: dict[int, list[Plain]] = {}
        if not len(self.claims):
            return found
        count = len(flows.share.packets)
        starts, lengths = self.columns
        where = flows.at(starts)
        good = _in_full(flows, np.bincount(where, lengths, count).astype(np.int64))
        pieces = self.claims
        begins: Ints = np.cumsum(pieces) - pieces
        # a response may begin before the request that it answers
        first, last = np.minimum.reduceat(where, begins), np.maximum.reduceat(where, begins)
        quiet = _between(first, last, count)
        borders = flows.starts
        for low, high in _runs(good, borders):
            flow = int(np.searchsorted(borders, low, "right")) - 1
            shows = int(np.searchsorted(last, low))
            if shows >= claims[flow + 1]:
                continue
            # The first exchange of a connection shows what it is.
            begin = int(last[shows]) + 1
            here = np.flatnonzero(quiet[begin : high + 1]) + begin
            if len(here) < 2 or here[-1] - here[0] < LEAST:
                continue
            start, end = here[[0, -1]].tolist()
            one, other = np.searchsorted(last, [start, end]).tolist()
            connection = self._connection(one, other)
            if connection is not None:
                place, before = int(places[one:other].min()), int(borders[flow])
                found.setdefault(flow, []).append(
                    Plain(
                        start - before, end - before, one - int(claims[flow]), other - one, place, connection.client,
                        connection.broker,
                    )
                )  # fmt: skip
        return found

    def _connection(self, first: int, end: int) -> Connection | None:
        """The connection that the claims [first, end) belong to; there must be at least one claim."""
        held = bisect_right(self.talks, first, key=lambda talk: talk[0]) - 1
        until = self.talks[held + 1][0] if held + 1 < len(self.talks) else len(self.claims)
        return self.talks[held][1] if first < end <= until else None


def _in_full(flows: Flows, claimed: Ints) -> Mask:
    """For each segment, whether all its bytes are claimed, it has no anomaly, and addresses grow in its flow."""
    packets = flows.share.packets
    good: Mask = (claimed == packets.length) & (packets.stored == packets.length)
    good &= (packets.flags & _SPECIAL == 0) & (packets.at >= flows.share.reached)
    good[list(packets.comments)] = False
    back = np.append(False, packets.at[1:] <= packets.at[:-1])
    back[flows.starts[:-1]] = False
    return good & ~(np.bincount(flows.whose[back], minlength=len(flows.numbers)) > 0)[flows.whose]


def _runs(good: Mask, starts: Ints) -> list[list[int]]:
    """[first, end] of each run of at least LEAST segments that are good; `starts` are the first segments of flows."""
    first, last = good.copy(), good.copy()
    first[1:] &= ~good[:-1]
    last[:-1] &= ~good[1:]
    for border, each in ((starts[:-1], first), (starts[1:] - 1, last)):
        each[border] = good[border]
    runs = np.stack([np.flatnonzero(first), np.flatnonzero(last) + 1], axis=1)
    long: list[list[int]] = runs[runs[:, 1] - runs[:, 0] >= LEAST].tolist()
    return long


def _between(first: Ints, last: Ints, count: int) -> Ints:
    """For the place before each segment and the one behind the last: whether no claim extends over it.

    Claims extend from segment `first` to segment `last`.
    """
    steps = np.bincount(first + 1, minlength=count + 2) - np.bincount(last + 1, minlength=count + 2)
    quiet: Ints = np.cumsum(steps)[: count + 1] == 0
    return quiet
