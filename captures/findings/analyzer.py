"""What a rule's code is: an analyzer, the state of one key (a connection, a group, ...), fed with facts about it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar

from kproxy.captures.findings.facts import At, Closed, Fact
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Finding, Impact, Number, Scope, Severity
from kproxy.decoders.exchange import Status
from kproxy.decoders.schema import store
from kproxy.decoders.schema.apis import all_apis

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
SECOND = 1_000_000_000
MILLISECOND = 1_000_000


class Key(Enum):
    """By what facts are dealt to analyzers: (the name of the scope, the most keys that one analysis keeps)."""

    CONNECTION = "connection", 20_000
    CLIENT = "client", 20_000
    GROUP = "group", 5_000
    TRANSACTION = "transaction", 10_000
    PARTITION = "partition", 100_000
    TOPIC = "topic", 5_000
    BROKER = "broker", 2_000
    CLUSTER = "cluster", 1

    @property
    def most(self) -> int:
        return self.value[1]

    @property
    def getter(self) -> Callable[[Any], Hashable]:
        """Gives a fact's key of this kind."""
        return _KEYS[self]

    def scope(self, key: Any) -> Scope:
        """The key as text."""
        return Scope(self.value[0], _TEXTS[self](key))


_KEYS: dict[Key, Callable[[Any], Hashable]] = {
    Key.CONNECTION: attrgetter("at.connection"),
    Key.CLIENT: attrgetter("at.client_id", "at.peer"),
    Key.GROUP: attrgetter("group"),
    Key.TRANSACTION: attrgetter("transactional_id"),
    Key.PARTITION: attrgetter("topic", "partition"),
    Key.TOPIC: attrgetter("topic"),
    Key.BROKER: attrgetter("at.broker"),
    Key.CLUSTER: lambda _: "",
}
_TEXTS: dict[Key, Callable[[Any], str]] = {
    Key.CLIENT: lambda key: f"{key[0]}@{key[1]}",
    Key.PARTITION: lambda key: f"{key[0]}-{key[1]}",
} | {key: str for key in Key if key not in {Key.CLIENT, Key.PARTITION}}


class Context(Protocol):
    """What the engine gives an analyzer. All times are the capture's."""

    @property
    def key(self) -> Any:
        """The key whose state the analyzer is."""

    @property
    def now(self) -> int:
        """The latest time of any fact so far."""

    def limit(self, rule: str, name: str) -> float:
        """A threshold of a rule, as the user set it."""

    def report(
        self,
        rule: str,
        *evidence: Evidence,
        numbers: dict[str, Number],
        impact: Impact,
        episode: Hashable = None,
        scope: Scope | None = None,
        severity: Severity | None = None,
        confidence: Confidence | None = None,
        actors: tuple[Actor, ...] = (),
        cause: str | None = None,
    ) -> Finding | None:
        """Open a finding, or add to the one with the same rule, scope and episode; the first evidence dates it.

        `scope` is the key's unless given; `numbers` and `impact` are those of the whole episode up to now, severity and
        confidence only rise. None if there are too many findings: then it is only counted.
        """

    def wake(self, time: int) -> None:
        """Call `tick` once the capture has reached a time; only the earliest time that was asked for counts."""

    def rest(self) -> None:
        """Nothing more about this key matters: drop the analyzer, which is fed no further fact."""

    def closed(self, connection: int) -> Closed | None:
        """How and when a connection ended, if it did lately."""

    def whole(self, connection: int) -> bool:
        """Whether nothing of a connection is known to be missing: without this, a silence proves nothing."""


class Analyzer:
    """The state of one key; a subclass is made with its context and overrides what it needs.

    Facts may come in any order, and some never: nothing may raise, and what is kept must be bounded.
    """

    __slots__ = ()

    def feed(self, fact: Any) -> None:
        """The next fact of this key."""

    def tick(self) -> None:
        """The time that was asked for by `Context.wake` has come, and no fact since then."""

    def close(self) -> None:
        """The capture ends, or the state is evicted."""


class Analysis(NamedTuple):
    """A kind of analyzer: the rules that it reports, by what it is keyed, and the facts that it is fed.

    Four fields keep ordinary traffic cheap. `errors`: facts reach only keys that had a fact with one of these errors.
    `partition_api`: of the facts PartitionIO only those of this API, Produce or Fetch. `status`: of the facts Exchange
    only those with this status. `every_heartbeat`: whether facts Member reach the analyzer that are heartbeats without
    an error and say the same as the fact Member before on the connection; what it would learn is that the member lives.
    """

    rules: frozenset[str]
    key: Key
    facts: tuple[type[Fact], ...]
    new: Callable[[Context], Analyzer]
    errors: frozenset[int] | None = None
    partition_api: int | None = None
    status: Status | None = None
    every_heartbeat: bool = True


def remember(kept: dict[K, V], key: K, value: V, most: int = 1_000) -> None:
    """Keep a value as the newest; beyond `most` the oldest gives way."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def append(kept: list[V], value: V, most: int) -> None:
    """Append to a list; beyond `most` elements the first gives way.

    For what stays short with most keys: an empty deque takes 0.6 kB, which counts with 20,000 clients.
    """
    kept.append(value)
    if len(kept) > most:
        del kept[0]


def error_streak(streaks: dict[str, tuple[At, int]], key: str, at: At, most: int = 1_000) -> tuple[At, int]:
    """Count an error of a key; returns the first one since the key was last removed, and their number."""
    first, count = streaks.get(key, (at, 0))
    remember(streaks, key, (first, count + 1), most)
    return first, count + 1


def api_name(key: int) -> str:
    """The name of Kafka's API with this key, "key 32001" for an unknown one."""
    api = all_apis(store.releases()[0]).get(key)
    return f"key {key}" if api is None else api.name


def error_field(code: int) -> str:
    """The path of evidence for an error code in a response."""
    return f"response.errorCode={code}"


def at_evidence(at: At, role: str, note: str, *, path: str | None = None, weight: float = 0) -> Evidence:
    """The exchange of a fact as evidence, at the time of its answer."""
    return Evidence(at.exchange, at.time, at.connection, role, note, path, weight)
