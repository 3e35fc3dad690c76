"""The interface of a rule's code: an analyzer holds the state of one key (a connection, a group, …) and takes facts."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar

from kproxy.captures.findings.facts import At, End, Fact
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Finding, Impact, Number, Scope, Severity
from kproxy.decoders.exchange import Status
from kproxy.decoders.schema import store
from kproxy.decoders.schema.apis import all_apis

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
SECOND = 1_000_000_000
MILLISECOND = 1_000_000


class Key(Enum):
    """Kinds of keys by which analyzers get facts: (name of the scope, maximum number of keys of one analysis)."""

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
        """A function that returns a fact's key of this kind."""
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
    """The interface through which an analyzer reads its settings and reports findings. All times are capture times."""

    @property
    def key(self) -> Any:
        """The key whose state this analyzer holds."""

    @property
    def now(self) -> int:
        """The latest time of any fact so far."""

    def limit(self, rule: str, name: str) -> float:
        """The value of a rule's threshold: the user's value if there is one, otherwise the default."""

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
        """Open a finding, or extend the one with the same rule, scope and episode; the first evidence gives its time.

        By default `scope` is that of the key. `numbers` and `impact` are those of the whole episode so far. Severity
        and confidence of a finding only rise. Returns None, and only counts the finding, if there are too many.
        """

    def wake(self, time: int) -> None:
        """Ask for a call of `tick` once the capture has reached `time`; of several times, the earliest counts."""

    def rest(self) -> None:
        """Drop this analyzer: its key needs no further facts."""

    def closed(self, connection: int) -> End | None:
        """How and when a connection ended; None if it is open or ended long ago."""

    def whole(self, connection: int) -> bool:
        """Whether the capture has all bytes of a connection, as far as is known; otherwise a silence proves nothing."""


class Analyzer:
    """The state of one key. A subclass takes its context and overrides the methods that it needs.

    Facts may come in any order, and some never come. So no method may raise, and every container must be bounded.
    """

    __slots__ = ()

    def feed(self, fact: Any) -> None:
        """Take the next fact of this key."""

    def tick(self) -> None:
        """Called once the capture has reached the time that `Context.wake` asked for."""

    def close(self) -> None:
        """Called when the capture ends or when this state is dropped to make room."""


class Analysis(NamedTuple):
    """A kind of analyzer: the rules that it reports, the kind of its key, and the types of facts that it takes.

    Five fields save work on ordinary traffic. `errors`: an analyzer exists only for keys that had a fact with one of
    these errors. `begins`: an analyzer exists only for keys that had a fact of one of these types, or a Member fact
    with one of these values of `what`. `partition_api`: of PartitionIO, the analyzer takes only the facts of this API
    (Produce or Fetch). `status`: of Exchange, it takes only the facts with this status. `every_heartbeat`: whether it
    also takes a Member fact of a heartbeat that succeeded and repeats the previous Member fact of its connection; such
    a fact only shows that the member is alive.
    """

    rules: frozenset[str]
    key: Key
    facts: tuple[type[Fact], ...]
    new: Callable[[Context], Analyzer]
    errors: frozenset[int] | None = None
    begins: frozenset[type[Fact] | str] | None = None
    partition_api: int | None = None
    status: Status | None = None
    every_heartbeat: bool = True


def remember(kept: dict[K, V], key: K, value: V, most: int = 1_000) -> None:
    """Store a value as the newest; if there are then more than `most`, remove the oldest."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def append(kept: list[V], value: V, most: int) -> None:
    """Append to a list; if it then has more than `most` elements, remove the first.

    For lists that are short for most keys: an empty deque takes 0.6 kB, which is too much for 20,000 clients.
    """
    kept.append(value)
    if len(kept) > most:
        del kept[0]


def error_streak(streaks: dict[str, tuple[At, int]], key: str, at: At, most: int = 1_000) -> tuple[At, int]:
    """Count an error of a key; returns (first error since the key was last removed, number of errors since then)."""
    first, count = streaks.get(key, (at, 0))
    remember(streaks, key, (first, count + 1), most)
    return first, count + 1


def lasting_errors(
    context: Context, rule: str, streaks: dict[str, tuple[At, int]], key: str, at: At
) -> tuple[At, int, int] | None:
    """Count an error of a key; returns (first error, number of errors, nanoseconds between first and last).

    Returns None below the rule's thresholds `errors` and `lasts_ms`.
    """
    first, count = error_streak(streaks, key, at)
    lasted = at.time - first.time
    if count < context.limit(rule, "errors") or lasted < context.limit(rule, "lasts_ms") * MILLISECOND:
        return None
    return first, count, lasted


def api_name(key: int) -> str:
    """The name of Kafka's API with this key, "key 32001" for an unknown one."""
    api = all_apis(store.releases()[0]).get(key)
    return f"key {key}" if api is None else api.name


def error_field(code: int) -> str:
    """The field path of an error code in a response, in the form of `Evidence.path`."""
    return f"response.errorCode={code}"


def at_evidence(at: At, role: str, note: str, *, path: str | None = None, weight: float = 0) -> Evidence:
    """The exchange of a fact as evidence, at the time of its answer."""
    return Evidence(at.exchange, at.time, at.connection, role, note, path, weight)
