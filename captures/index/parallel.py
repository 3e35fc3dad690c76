"""Makes an index with several processes: each reads some of the connections and makes their rows; one joins the rows.

The joining process finds the packets, and deals those of each batch to the others by the part that their connection
belongs to (captures.tcp.shares). Connections depend on each other in two ways only, which the joining process
handles: numbers of exchanges and connections count over all connections, and facts such as topic names are used in
later rows. Until a topic id in a row is resolved, a text stands for it that no capture can contain.
"""

from __future__ import annotations

import contextlib
import marshal
import pickle
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from kproxy.captures.announced import ADDRESS, AnnouncedKnowledge, AnnouncedNodes
from kproxy.captures.cores import usable_cores
from kproxy.captures.crew import Crew, Reply
from kproxy.captures.errors import CaptureError
from kproxy.captures.index.block import Block
from kproxy.captures.index.changes import Changes
from kproxy.captures.index.labels import id_text
from kproxy.captures.index.summary import Summariser
from kproxy.captures.reader import Reader
from kproxy.captures.source import FileSource
from kproxy.captures.tcp.packets import Ints, Packets
from kproxy.captures.tcp.shares import PARTS, Share, part_of
from kproxy.decoders.exchange import Connection, Exchange, Health, StreamProblem
from kproxy.decoders.knowledge import Fact
from kproxy.decoders.primitives import Buffer

SMALL: Final = 16 << 20
"""Size of captures in bytes below which further processes cost more than they save."""
MOST: Final = 4
AHEAD: Final = 32
"""Maximum number of unanswered batches of a process: many, as traffic often belongs to one connection for a while."""
REMEMBERED: Final = 65_536
"""Maximum number of directions whose part is remembered."""
_VERSION: Final = 2
"""Version of marshal's format.

Later versions search for repeated objects, which takes longer than writing them twice.
"""
_COUNTS: Final = tuple(one.name for one in fields(Health) if one.name != "unread")
"""Names of the health counters that the other processes count; the joining process counts unread packets."""
_OPEN, _CLOSE = "\ud800", "\ud801"
"""Lone surrogates around the hex digits of an unresolved topic id; decoded text never has them."""
_UNRESOLVED: Final = re.compile(f"{_OPEN}([0-9a-f]*){_CLOSE}")

Key = tuple[int, int, int]
"""Position of an event within a batch: (kind, address, rank of its connection).

Kinds are 0 (exchange began), 1 (exchange completed) and 2 (request became whole); kind 2 has the exchange's number in
place of the address.
"""
Row = tuple[Any, ...]


def helpful(source: FileSource) -> int:
    """Number of processes that should read beside the joining one; 0 if none would save time at the capture's present
    size.
    """
    cores = usable_cores()
    return min(cores, MOST) if cores > 1 and source.size >= SMALL and not source.streams else 0


class Step(NamedTuple):
    """The additions of a batch to an index: rows, the connections of their exchanges, and stream problems."""

    block: Block
    connections: list[Connection]
    problems: list[StreamProblem]


class Division:
    """Deals a reader's further packets to `jobs` processes, and joins their results.

    The facts that they learn are added to the knowledge and nodes of `summaries`. Raises `pipes.Lost` if a process
    died.
    """

    def __init__(self, reader: Reader, changes: Changes, summaries: Summariser, jobs: int) -> None:
        self._source = reader.source
        self._health = reader.health
        self._knowledge, self._nodes = summaries.knowledge, summaries.nodes
        self._numbers, self._connections = reader.numbering.exchanges, reader.numbering.connections
        self._members = [_Member(self._numbers, self._connections) for _ in range(jobs)]
        self._parts: dict[bytes, int] = {}
        self._waiting: list[Row] = []
        self._ready: list[_Made] = []
        part = _Part(reader, changes, jobs)
        self._crew = Crew(part.answer, jobs, ahead=AHEAD)

    def take(self, share: Share) -> None:
        """Deal a batch of packets to the processes (see captures.reader.Elsewhere)."""
        held = self._parts
        if len(held) > REMEMBERED:
            held.clear()
        for key in share.packets.directions:
            if key not in held:
                held[key] = part_of(key)
        turns = np.array([held[key] % len(self._members) for key in share.packets.directions], np.int64)
        turns = turns[share.packets.direction]
        for turn in range(len(self._members)):
            self._deal(turn, _packed(share.of(np.flatnonzero(turns == turn))))

    def finish(self, at: int) -> None:
        """Tell the processes that the capture ends at address `at`, and wait for their results."""
        for turn in range(len(self._members)):
            self._deal(turn, at)
        self._ready += map(_Made.of, self._crew.rest())

    def steps(self) -> Iterator[Step]:
        """The results that are ready: one Step for each batch."""
        count = len(self._members)
        whole = len(self._ready) // count * count
        ready, self._ready = self._ready[:whole], self._ready[whole:]
        for start in range(0, whole, count):
            yield self._joined(ready[start : start + count])

    def close(self) -> None:
        self._crew.close()

    def _deal(self, turn: int, work: Any) -> None:
        self._ready += map(_Made.of, self._crew.deal(marshal.dumps((turn, self._source.size, work), _VERSION)))

    def _joined(self, made: list[_Made]) -> Step:
        """Join the results of all processes for one batch."""
        numbers = self._number(made)
        every = list(zip(self._members, made, strict=True))
        for member, one, own in zip(self._members, made, numbers, strict=True):
            member.began(one, own)
        labels = self._learn(every)
        block = Block()
        connections: dict[int, Connection] = {}
        problems: list[tuple[tuple[int, int], StreamProblem]] = []
        for (member, one), texts in zip(every, labels, strict=True):
            block.join(one.block, member.numbers_of(one), member.connections, texts)
            for number, *rest in one.connections:
                known = member.connections[number]
                connections[known] = Connection(known, *rest)
            for address, rank, packed in one.problems:
                problem: StreamProblem = pickle.loads(packed)  # noqa: S301 (ours)
                problem.connection.number = member.connection(problem.connection.number)
                problems.append(((address, rank), problem))
            self._count(member, one.health)
            member.ended(one)
        problems.sort(key=lambda one: one[0])
        return Step(block, list(connections.values()), [problem for _, problem in problems])

    def _number(self, made: list[_Made]) -> list[Ints]:
        """Number the exchanges that began and the connections that began with them, in the order of addresses.

        Returns the numbers of the exchanges by process.
        """
        addresses = np.concatenate([one.addresses for one in made])
        ranks = np.concatenate([one.ranks for one in made])
        order = np.lexsort((ranks, addresses))
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(self._numbers + 1, self._numbers + 1 + len(order))
        self._numbers += len(order)
        own = np.split(numbers, np.cumsum([len(one.addresses) for one in made])[:-1])
        opened = [
            (int(mine[first]), member, number)
            for member, one, mine in zip(self._members, made, own, strict=True)
            for number, first in one.opened
        ]
        for _, member, number in sorted(opened, key=lambda one: one[0]):
            self._connections += 1
            member.connections[number] = self._connections
        return own

    def _learn(self, every: list[tuple[_Member, _Made]]) -> list[dict[int, str]]:
        """Learn the facts of a batch in order.

        Returns, by process, the labels of the rows that depend on facts, by the row's position in the process's block.
        """
        labels: list[dict[int, str]] = [{} for _ in every]
        events: list[tuple[Key, int, int, Row | int]] = []
        for turn, (member, one) in enumerate(every):
            events += ((member.key(key), turn, 0, tuple(learnt)) for key, *learnt in one.learnt)
            events += ((member.key(key), turn, 1, place) for key, place in one.asked)
        events.sort(key=lambda one: one[:3])
        texts = [one.block.strings if one.asked else [] for _, one in every]
        for _, turn, _, event in events:
            if isinstance(event, int):
                text = texts[turn][every[turn][1].block.label(event)]
                labels[turn][event] = _UNRESOLVED.sub(self._resolved, text)
            elif event[0] == ADDRESS:
                self._nodes.take(event[1], int(event[2]))
            else:
                self._knowledge.take(Fact(event[0]), event[1], event[2])
        return labels

    def _resolved(self, found: re.Match[str]) -> str:
        raw = bytes.fromhex(found[1])
        return self._knowledge.topic(raw) or id_text(raw)

    def _count(self, member: _Member, health: tuple[int, ...]) -> None:
        for name, before, now in zip(_COUNTS, member.health, health, strict=True):
            setattr(self._health, name, getattr(self._health, name) + now - before)
        member.health = health


@dataclass(slots=True)
class _Member:
    """Maps the numbers that one of the other processes gives to exchanges and connections to their numbers in the
    index.

    `exchanges` is the number of exchanges before the fork; the process's own numbers continue from there.
    """

    exchanges: int
    inherited: int
    """Number of connections before the fork."""
    connections: dict[int, int] = field(init=False)
    """By a connection's own number in the process, its number in the index."""
    open: dict[int, int] = field(default_factory=dict)
    """By an exchange's own number, its number in the index, for exchanges that were incomplete after their batch."""
    first: int = field(init=False)
    """Own number of the first exchange that began in this batch."""
    own: Ints = field(init=False)
    """Numbers, in the index, of the exchanges that began in this batch."""
    health: tuple[int, ...] = (0,) * len(_COUNTS)

    def __post_init__(self) -> None:
        self.first = self.exchanges + 1
        self.connections = {number: number for number in range(self.inherited + 1)}
        self.own = np.empty(0, np.int64)

    def began(self, made: _Made, own: Ints) -> None:
        """Begin the next batch; `own` are the numbers, in the index, of the exchanges that began in it."""
        self.first += len(self.own)
        self.own = own
        for number in made.numbers[: made.began]:
            self.open[number] = self.exchange(number)

    def exchange(self, number: int) -> int:
        """The number in the index of the exchange with this own number."""
        if number >= self.first:
            return int(self.own[number - self.first])
        return number if number <= self.exchanges else self.open[number]

    def connection(self, number: int) -> int:
        return self.connections[number]

    def numbers_of(self, made: _Made) -> list[int]:
        """The numbers in the index of the exchanges in a block, row by row."""
        numbers = np.array(made.numbers, np.int64)
        new = numbers >= self.first
        numbers[new] = self.own[numbers[new] - self.first]
        for place in np.flatnonzero(~new).tolist():
            numbers[place] = self.exchange(int(numbers[place]))
        known: list[int] = numbers.tolist()
        return known

    def key(self, key: Key) -> Key:
        return (key[0], self.exchange(key[1]), 0) if key[0] == 2 else key

    def ended(self, made: _Made) -> None:
        """Forget the exchanges that became complete in a batch, and the connections that ended."""
        for number in made.numbers[made.began : made.began + made.done]:
            if number < self.first:
                self.open.pop(number, None)
        for number in made.ended:
            del self.connections[number]


class _Made:
    """A process's result for its share of a batch, as it comes through a pipe; its numbers are the process's own."""

    __slots__ = (
        "addresses",
        "asked",
        "began",
        "block",
        "connections",
        "done",
        "ended",
        "health",
        "learnt",
        "numbers",
        "opened",
        "problems",
        "ranks",
    )  # fmt: skip

    def __init__(
        self,
        addresses: bytes,
        ranks: bytes,
        opened: list[tuple[int, int]],
        began: int,
        done: int,
        block: bytes,
        learnt: list[Row],
        asked: list[tuple[Key, int]],
        problems: list[tuple[int, int, bytes]],
        connections: list[Row],
        ended: list[int],
        health: tuple[int, ...],
    ) -> None:
        self.addresses = np.frombuffer(addresses, np.int64)
        """Addresses of the exchanges that began, in order; `ranks` holds the ranks of their connections."""
        self.ranks = np.frombuffer(ranks, np.int64)
        self.opened = opened
        """(number of a new connection, position of its first exchange in `addresses`)."""
        self.began, self.done = began, done
        """Numbers of rows: for exchanges that began, and for complete ones, which follow them in the block."""
        self.block = Block.unpack(block)
        self.numbers = self.block.numbers
        self.learnt = learnt
        """Facts that were learnt: (Key, kind, subject, value)."""
        self.asked = asked
        """(Key, position in the block) of each row whose label depends on facts."""
        self.problems = problems
        self.connections = connections
        self.ended = ended
        """Numbers of the connections that ended."""
        self.health = health

    @classmethod
    def of(cls, reply: Reply) -> _Made:
        (packed,) = reply
        return cls(*marshal.loads(packed))  # noqa: S302 (ours)


class _Part:
    """Runs in a process that reads some of the connections: makes the index rows of their exchanges."""

    def __init__(self, reader: Reader, changes: Changes, jobs: int) -> None:
        self._reader = reader
        self._changes = changes
        self._jobs = jobs
        self._knowledge = _Unresolved()
        nodes = AnnouncedNodes(self._knowledge.announced)
        self._summaries = Summariser(reader.source, reader.definitions, self._knowledge, nodes)
        self._inherited = reader.numbering.connections
        self._health = _counts(reader.health)
        self._begun = False

    def answer(self, message: bytearray) -> Iterator[bytes]:
        turn, size, work = marshal.loads(message)  # noqa: S302 (ours)
        reader = self._reader
        if not self._begun:
            self._begun = True
            reader.keep([part for part in range(PARTS) if part % self._jobs == turn])
        if reader.source.size < size:
            with contextlib.suppress(CaptureError):  # the joining process reports the error
                reader.source.catch_up()
        known = reader.numbering.connections
        if isinstance(work, int):
            reader.end(work)
        else:
            reader.take(_unpacked(work))
        yield self._made(known)

    def _made(self, known: int) -> bytes:
        """The result for a batch, packed for _Made; connections up to number `known` existed before the batch."""
        reader = self._reader
        ranks = {id(connection): rank for connection, rank in reader.ranks}
        begun_at = {id(exchange): at for at, exchange in reader.began}
        done = [(at, item) for at, item in reader.done if isinstance(item, Exchange) and item.number > 0]
        changed = self._changes.of(reader.started, [item for _, item in done])
        began = len(changed.began)
        block = Block()
        learnt: list[Row] = []
        asked: list[tuple[Key, int]] = []

        def key(place: int) -> Key:
            if place < began:
                exchange = changed.began[place]
                return 0, begun_at[id(exchange)], ranks[id(exchange.connection)]
            if place < began + len(done):
                at, exchange = done[place - began]
                return 1, at, ranks[id(exchange.connection)]
            return 2, changed.known[place - began - len(done)].number, 0

        announced = self._knowledge.announced
        connections: dict[int, Connection] = {}
        for place, exchange in enumerate(chain(*changed)):
            summary = self._summaries.of(exchange)
            block.add(exchange, summary)
            connections[exchange.connection.number] = exchange.connection
            if _OPEN in summary.label:
                asked.append((key(place), place))
            if announced:
                own = key(place)
                learnt += ((own, *fact) for fact in announced)
                announced.clear()
        opened: dict[int, int] = {}
        for place, (_, exchange) in enumerate(reader.began):
            number = exchange.connection.number
            if number > known:
                opened.setdefault(number, place)
        health = _counts(reader.health)
        return marshal.dumps(
            (
                array("q", [at for at, _ in reader.began]).tobytes(),
                array("q", [ranks[id(exchange.connection)] for _, exchange in reader.began]).tobytes(),
                list(opened.items()),
                began,
                len(done),
                block.pack(),
                learnt,
                asked,
                [
                    (at, ranks[id(item.connection)], pickle.dumps(item))
                    for at, item in reader.done
                    if isinstance(item, StreamProblem)
                ],
                [(one.number, one.client, one.broker, one.first_time) for one in connections.values()],
                [one.number for one in reader.ended if one.number],
                tuple(now - before for now, before in zip(health, self._health, strict=True)),
            ),
            _VERSION,
        )


class _Unresolved(AnnouncedKnowledge):
    """Gives for each topic id a text that the joining process replaces by the name."""

    def topic(self, topic_id: Buffer) -> str:
        return f"{_OPEN}{topic_id.hex()}{_CLOSE}"


def _counts(health: Health) -> tuple[int, ...]:
    return tuple(getattr(health, name) for name in _COUNTS)


def _packed(share: Share) -> Row:
    packets = share.packets
    columns = np.concatenate(
        (
            packets.direction, packets.time, packets.seq, packets.ack, packets.flags, packets.at, packets.length,
            packets.stored, share.which, share.reached, share.clock,
        )
    )  # fmt: skip
    return packets.directions, packets.comments, columns.tobytes(), share.now, share.time, share.missing


def _unpacked(packed: Row) -> Share:
    directions, comments, columns, now, latest, missing = packed
    direction, time, seq, ack, flags, at, length, stored, which, reached, clock = np.frombuffer(
        columns, np.int64
    ).reshape(11, -1)
    packets = Packets(directions, direction, time, seq, ack, flags, at, length, stored, comments)
    return Share(packets, which, reached, clock, now, latest, missing)
