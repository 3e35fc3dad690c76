"""The interface of a rule's code. An analyzer receives the facts about one connection, group, … and keeps its state."""

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
    """The kinds of things that have analyzers. Values: (name of the scope, maximum number of keys at a time)."""

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
        """A function that returns the key of this kind from a fact, such as the fact's topic."""
        return _KEYS[self]

    def scope(self, key: Any) -> Scope:
        """The scope of findings about a key of this kind; its name is the key as text."""
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
    """How an analyzer reads thresholds, reports findings and asks to be called. All times are capture times (ns)."""

    @property
    def key(self) -> Any:
        """The connection, group, … whose facts this analyzer receives."""

    @property
    def now(self) -> int:
        """The latest time (ns) of all facts that were received until here."""

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
        """Open a finding, or extend the existing finding with the same rule, scope and episode.

        The earliest evidence of a new finding gives its time. By default `scope` is the analyzer's key. `numbers` and
        `impact` replace the earlier ones, so they must cover the whole episode. Severity and confidence never fall.
        Returns None if the engine already keeps the maximum number of findings; a new one is then only counted.
        """

    def wake(self, time: int) -> None:
        """Ask for a call of `tick` at the capture time `time` (ns). Only the earliest pending time causes a call."""

    def rest(self) -> None:
        """Drop this analyzer, because no later fact of its key can matter."""

    def closed(self, connection: int) -> End | None:
        """How and when a connection ended; None if it is open, or if its end is so old that it was forgotten."""

    def whole(self, connection: int) -> bool:
        """Whether the capture has all bytes of a connection, as far as is known. If not, a silence proves nothing."""


class Analyzer:
    """Base class: the state of one key. A subclass takes the `Context` and overrides the methods that it needs.

    Facts may come late or never. So no method may raise, and every container must be bounded.
    """

    __slots__ = ()

    def feed(self, fact: Any) -> None:
        """Take the next fact of this key."""

    def tick(self) -> None:
        """Called when the capture time has reached the time that the analyzer gave to `Context.wake`."""

    def close(self) -> None:
        """Called when the capture ends, when the connection that is the key ends, or when the state is dropped."""


class Analysis(NamedTuple):
    """Connects an analyzer class with its rules, the kind of its key, and the types of facts that it receives.

    Five fields save work on ordinary traffic:

    - `errors`: an analyzer is made for a key only once a fact with one of these errors arrives.
    - `begins`: an analyzer is made for a key only when a fact of one of these types comes, or a Member fact whose
      `what` is one of these values.
    - `partition_api`: the analyzer receives PartitionIO facts of this API only (Produce or Fetch).
    - `status`: the analyzer receives Exchange facts with this status only.
    - `every_heartbeat`: if False, the analyzer does not receive heartbeats that succeeded and repeat the previous
      Member fact of their connection. Such heartbeats show only that the member is alive.
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
    """Store a value as the newest entry of a dict; beyond `most` entries, remove the oldest."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def append(kept: list[V], value: V, most: int) -> None:
    """Append to a list; beyond `most` elements, remove the first.

    This saves memory: an empty deque takes 0.6 kB, too much for each of 20,000 clients; most of these lists stay short.
    """
    kept.append(value)
    if len(kept) > most:
        del kept[0]


def error_streak(streaks: dict[str, tuple[At, int]], key: str, at: At, most: int = 1_000) -> tuple[At, int]:
    """Count an error of a key; returns (exchange of the first error, number of errors) of the present streak.

    The streak ends when the caller removes the key from `streaks`, after a request that succeeded.
    """
    first, count = streaks.get(key, (at, 0))
    remember(streaks, key, (first, count + 1), most)
    return first, count + 1


def lasting_errors(
    context: Context, rule: str, streaks: dict[str, tuple[At, int]], key: str, at: At
) -> tuple[At, int, int] | None:
    """Count an error of a key; returns (exchange of the first error, number of errors, ns from first to this one).

    Returns None while the errors are below the rule's thresholds `errors` and `lasts_ms`.
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
    """The exchange of a fact as evidence, at the time of its response."""
    return Evidence(at.exchange, at.time, at.connection, role, note, path, weight)
