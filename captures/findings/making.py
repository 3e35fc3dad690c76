"""Facts of a reading: from exchanges, problems and the ends of connections, in the order in which they were complete.

That is the order of their addresses, so it does not depend on the batches in which a capture is read: live and offline
the same facts come in the same order. What only the end of the capture completes comes last, in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from kproxy.captures.bodies import Bodies
from kproxy.captures.findings import (
    admin_facts,
    body_facts,
    cluster_facts,
    facts,
    fetch_facts,
    group_facts,
    response_facts,
    share_facts,
    start_facts,
    tcp_facts,
)
from kproxy.captures.findings.body_facts import Said
from kproxy.captures.findings.facts import At, Fact
from kproxy.captures.findings.metadata_log import MetadataLog
from kproxy.captures.findings.sampling import MAKES, Sampler
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health, Status, StreamProblem
from kproxy.decoders.frames import codes
from kproxy.decoders.knowledge import TEACHING, Knowledge
from kproxy.decoders.learning import learn_both
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import END_OF_CAPTURE, Source

if TYPE_CHECKING:
    from kproxy.captures.reader import Closing, Item

READERS = (
    body_facts.READERS,
    admin_facts.READERS,
    cluster_facts.READERS,
    share_facts.READERS,
    start_facts.READERS,
    response_facts.READERS,
    group_facts.READERS,
)
"""Tables of what reads the bodies of an API; an API may be in several."""
DATA = frozenset({api_keys.PRODUCE, api_keys.FETCH})
"""APIs whose errors stand in their facts of partitions."""
LATEST = 1 << 15
START = frozenset({api_keys.METADATA, 10, 17, api_keys.API_VERSIONS, 22, 36, 60})
"""APIs that clients use at their start, over any connection: a client that does no more has done no work."""
REPLACED = {3: 0, 10: 0, 4: LATEST, 5: LATEST, 6: LATEST, 7: LATEST, 33: LATEST}
"""Versions of APIs up to which Kafka has something better.

These are the first ones of Metadata and FindCoordinator, AlterConfigs, and the commands of ZooKeeper mode.
"""
SERVED = frozenset({Status.OK, Status.NO_REPLY_EXPECTED})
CONNECTIONS = 20_000
"""Most open connections whose beginning, or latest heartbeat, is remembered."""
REPEATED = frozenset({api_keys.HEARTBEAT, 68, 76, 88})
"""APIs whose exchanges mostly repeat each other byte for byte, but for the correlation id."""
SMALL = 1_024
"""Most bytes of an exchange of REPEATED that is remembered."""
AFTER_ID = 8
"""Where the bytes after the correlation id begin in a response's frame."""
BEFORE_ID, AFTER_REQUEST_ID = slice(4, 8), slice(12, None)
"""Places in a request's frame: API key and version, and what follows the correlation id."""
CLEAR = {"PLAIN": "password", "OAUTHBEARER": "token"}
"""SASL mechanisms that send a secret as it is."""
_time = itemgetter(0)
_address = attrgetter("at")


class FactMaker:
    """Makes the facts of one reading that somebody wants; decodes each body at most once, and none in vain."""

    def __init__(
        self,
        source: Source,
        definitions: Definitions,
        wanted: Iterable[type[Fact]],
        health: Health | None = None,
        is_idle: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """`health`, if present, counts undecodable frames.

        `is_idle` tells for an API whether at present nobody wants its facts PartitionIO without an error.
        """
        self._source = source
        self._definitions = definitions
        self._health = health or Health()
        self._wanted = frozenset(wanted)
        if getattr(source, "decrypted", False):
            self._wanted -= {facts.Secret}
        self._answers = facts.Answer in self._wanted
        self._readers: dict[int, tuple[Callable[[Said], Iterator[Fact]], ...]] = {}
        """For each API the functions that make facts that somebody wants."""
        for table in (*READERS, fetch_facts.readers()):
            for key, one in table.items():
                if one.makes & self._wanted:
                    self._readers[key] = (*self._readers.get(key, ()), one.read)
        self._log = MetadataLog()
        self._is_idle = is_idle
        self._sampler = Sampler() if MAKES & self._wanted else None
        if self._sampler is not None:
            for key in DATA:
                self._readers.setdefault(key, (body_facts.READERS[key].read,))
        self._knowledge = Knowledge()
        self._beginnings = facts.Beginning in self._wanted
        self._beats: dict[int, tuple[bytes, bytes, bytes, list[Fact]]] = {}
        """For each open connection, the latest exchange of REPEATED without ids (3 parts), and its facts."""
        self._begun: dict[int, bool] = {}
        """Whether each open connection has done work."""

    def make(self, items: Iterable[Item], closings: Iterable[Closing] = ()) -> Iterator[Fact]:
        """The facts of a reader's batch: its items in their order, and the connections that ended in it.

        Of what the capture's end completes, which is the last batch, items are taken before any fact is given.
        """
        ended = {id(one.connection): one for one in closings}
        ends = sorted((one for one in ended.values() if one.how != END_OF_CAPTURE), key=_address, reverse=True)
        last: list[tuple[int, Item | Closing]] = []
        for item in items:
            closing = ended.get(id(item.connection))
            time = _when(item, closing)
            if closing is not None and closing.how == END_OF_CAPTURE:
                last.append((time, item))
                continue
            while ends and ends[-1].at < _place(item, closing):
                yield from self._closed(ends.pop())
            yield from self._of(item, time)
        while ends:
            yield from self._closed(ends.pop())
        last += ((one.time, one) for one in ended.values() if one.how == END_OF_CAPTURE)
        last.sort(key=_time)
        for time, one in last:
            if isinstance(one, Exchange | StreamProblem):
                yield from self._of(one, time)
            else:
                yield from self._closed(one)

    def _of(self, item: Item, time: int) -> Iterator[Fact]:
        """The facts of an item, and those for which its time is the time to make them."""
        found: list[Fact] = []
        self._item(item, time, found)
        yield from found
        if self._sampler is not None and time >= self._sampler.due:
            yield from self._of_wanted(self._sampler.facts(time))

    def finish(self) -> Iterator[Fact]:
        """The facts that wait for the end of the capture."""
        if self._sampler is not None:
            yield from self._of_wanted(self._sampler.finish())

    def _of_wanted(self, made: Iterable[Fact]) -> Iterator[Fact]:
        return (fact for fact in made if type(fact) in self._wanted)

    def _closed(self, closing: Closing) -> Iterator[Fact]:
        self._begun.pop(closing.connection.number, None)
        self._beats.pop(closing.connection.number, None)
        if not closing.syns:
            yield _closed(closing)
        yield from tcp_facts.of(closing, _at(closing.connection, closing.time))

    def _item(self, item: Item, time: int, out: list[Fact]) -> None:
        """Append the facts of an item."""
        if isinstance(item, StreamProblem):
            side = "broker" if item.side else "client"
            out.append(facts.Trouble(_at(item.connection, time), item.code, side, item.offset, item.size, item.message))
            return
        request, response, status = item.request, item.response, item.status
        asked = time if request is None else request.time
        peer = item.connection.client.rpartition(":")[0]
        at = At(
            time, asked, item.number, item.connection.number, peer, item.client_id or "", item.connection.broker,
            -1 if item.api_key is None or item.protocol is not None else item.api_key,
            -1 if item.api_version is None else item.api_version,
        )  # fmt: skip
        sizes = (0 if request is None else request.size + 4, 0 if response is None else response.size + 4)
        out.append(facts.Exchange(at, status, *sizes))
        if self._beginnings and self._begun.get(at.connection) is not True and at.key >= 0 and status in SERVED:
            out += self._beginning(at)
        if 0 <= at.version <= REPLACED.get(at.key, -1) and facts.Replaced in self._wanted:
            out.append(facts.Replaced(at))
        for problem in item.problems:
            out.append(facts.Trouble(at, problem.code, problem.where, problem.offset, 0, problem.message))
        if item.session is not None and facts.Auth in self._wanted:
            one = item.session
            out.append(facts.Auth(at, one.state, one.mechanism, one.offered, one.principal, one.lifetime_ms, one.error))
        clear = None if item.session is None or at.key == api_keys.SASL_HANDSHAKE else item.session.mechanism
        if clear in CLEAR and facts.Secret in self._wanted:
            out.append(facts.Secret(at, f"the {CLEAR[clear]} of SASL/{clear}"))
        if (at.key not in self._readers and not self._answers and at.key not in TEACHING) or item.token or at.key < 0:
            return
        if at.key in REPEATED and request is not None and response is not None and _is_small(request, response):
            self._beat(item, request, response, at, out)
        else:
            self._decoded(item, at, out)

    def _decoded(self, item: Exchange, at: At, out: list[Fact]) -> bool:
        """Append what the bodies of an exchange say; returns whether all of it could be read."""
        bodies = Bodies(item, self._source, self._definitions)
        self._health.undecoded += bodies.undecoded
        if at.key in TEACHING:
            learn_both(bodies.request, bodies.response, self._knowledge)
        self._said(item, at, bodies, out)
        return not bodies.problems and not bodies.cut

    def _beat(self, item: Exchange, request: Frame, response: Frame, at: At, out: list[Fact]) -> None:
        """Append the facts of an exchange of REPEATED: those of the one before on its connection if it repeats that."""
        asked, answered = request.data(self._source), response.data(self._source)
        parts = bytes(asked[BEFORE_ID]), bytes(asked[AFTER_REQUEST_ID]), bytes(answered[AFTER_ID:])
        before = self._beats.get(at.connection)
        if before is not None and before[:3] == parts:
            out += [type(fact)(at, *fact[1:]) for fact in before[3]]
            return
        made: list[Fact] = []
        if self._decoded(item, at, made):
            self._beats[at.connection] = (*parts, made)
            if len(self._beats) > CONNECTIONS:
                del self._beats[next(iter(self._beats))]
        out += made

    def _beginning(self, at: At) -> Iterator[Fact]:
        """A connection's first exchange, or its first one that does work."""
        work = at.key not in START
        if work or at.connection not in self._begun:
            self._begun[at.connection] = work
            if len(self._begun) > CONNECTIONS:
                del self._begun[next(iter(self._begun))]
            yield facts.Beginning(at, work)

    def _said(self, item: Exchange, at: At, bodies: Bodies, out: list[Fact]) -> None:
        """Append what the bodies of an exchange say."""
        response = bodies.response
        errors: list[int] = []
        if response is not None and (self._answers or at.key not in DATA):
            errors = codes(response, item, self._definitions)
        answered = bodies.answered or {}
        if self._answers and response is not None:
            throttle = 0 if response.problems else answered.get("throttleTimeMs") or 0
            out.append(facts.Answer(at, tuple(errors), max(0, throttle)))
        readers = self._readers.get(at.key)
        if readers is None:
            return
        wait = answered.get("throttleTimeMs")
        if wait and facts.Throttle in self._wanted and response is not None and not response.problems and wait > 0:
            out.append(facts.Throttle(at, wait))
        said = Said(
            at, bodies.asked or {}, answered, bodies.answered is not None, self._knowledge, errors, self._wanted,
            self._log, at.key in DATA and self._is_idle(at.key), 0 if item.response is None else item.response.size + 4,
            not bodies.problems,
        )  # fmt: skip
        if bodies.asked is not None:
            wanted = self._wanted
            for read in readers:
                out += [fact for fact in read(said) if type(fact) in wanted]
            if self._sampler is not None and at.key in DATA:
                self._sampler.take(said)


def _is_small(request: Frame, response: Frame) -> bool:
    """Whether two frames are whole, and small enough to be remembered."""
    return request.size + response.size <= SMALL and not request.missing and not response.missing


def _when(item: Item, closing: Closing | None) -> int:
    """The time at which an item was complete; of a request without response that at which its connection ended.

    `closing` is the end of its connection, if both became known together.
    """
    if isinstance(item, StreamProblem):
        return item.time
    frame = item.response or item.request
    time = 0 if frame is None else frame.time
    return max(time, closing.time) if closing is not None and item.status is Status.NO_RESPONSE else time


def _place(item: Item, closing: Closing | None = None) -> int:
    """The address of the bytes that completed an item, or of the end of its connection; see `_when`."""
    if isinstance(item, StreamProblem):
        return item.at
    if closing is not None and item.status is Status.NO_RESPONSE:
        return closing.at
    frame = item.response or item.request
    return 0 if frame is None else frame.at


def in_order(exchanges: Sequence[Exchange], problems: Sequence[StreamProblem]) -> list[Item]:
    """Exchanges, in the order in which they were complete, with problems of streams at their places among them."""
    items: list[Item] = []
    left = sorted(problems, key=_address, reverse=True)
    for exchange in exchanges:
        while left and left[-1].at < _place(exchange):
            items.append(left.pop())
        items.append(exchange)
    return [*items, *reversed(left)]


def _at(connection: Connection, time: int) -> At:
    """The place of a fact that belongs to no exchange."""
    return At(time, time, 0, connection.number, connection.client.rpartition(":")[0], "", connection.broker, -1, -1)


def _closed(closing: Closing) -> Fact:
    connection = closing.connection
    return facts.Closed(
        _at(connection, closing.time), closing.how, bool(connection.opened), connection.first_time, *closing.sent,
        closing.first, None if closing.closer is None else "broker" if closing.closer else "client",
        closing.left,
    )  # fmt: skip
