"""A rule as data: match, action and trigger. Its text parses to the same rule (`kproxy.faults.parsing`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kproxy.core.verdict import HOLD_SECONDS
from kproxy.decoders.body_path import Path
from kproxy.decoders.filters import Expression
from kproxy.decoders.filters.values import quote
from kproxy.decoders.jsonform import uuid_json
from kproxy.decoders.schema import api_keys, errors
from kproxy.decoders.stream import Side

LEADING = frozenset(
    {
        api_keys.PRODUCE,
        api_keys.FETCH,
        api_keys.METADATA,
        api_keys.DESCRIBE_TOPIC_PARTITIONS,
        api_keys.SHARE_FETCH,
        api_keys.SHARE_ACKNOWLEDGE,
    }
)
"""Keys of the APIs whose answers name leaders of partitions."""
KINDS = ("always", "nth", "first", "every", "after", "p", "once")
"""The kinds of triggers; `for` and `per` can be added to each."""
INTERCEPT_SECONDS = 120.0
"""Seconds after which an intercepted frame is sent although nobody has decided."""
KEYS = ("client", "partition", "connection")
"""The keys for which a trigger may count separately: client id, topic and partition, or connection."""


def seconds(value: float) -> str:
    """A duration as rules write it: 500ms, 30s."""
    milliseconds = round(value * 1000, 3)
    return f"{milliseconds / 1000:g}s" if milliseconds >= 1000 and not milliseconds % 1000 else f"{milliseconds:g}ms"


def side_name(side: Side) -> str:
    return "request" if side is Side.CLIENT else "response"


@dataclass(frozen=True, slots=True)
class Trigger:
    """Selects the matching frames on which a rule acts.

    `n` is the number of nth, first, every and after; `chance` that of p, from 0 to 1. From its first match on the rule
    acts for `lasts` seconds (None: for ever). With `per` (one of KEYS), frames are counted separately for each key.
    """

    kind: str = "always"
    n: int = 0
    chance: float = 1.0
    lasts: float | None = None
    per: str = ""

    def __str__(self) -> str:
        if self.kind == "p":
            main = f"p {self.chance:g}"
        else:
            main = f"{self.kind} {self.n}" if self.kind in {"nth", "first", "every", "after"} else self.kind
        parts = [f"{main} per {self.per}" if self.per else main]
        if self.lasts is not None:
            parts.append(f"for {seconds(self.lasts)}")
        return ", ".join(part for part in parts if part != "always" or len(parts) == 1)


@dataclass(frozen=True, slots=True)
class Action:
    """The action of a rule; `side` says whether it acts on the request or the response."""

    verb: ClassVar[str] = ""

    @property
    def only(self) -> frozenset[int]:
        """Keys of the only APIs that the action is for; empty for all."""
        return frozenset()

    @property
    def side(self) -> Side:
        return Side.BROKER


@dataclass(frozen=True, slots=True)
class At:
    """A condition on an element of a body: the field `name` has the value `value`, both as written."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name} == {quote(self.value)}"


@dataclass(frozen=True, slots=True)
class Error(Action):
    """An answer with an error code. If `applied`, the broker answers and kproxy sets the code; else kproxy answers.

    `at` selects elements of the answer; without it, all of them get the code. `applied` is None if the rule's text does
    not say, which is allowed for APIs that only read; parsing then chooses.
    """

    verb: ClassVar[str] = "error"
    code: int
    at: tuple[At, ...] = ()
    applied: bool | None = None

    @property
    def side(self) -> Side:
        return Side.BROKER if self.applied else Side.CLIENT

    @property
    def name(self) -> str:
        return errors.name(self.code)

    def __str__(self) -> str:
        at = f" at {' and '.join(map(str, self.at))}" if self.at else ""
        said = {None: "", True: " applied", False: " not applied"}[self.applied]
        return f"error {self.name}{at}{said}"


@dataclass(frozen=True, slots=True)
class Sided(Action):
    """An action on a request or on a response; the rule says which."""

    on: Side = Side.BROKER

    @property
    def side(self) -> Side:
        return self.on


@dataclass(frozen=True, slots=True)
class Drop(Sided):
    verb: ClassVar[str] = "drop"

    def __str__(self) -> str:
        return f"drop {side_name(self.on)}"


@dataclass(frozen=True, slots=True)
class Delay(Sided):
    """The frame is sent `time` seconds later, give or take `jitter` seconds."""

    verb: ClassVar[str] = "delay"
    time: float = 0.0
    jitter: float = 0.0

    def __str__(self) -> str:
        jitter = f" ±{seconds(self.jitter)}" if self.jitter else ""
        return f"delay {seconds(self.time)}{jitter} {side_name(self.on)}"


@dataclass(frozen=True, slots=True)
class Hold(Sided):
    """The frame is held until the user releases the rule, at most for `most` seconds."""

    verb: ClassVar[str] = "hold"
    most: float = HOLD_SECONDS

    def __str__(self) -> str:
        return f"hold {side_name(self.on)} {seconds(self.most)}"


@dataclass(frozen=True, slots=True)
class Intercept(Sided):
    """The frame waits until somebody decides what becomes of it; it is sent unchanged after `most` seconds."""

    verb: ClassVar[str] = "intercept"
    most: float = INTERCEPT_SECONDS

    def __str__(self) -> str:
        return f"intercept {side_name(self.on)} {seconds(self.most)}"


@dataclass(frozen=True, slots=True)
class Throttle(Action):
    """The answer gets a throttle time; with `mute`, kproxy delays the next requests as long (KIP-219)."""

    verb: ClassVar[str] = "throttle"
    time: float
    mute: bool = False

    def __str__(self) -> str:
        return f"throttle {seconds(self.time)}{' mute' if self.mute else ''}"


@dataclass(frozen=True, slots=True)
class Disconnect(Action):
    """Ends the connection: before the request is forwarded, after the broker has answered, or in the answer ("mid").

    With "mid", the client still gets the first `sent` bytes of the answer. With `unclean`, a client over TLS gets no
    close_notify, so that it cannot tell whether it has received everything.
    """

    verb: ClassVar[str] = "disconnect"
    when: str = "before"
    sent: int = 0
    reset: bool = False
    unclean: bool = False

    @property
    def side(self) -> Side:
        return Side.CLIENT if self.when == "before" else Side.BROKER

    def __str__(self) -> str:
        when = f"mid {self.sent}" if self.when == "mid" else self.when
        how = "rst" if self.reset else "fin without close_notify" if self.unclean else "fin"
        return f"disconnect {when} {how}"


@dataclass(frozen=True, slots=True)
class Blackhole(Action):
    """Makes the request's connection a black hole, or with `broker` all connections to the request's broker.

    Nothing that one side sends reaches the other any more.
    """

    verb: ClassVar[str] = "blackhole"
    broker: bool = False

    @property
    def side(self) -> Side:
        return Side.CLIENT

    def __str__(self) -> str:
        return f"blackhole {'broker' if self.broker else 'connection'}"


@dataclass(frozen=True, slots=True)
class Refuse(Action):
    """All connections to the request's broker end by RST, and later ones as soon as they are open."""

    verb: ClassVar[str] = "refuse"

    @property
    def side(self) -> Side:
        return Side.CLIENT

    def __str__(self) -> str:
        return "refuse"


@dataclass(frozen=True, slots=True)
class Edit(Action):
    """Sets the field at `path` to `value` (parsed JSON), or removes it if `removes`.

    `text` is the path and `written` the value as the rule spells them.
    """

    verb: ClassVar[str] = "set"
    path: Path
    text: str
    value: object = None
    written: str = ""
    removes: bool = False

    @property
    def side(self) -> Side:
        return Side.CLIENT if self.path.root == "request" else Side.BROKER

    def __str__(self) -> str:
        return f"remove {self.text}" if self.removes else f"set {self.text} = {self.written}"


@dataclass(frozen=True, slots=True)
class Versions(Action):
    """ApiVersions answers offer only the versions `low` to `high` of an API, or hide the API."""

    verb: ClassVar[str] = "versions"
    api: str
    api_key: int
    low: int = -1
    high: int = -1

    @property
    def only(self) -> frozenset[int]:
        return frozenset({api_keys.API_VERSIONS})

    @property
    def hides(self) -> bool:
        return self.low < 0

    def __str__(self) -> str:
        return f"versions none {self.api}" if self.hides else f"versions {self.api} {self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Leader(Action):
    """Answers with the leader of the partition name `node` instead, also errors that name the current leader."""

    verb: ClassVar[str] = "leader"
    topic: str
    partition: int
    node: int

    @property
    def only(self) -> frozenset[int]:
        return LEADING

    def __str__(self) -> str:
        return f"leader {quote(f'{self.topic}-{self.partition}')} = {self.node}"


@dataclass(frozen=True, slots=True)
class Coordinator(Action):
    """FindCoordinator answers name the broker `node` for a key: a group or a transactional id; -1 for none."""

    verb: ClassVar[str] = "coordinator"
    key: str
    node: int

    @property
    def only(self) -> frozenset[int]:
        return frozenset({api_keys.FIND_COORDINATOR})

    def __str__(self) -> str:
        return f"coordinator {quote(self.key)} = {self.node}"


@dataclass(frozen=True, slots=True)
class Brokers(Action):
    """Answers that list brokers list only those with these node ids."""

    verb: ClassVar[str] = "brokers"
    nodes: tuple[int, ...] = ()

    @property
    def only(self) -> frozenset[int]:
        return (LEADING - {api_keys.DESCRIBE_TOPIC_PARTITIONS}) | {api_keys.DESCRIBE_CLUSTER}

    def __str__(self) -> str:
        return f"brokers = [{', '.join(map(str, self.nodes))}]"


@dataclass(frozen=True, slots=True)
class TopicId(Action):
    """Answers about topics give another topic id, which no topic has."""

    verb: ClassVar[str] = "topic-id"
    topic: str
    topic_id: bytes

    @property
    def only(self) -> frozenset[int]:
        return frozenset({api_keys.METADATA, api_keys.DESCRIBE_TOPIC_PARTITIONS})

    def __str__(self) -> str:
        return f"topic-id {quote(self.topic)} = {quote(uuid_json(self.topic_id))}"


@dataclass(frozen=True, slots=True)
class Crc(Sided):
    """The first record batch of each partition in a frame gets a wrong CRC."""

    verb: ClassVar[str] = "crc"

    @property
    def only(self) -> frozenset[int]:
        if self.on is Side.CLIENT:
            return frozenset({api_keys.PRODUCE})
        return frozenset({api_keys.FETCH, api_keys.SHARE_FETCH})

    def __str__(self) -> str:
        return f"crc {side_name(self.on)}"


@dataclass(frozen=True, slots=True)
class Duplicate(Sided):
    verb: ClassVar[str] = "duplicate"

    def __str__(self) -> str:
        return f"duplicate {side_name(self.on)}"


@dataclass(frozen=True, slots=True)
class Correlation(Action):
    """Adds `by` to the correlation id of the answer."""

    verb: ClassVar[str] = "correlation"
    by: int

    def __str__(self) -> str:
        return f"correlation {self.by:+d}"


@dataclass(frozen=True, slots=True)
class Swap(Action):
    """The answer is sent after the next one."""

    verb: ClassVar[str] = "swap"

    def __str__(self) -> str:
        return "swap"


@dataclass(frozen=True, slots=True)
class Malform(Sided):
    """Makes a frame invalid.

    `how`: truncate to the first `n` bytes; write `n` into the length field; flip the lowest bit of byte `n`.
    """

    verb: ClassVar[str] = "truncate"
    how: str = "truncate"
    n: int = 0

    def __str__(self) -> str:
        return f"{self.how} {self.n} {side_name(self.on)}"


@dataclass(frozen=True, slots=True)
class Limit(Sided):
    """The frame leaves with at most `rate` bytes a second."""

    verb: ClassVar[str] = "limit"
    rate: int = 1

    def __str__(self) -> str:
        return f"limit {self.rate}B/s {side_name(self.on)}"


@dataclass(frozen=True, slots=True)
class Slice(Sided):
    """The frame leaves in pieces of `n` bytes, each in a TCP segment of its own."""

    verb: ClassVar[str] = "slice"
    n: int = 1

    def __str__(self) -> str:
        return f"slice {self.n} {side_name(self.on)}"


@dataclass(frozen=True, slots=True)
class Answer(Action):
    """kproxy answers instead of the broker; the body is written as in the exchange JSON (docs/exchange-json.md).

    `written` is the JSON as the rule has it; fields that it leaves out get the defaults of Kafka's definitions.
    """

    verb: ClassVar[str] = "answer"
    body: Mapping[str, Any] = field(default_factory=dict, hash=False)
    written: str = "{}"

    @property
    def side(self) -> Side:
        return Side.CLIENT

    def __str__(self) -> str:
        return f"answer {self.written}"


@dataclass(frozen=True, slots=True)
class Rule:
    """Carries out `action` on the frames that `match` selects and for which `trigger` fires.

    `apis` are the keys of the APIs whose frames may match; `late`: the match needs the response.
    """

    name: str
    match: Expression
    action: Action
    trigger: Trigger = field(default_factory=Trigger)
    apis: frozenset[int] = frozenset()
    late: bool = False

    @property
    def text(self) -> str:
        """The rule as one line, without its name."""
        trigger = str(self.trigger)
        return f"{self.match} => {self.action}{'' if trigger == 'always' else f', {trigger}'}"

    def to_json(self) -> dict[str, str]:
        """The rule as an object of texts, as in rule files."""
        return {"name": self.name, "match": str(self.match), "action": str(self.action), "trigger": str(self.trigger)}
