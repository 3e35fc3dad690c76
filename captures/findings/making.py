"""Makes the facts of a reading from exchanges, problems and ends of connections, in the order in which these completed.

This is the order of capture addresses, so it does not depend on the batches in which a capture is read: live and
offline reading give the same facts in the same order. Items that become complete only because the capture ends come
last, ordered by time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from kproxy.captures.bodies import Bodies
from kproxy.captures.findings import (
    admin_facts,
    cluster_facts,
    data_facts,
    facts,
    fetch_facts,
    group_facts,
    log_facts,
    member_facts,
    metadata_facts,
    response_facts,
    secret_facts,
    share_facts,
    start_facts,
    tcp_facts,
    transaction_facts,
)
from kproxy.captures.findings.decoded_exchange import DecodedExchange
from kproxy.captures.findings.facts import At, Fact
from kproxy.captures.findings.metadata_log import MetadataLog
from kproxy.captures.findings.produced import parts_of
from kproxy.captures.findings.sampling import MAKES, Sampler
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health, Status, StreamProblem
from kproxy.decoders.frames import codes
from kproxy.decoders.knowledge import TEACHING, Knowledge
from kproxy.decoders.learning import learn_both
from kproxy.decoders.sasl.session import Session
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import END_OF_CAPTURE, Source

if TYPE_CHECKING:
    from kproxy.captures.reader import Closing, Item

READERS = (
    data_facts.READERS,
    log_facts.READERS,
    metadata_facts.READERS,
    member_facts.READERS,
    transaction_facts.READERS,
    secret_facts.READERS,
    admin_facts.READERS,
    cluster_facts.READERS,
    share_facts.READERS,
    start_facts.READERS,
    response_facts.READERS,
    group_facts.READERS,
)
"""Tables of functions that make facts from bodies, by API key: one table a module. An API may be in several."""
DATA = frozenset({api_keys.PRODUCE, api_keys.FETCH})
"""APIs whose error codes are in PartitionIO facts, so that `DecodedExchange.errors` omits them."""
LATEST = 1 << 15
START = frozenset({api_keys.METADATA, 10, 17, api_keys.API_VERSIONS, 22, 36, 60})
"""APIs that clients use while they start. A connection has "done work" once it used another API."""
REPLACED = {3: 0, 10: 0, 4: LATEST, 5: LATEST, 6: LATEST, 7: LATEST, 33: LATEST}
"""Maps an API key to the highest version that newer Kafka replaces by a later version or another API.

These are the first versions of Metadata and FindCoordinator, all of AlterConfigs, and all control requests of
ZooKeeper mode.
"""
UNANSWERED: Final = Status.NO_RESPONSE
SERVED: Final = frozenset({Status.OK, Status.NO_REPLY_EXPECTED})
CONNECTIONS = 20_000
"""Maximum number of open connections whose state is remembered."""
REPEATED = frozenset({api_keys.HEARTBEAT, 68, 76, 88})
"""APIs whose exchanges usually repeat the connection's previous one, except for the correlation id: heartbeats."""
SMALL = 1_024
"""Maximum size in bytes, request and response together, of an exchange of REPEATED that is remembered."""
AFTER_ID = 8
"""Offset in a response's frame of the first byte after the correlation id."""
BEFORE_ID, AFTER_REQUEST_ID = slice(4, 8), slice(12, None)
"""Slices of a request's frame: API key and version, and all bytes after the correlation id."""
CLEAR = {"PLAIN": "password", "OAUTHBEARER": "token"}
"""The SASL mechanisms that send a secret in clear, and the name of that secret."""
_time = itemgetter(0)
_address = attrgetter("at")
_address_and_time = attrgetter("at", "time")


class Seen:
    """What is remembered of an open connection."""

    __slots__ = ("beat", "peer", "works")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.works: bool | None = None
        """Whether the connection has done work (see START); None until a broker served one of its exchanges."""
        self.beat: tuple[bytes, bytes, bytes, list[Fact]] | None = None
        """The latest exchange of REPEATED: its bytes without correlation ids, in three parts, and its facts."""


class FactMaker:
    """Makes the facts of one reading whose types are wanted.

    Decodes each body at most once, and only bodies that these facts need.
    """

    def __init__(
        self,
        source: Source,
        definitions: Definitions,
        wanted: Iterable[type[Fact]],
        health: Health | None = None,
        is_idle: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """`health`, if given, counts frames that could not be decoded.

        `is_idle` returns, for Produce or Fetch, whether no analyzer currently uses its error-free PartitionIO facts.
        """
        self._health = health or Health()
        self._log = MetadataLog()
        self._idle = False
        """Whether no analyzer currently uses error-free PartitionIO facts of Produce."""
        self._sampler = Sampler()
        self._knowledge = Knowledge()
        self._open: dict[int, Seen] = {}
        """The open connections, by connection number."""
        self.prepare(source, definitions, wanted, is_idle)

    def prepare(
        self, source: Source, definitions: Definitions, wanted: Iterable[type[Fact]], is_idle: Callable[[int], bool]
    ) -> None:
        """Set the attributes that do not depend on traffic. A stored maker lacks them: loading it calls this again."""
        self._source = source
        self._definitions = definitions
        self._is_idle = is_idle
        self._wanted = frozenset(wanted)
        if getattr(source, "decrypted", False):
            self._wanted -= {facts.Secret}
        self._readers: dict[int, tuple[Callable[[DecodedExchange], Iterable[Fact]], ...]] = {}
        """Maps each API key to the functions that make facts of wanted types."""
        for table in (*READERS, fetch_facts.readers()):
            for key, one in table.items():
                if one.makes & self._wanted:
                    read = one.read if one.makes <= self._wanted else partial(_some, one.read, self._wanted)
                    self._readers[key] = (*self._readers.get(key, ()), read)
        self._samples = bool(MAKES & self._wanted)
        if self._samples:
            for key in DATA:
                self._readers.setdefault(key, ())
        self._decoded = TEACHING | self._readers.keys()
        """The APIs whose bodies are decoded."""
        self._beginnings = facts.Beginning in self._wanted

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("_health", "_log", "_idle", "_sampler", "_knowledge", "_open")}

    def make(self, items: Iterable[Item], closings: Iterable[Closing] = ()) -> list[Fact]:
        """The facts of a reader's batch: of its items and of the connections that ended in it, in address order.

        Items and ends that became complete only because the capture ended come last, in the order of time.
        """
        self._idle = self._is_idle(api_keys.PRODUCE)
        ended = {id(one.connection): one for one in closings}
        ends = sorted((one for one in ended.values() if one.how != END_OF_CAPTURE), key=_address_and_time)[::-1]
        last: list[tuple[int, Item | Closing]] = []
        made: list[Fact] = []
        for item in items:
            closing = ended.get(id(item.connection)) if ended else None
            time = when(item)
            if closing is not None and closing.how == END_OF_CAPTURE:
                last.append((time, item))
                continue
            while ends and ends[-1].at < _place(item):
                self._close(ends.pop(), made)
            self._take(item, time, made)
        while ends:
            self._close(ends.pop(), made)
        last += ((one.time, one) for one in ended.values() if one.how == END_OF_CAPTURE)
        last.sort(key=_time)
        for time, one in last:
            if isinstance(one, Exchange | StreamProblem):
                self._take(one, time, made)
            else:
                self._close(one, made)
        return made

    def of(self, one: Item | Closing, time: int) -> list[Fact]:
        """The facts of one item, or of the end of one connection. Calls must come in the order that `make` uses.

        `time` is what `when` returns for it, in ns.
        """
        self._idle = self._is_idle(api_keys.PRODUCE)
        made: list[Fact] = []
        if isinstance(one, Exchange | StreamProblem):
            self._take(one, time, made)
        else:
            self._close(one, made)
        return made

    def finish(self) -> list[Fact]:
        """The facts of samples that were still waiting for the end of their slot when the capture ended."""
        return self._of_wanted(self._sampler.finish()) if self._samples else []

    def _of_wanted(self, made: Iterable[Fact]) -> list[Fact]:
        return [fact for fact in made if type(fact) in self._wanted]

    def _close(self, closing: Closing, out: list[Fact]) -> None:
        """Append the facts of a connection that ended."""
        seen = self._open.pop(closing.connection.number, None)
        at = _at(closing.connection, closing.time)
        if seen is not None:
            at = at._replace(peer=seen.peer)  # share one string instead of keeping two equal ones
        if not closing.syns:
            out.append(_closed(closing, at))
        out += tcp_facts.of(closing, at)

    def _take(self, item: Item, time: int, out: list[Fact]) -> None:
        """Append the facts of an item, and those of samples whose slot is over at the item's time."""
        if isinstance(item, StreamProblem):
            side = "broker" if item.side else "client"
            out.append(facts.Trouble(_at(item.connection, time), item.code, side, item.offset, item.size, item.message))
        else:
            self._exchange(item, time, out)
        if self._samples and time >= self._sampler.due:
            out += self._of_wanted(self._sampler.facts(time))

    def _exchange(self, item: Exchange, time: int, out: list[Fact]) -> None:
        """Append the facts of an exchange."""
        request, response, connection, key = item.request, item.response, item.connection, item.api_key
        seen = self._open.get(connection.number) or self._opened(connection)
        if key is None or item.protocol is not None:
            key = -1
        version = -1 if item.api_version is None else item.api_version
        at = At(
            time, time if request is None else request.time, item.number, connection.number, seen.peer,
            item.client_id or "", connection.broker, key, version,
        )  # fmt: skip
        size = 0 if response is None else response.length
        out.append(facts.Exchange(at, item.status, 0 if request is None else request.length, size))
        if not seen.works and self._beginnings and key >= 0 and item.status in SERVED:
            self._begin(seen, at, out)
        if key in REPLACED and 0 <= version <= REPLACED[key] and facts.Replaced in self._wanted:
            out.append(facts.Replaced(at))
        if item.problems:
            out += [facts.Trouble(at, one.code, one.where, one.offset, 0, one.message) for one in item.problems]
        if item.session is not None:
            self._authenticate(item.session, at, out)
        if key not in self._decoded or item.token:
            return
        if key in REPEATED and request is not None and response is not None and _is_small(request, response):
            self._beat(item, request, response, seen, at, out)
        else:
            self._decode(item, at, size, out)

    def _opened(self, connection: Connection) -> Seen:
        seen = self._open[connection.number] = Seen(_host(connection))
        if len(self._open) > CONNECTIONS:
            del self._open[next(iter(self._open))]
        return seen

    def _begin(self, seen: Seen, at: At, out: list[Fact]) -> None:
        """Append a Beginning if this is the connection's first served exchange, or the first that does work."""
        work = at.key not in START
        if work or seen.works is None:
            seen.works = work
            out.append(facts.Beginning(at, work))

    def _authenticate(self, one: Session, at: At, out: list[Fact]) -> None:
        """Append the facts of an exchange of SASL."""
        if facts.Auth in self._wanted:
            out.append(facts.Auth(at, one.state, one.mechanism, one.offered, one.principal, one.lifetime_ms, one.error))
        clear = None if at.key == api_keys.SASL_HANDSHAKE else one.mechanism
        if clear in CLEAR and facts.Secret in self._wanted:
            out.append(facts.Secret(at, f"the {CLEAR[clear]} of SASL/{clear}"))

    def _beat(self, item: Exchange, request: Frame, response: Frame, seen: Seen, at: At, out: list[Fact]) -> None:
        """Append the facts of an exchange of REPEATED; copy those of the previous one if its bytes were equal."""
        asked, answered = request.data(self._source), response.data(self._source)
        parts = bytes(asked[BEFORE_ID]), bytes(asked[AFTER_REQUEST_ID]), bytes(answered[AFTER_ID:])
        before = seen.beat
        if before is not None and before[:3] == parts:
            out += [type(fact)(at, *fact[1:]) for fact in before[3]]
            return
        made: list[Fact] = []
        if self._decode(item, at, response.length, made):
            seen.beat = (*parts, made)
        out += made

    def _decode(self, item: Exchange, at: At, size: int, out: list[Fact]) -> bool:
        """Append the facts from the bodies of an exchange; returns whether both bodies were decoded completely.

        `size` is that of the response's frame in bytes.
        """
        key = at.key
        bodies = Bodies(item, self._source, self._definitions)
        self._health.undecoded += bodies.undecoded
        if key in TEACHING:
            learn_both(bodies.request, bodies.response, self._knowledge)
        readers, asked, response = self._readers.get(key), bodies.asked, bodies.response
        if readers is not None:
            answered = {} if response is None or response.body is None else response.body
            wait = answered.get("throttleTimeMs")
            if wait and wait > 0 and response is not None and not response.problems and facts.Throttle in self._wanted:
                out.append(facts.Throttle(at, wait))
        if readers is not None and asked is not None:
            errors = [] if response is None or key in DATA else codes(response, item, self._definitions)
            parts = parts_of(asked, answered, self._knowledge) if key == api_keys.PRODUCE else ()
            decoded = DecodedExchange(
                at, asked, answered, bodies.answered is not None, self._knowledge, errors, self._wanted, self._log,
                self._idle, size, not bodies.problems, parts,
            )  # fmt: skip
            for read in readers:
                out += read(decoded)
            for part in parts:
                if part.error:
                    self._idle = False  # this error may create an analyzer, which needs the facts that follow
            if self._samples and key in DATA:
                self._sampler.take(decoded)
        return not bodies.problems and not bodies.cut


def _some(
    read: Callable[[DecodedExchange], Iterable[Fact]], wanted: frozenset[type[Fact]], decoded: DecodedExchange
) -> list[Fact]:
    """The facts of wanted types that `read` makes."""
    return [fact for fact in read(decoded) if type(fact) in wanted]


def _is_small(request: Frame, response: Frame) -> bool:
    """Whether both frames are complete, and small enough to be remembered."""
    return request.size + response.size <= SMALL and not request.missing and not response.missing


def when(item: Item) -> int:
    """The time (ns) of the packet that completed an item; without a response, that of its connection's last packet."""
    if isinstance(item, StreamProblem):
        return item.time
    frame = item.response or item.request
    time = 0 if frame is None else frame.time
    return max(time, item.end.last_time) if item.end is not None and item.status is UNANSWERED else time


def _place(item: Item) -> int:
    """The address of the bytes that completed an item, or of its connection's end if a response is missing."""
    if isinstance(item, StreamProblem):
        return item.at
    if item.end is not None and item.status is UNANSWERED:
        return item.end.at
    frame = item.response or item.request
    return 0 if frame is None else frame.at


def in_order(exchanges: Sequence[Exchange], problems: Sequence[StreamProblem]) -> list[Item]:
    """Merges exchanges and problems in the order of the addresses at which they became complete."""
    items: list[Item] = []
    left = sorted(problems, key=_address, reverse=True)
    for exchange in exchanges:
        while left and left[-1].at < _place(exchange):
            items.append(left.pop())
        items.append(exchange)
    return [*items, *reversed(left)]


def _at(connection: Connection, time: int) -> At:
    """The `At` of a fact that belongs to a connection, but to no exchange."""
    return At(time, time, 0, connection.number, _host(connection), "", connection.broker, -1, -1)


def _host(connection: Connection) -> str:
    """The client's host, without port."""
    return connection.client.rpartition(":")[0]


def _closed(closing: Closing, at: At) -> Fact:
    connection = closing.connection
    return facts.Closed(
        at, closing.how, bool(connection.opened), connection.first_time, *closing.sent,
        closing.first, None if closing.closer is None else "broker" if closing.closer else "client",
        closing.left,
    )  # fmt: skip
