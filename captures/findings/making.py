"""Facts of a reading: from exchanges, problems and the ends of connections, in the order of capture time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from kproxy.captures.bodies import Bodies
from kproxy.captures.findings import facts
from kproxy.captures.findings.body_facts import READERS, Said
from kproxy.captures.findings.facts import At, Fact
from kproxy.decoders.exchange import Connection, Exchange, Health, Status, StreamProblem
from kproxy.decoders.frames import codes
from kproxy.decoders.knowledge import TEACHING, Knowledge
from kproxy.decoders.learning import learn_both
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Source

if TYPE_CHECKING:
    from kproxy.captures.reader import Closing, Item

DATA = frozenset({api_keys.PRODUCE, api_keys.FETCH})
"""APIs whose errors stand in their facts of partitions."""
_time = itemgetter(0)


class FactMaker:
    """Makes the facts of one reading that somebody wants; decodes each body at most once, and none in vain."""

    def __init__(
        self, source: Source, definitions: Definitions, wanted: Iterable[type[Fact]], health: Health | None = None
    ) -> None:
        """`health`, if present, counts undecodable frames."""
        self._source = source
        self._definitions = definitions
        self._health = health or Health()
        self._wanted = frozenset(wanted)
        self._answers = facts.Answer in self._wanted
        self._readers = {key: one.read for key, one in READERS.items() if one.makes & self._wanted}
        self._knowledge = Knowledge()

    def make(self, items: Iterable[Item], closings: Iterable[Closing] = ()) -> Iterator[Fact]:
        """The facts of a reader's batch: its items, and the connections that ended in it."""
        ended = {id(one.connection): one.time for one in closings}
        timed = [(_when(item, ended), item) for item in items]
        timed.sort(key=_time)
        ends = sorted(closings, key=attrgetter("time"), reverse=True)
        for time, item in timed:
            while ends and ends[-1].time < time:
                yield _closed(ends.pop())
            yield from self._item(item, time)
        while ends:
            yield _closed(ends.pop())

    def _item(self, item: Item, time: int) -> Iterator[Fact]:
        if isinstance(item, StreamProblem):
            side = "broker" if item.side else "client"
            yield facts.Trouble(_at(item.connection, time), item.code, side, item.offset, item.size, item.message)
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
        yield facts.Exchange(at, status, *sizes)
        for problem in item.problems:
            yield facts.Trouble(at, problem.code, problem.where, problem.offset, 0, problem.message)
        if item.session is not None and facts.Auth in self._wanted:
            session = item.session
            yield facts.Auth(
                at, session.state, session.mechanism, session.offered, session.principal, session.lifetime_ms,
                session.error,
            )  # fmt: skip
        read = self._readers.get(at.key)
        if (read is None and not self._answers and at.key not in TEACHING) or item.token or at.key < 0:
            return
        bodies = Bodies(item, self._source, self._definitions)
        self._health.undecoded += bodies.undecoded
        if at.key in TEACHING:
            learn_both(bodies.request, bodies.response, self._knowledge)
        yield from self._said(item, at, bodies)

    def _said(self, item: Exchange, at: At, bodies: Bodies) -> Iterator[Fact]:
        """What the bodies of an exchange say."""
        response = bodies.response
        errors: list[int] = []
        if response is not None and (self._answers or at.key not in DATA):
            errors = codes(response, item, self._definitions)
        answered = bodies.answered or {}
        if self._answers and response is not None:
            throttle = 0 if response.problems else answered.get("throttleTimeMs") or 0
            yield facts.Answer(at, tuple(errors), max(0, throttle))
        read = self._readers.get(at.key)
        if read is None:
            return
        said = Said(at, bodies.asked or {}, answered, bodies.answered is not None, self._knowledge, errors)
        if bodies.asked is not None:
            for fact in read(said):
                if type(fact) in self._wanted:
                    yield fact


def _when(item: Item, ended: dict[int, int]) -> int:
    """When an item was complete; a request without response, once its connection ended."""
    if isinstance(item, StreamProblem):
        return item.time
    frame = item.response or item.request
    time = 0 if frame is None else frame.time
    return max(time, ended.get(id(item.connection), 0)) if item.status is Status.NO_RESPONSE else time


def _at(connection: Connection, time: int) -> At:
    """The place of a fact that belongs to no exchange."""
    return At(time, time, 0, connection.number, connection.client.rpartition(":")[0], "", connection.broker, -1, -1)


def _closed(closing: Closing) -> Fact:
    connection = closing.connection
    return facts.Closed(
        _at(connection, closing.time), closing.how, bool(connection.opened), connection.first_time, *closing.sent,
        closing.first,
    )  # fmt: skip
