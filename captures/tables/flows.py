"""Makes the rows of the table flows, from counts of packets made while reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from kproxy.captures.keys import Flow, flow_id
from kproxy.captures.tables.rows import Row, Where, place
from kproxy.captures.tcp.connections import Disorder, TcpConnection
from kproxy.captures.tcp.packets import FIN, RST, SYN, Packets, endpoints, together
from kproxy.decoders.exchange import Connection, Exchange, StreamProblem
from kproxy.decoders.problems import Code


@dataclass(slots=True)
class _Direction:
    """Counts of the packets that `sender` sent in one direction, from one SYN to the next.

    `first` and `last` are times in ns since the epoch; `counts` are [packets, payload bytes, SYN, FIN, RST].
    """

    sender: str
    first: int
    last: int
    counts: list[int]


@dataclass(slots=True)
class _Talk:
    """Counts of a connection's exchanges and problems; `capture` is the id of the file that has the first of them."""

    capture: str | None
    exchanges: int = 0
    gaps: int = 0
    gap_bytes: int = 0
    tls: bool = False


Counts: TypeAlias = tuple[int, int, int, list[int], bool]
"""Counts of packets of one direction: (index of the direction, time of the first packet, latest time, counts as in
`_Direction`, whether the first packet is a SYN).
"""


def counted(packets: Packets) -> Iterator[Counts]:
    """Counts the packets of a batch that has at least one: yields, for each direction, one Counts for each SYN."""
    order = together(packets.direction, len(packets.directions))
    direction, flags = packets.direction[order], packets.flags[order]
    time, length = packets.time[order], packets.length[order]
    begins = (flags & SYN) != 0
    starts = np.flatnonzero(np.append(True, (direction[1:] != direction[:-1]) | begins[1:]))
    each = np.stack([np.ones_like(length), length, *((flags & flag) != 0 for flag in (SYN, FIN, RST))], axis=1)
    return zip(
        direction[starts].tolist(),
        time[starts].tolist(),
        np.maximum.reduceat(time, starts).tolist(),
        np.add.reduceat(each, starts).tolist(),
        begins[starts].tolist(),
        strict=True,
    )


@lru_cache(1 << 16)
def flow_of(key: bytes) -> int:
    """The flow_id of a direction with this key."""
    return flow_id(*endpoints(key))


class FlowCounter:
    """Counts the packets (`packets`) and items (`add`) of a reading; `flows` then gives the rows."""

    def __init__(self, reading: str, where: Where) -> None:
        """`reading` is the id of the reading."""
        self._reading = reading
        self._where = where
        self._directions: dict[bytes, list[_Direction]] = {}
        self._talks: dict[Connection, _Talk] = {}
        self._disorders: list[tuple[Connection, Disorder]] = []

    def began(self, connection: Connection, tcp: TcpConnection) -> None:
        """Note the TCP connection of a conversation (see `Reader`); its counts of disorder are read at the end."""
        self._disorders.append((connection, tcp.disorder))

    def packets(self, packets: Packets) -> None:
        """Count a batch of packets; every packet must be given once, in order."""
        if len(packets):
            for number, first, last, counts, new in counted(packets):
                self.count(packets.directions[number], first, last, counts, new=new)

    def count(self, key: bytes, first: int, last: int, counts: Sequence[int], *, new: bool) -> None:
        """Add counts of the direction with this key; the other arguments are members of `Counts`, `new` the last."""
        held = self._directions.setdefault(key, [])
        if new or not held:
            held.append(_Direction(endpoints(key)[0], first, first, [0] * 5))
        one = held[-1]
        one.last = max(one.last, last)
        one.counts = [before + more for before, more in zip(one.counts, counts, strict=True)]

    def add(self, item: Exchange | StreamProblem) -> None:
        """Count an exchange, or a stream problem if it is a gap."""
        talk = self._talks.get(item.connection)
        if talk is None:
            talk = self._talks[item.connection] = _Talk(place(item, self._where).id)
        if isinstance(item, Exchange):
            talk.exchanges += 1
            talk.tls |= item.status == "tls"
        elif item.code is Code.GAP:
            talk.gaps += 1
            talk.gap_bytes += item.size

    def flows(self, seen: Iterator[tuple[Connection, Flow]], address: Callable[[str], str] = str) -> Iterator[Row]:
        """The rows of the table flows, for the connections in `seen`.

        `address` turns the "host:port" of a packet into the text for the rows. If the connections in `seen` are
        redacted, it must redact in the same way.
        """
        # The address of a redacted connection is lost; the connection's number identifies it.
        disorders = {(one.number, one.first_time): disorder for one, disorder in self._disorders}
        by_flow: dict[int, list[tuple[Connection, Flow]]] = {}
        for connection, flow in seen:
            by_flow.setdefault(flow.id, []).append((connection, flow))
        directions: dict[int, list[_Direction]] = {}
        for key, held in self._directions.items():
            sender, receiver = map(address, endpoints(key))
            number = flow_id(sender, receiver)
            if number in by_flow:
                directions.setdefault(number, []).extend(
                    one if one.sender == sender else replace(one, sender=sender) for one in held
                )
        for number, connections in by_flow.items():
            for index, (connection, flow) in enumerate(connections):
                after = connections[index + 1][0].first_time if index + 1 < len(connections) else None
                mine = [
                    one
                    for one in directions.get(number, ())
                    if (index == 0 or one.first >= connection.first_time) and (after is None or one.first < after)
                ]
                disorder = disorders.get((connection.number, connection.first_time), Disorder())
                yield self._flow(connection, flow, mine, disorder)

    def _flow(self, connection: Connection, flow: Flow, mine: Sequence[_Direction], disorder: Disorder) -> Row:
        talk = self._talks.get(connection, _Talk(None))
        total = [sum(one.counts[i] for one in mine) for i in range(5)]
        sent = sum(one.counts[1] for one in mine if one.sender == connection.client)
        return (
            talk.capture, self._reading, flow.id, flow.epoch, connection.number, *flow.client, *flow.broker,
            min((one.first for one in mine), default=connection.first_time),
            max((one.last for one in mine), default=connection.first_time),
            talk.exchanges, total[0], sent, total[1] - sent, *total[2:],
            disorder.repeated, disorder.filled, talk.gaps, talk.gap_bytes, talk.tls,
        )  # fmt: skip
