"""The shape of a dialect, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kproxy.decoders.schema.model import NEVER, Field, Message, Versions
from kproxy.decoders.stream import Side

MOST_CONDITIONS = 4
"""Conditions that one body may depend on: it has two layouts for each."""

Asks = Literal["client", "broker", "both"]
Role = Literal["type", "version", "correlationId", "clientId", "error"]


@dataclass(frozen=True, slots=True)
class EarlierField:
    """A field of an earlier message of the connection."""

    message: str
    """"RegisterRequest"."""
    field: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A field of this message's header or body, or of an earlier message, has this value."""

    source: Literal["header", "body"] | EarlierField
    field: str
    value: str | bool | int

    def holds(self, values: Mapping[str, Any]) -> bool | None:
        """None where the field is not there."""
        return None if self.field not in values else bool(values[self.field] == self.value)


@dataclass(frozen=True, slots=True)
class Body:
    """A message's fields, each with the conditions that all hold where it is there."""

    name: str
    key: int
    kind: Literal["request", "response"]
    versions: Versions
    fields: tuple[tuple[Field, tuple[Condition, ...]], ...]
    conditions: tuple[Condition, ...]
    _variants: dict[tuple[bool, ...], Message] = field(default_factory=dict, compare=False, repr=False)

    def message(self, truths: tuple[bool, ...]) -> Message:
        """The definition where the conditions are these, in their order."""
        found = self._variants.get(truths)
        if found is None:
            known = dict(zip(self.conditions, truths, strict=True))
            fields = tuple(one for one, conditions in self.fields if all(known[condition] for condition in conditions))
            found = Message(self.name, self.kind, self.key, self.versions, NEVER, fields, "")
            self._variants[truths] = found
        return found


@dataclass(frozen=True, slots=True)
class Header:
    """The fields before a body; `roles` names those that mean something to us."""

    message: Message
    roles: Mapping[Role, str]
    names: Mapping[int, str] = field(default_factory=dict)
    """Names of the error field's values."""

    def get(self, role: Role, values: Mapping[str, Any]) -> Any:
        """What the field of a role holds; None where the header has none."""
        name = self.roles.get(role)
        return None if name is None else values.get(name)


@dataclass(frozen=True, slots=True)
class RequestType:
    """`response` is None for a request that is never answered."""

    type: int
    names: tuple[str, ...]
    request: Body
    response: Body | None
    turns: bool
    """After it the other side asks."""
    among_kafka: bool
    """It stands among Kafka's own requests on their connections."""
    supposed: bool
    """Nothing says what its bodies are: they are a guess."""

    @property
    def name(self) -> str:
        return self.names[0]


@dataclass(frozen=True, slots=True)
class TimeRule:
    """What is late. `limit` is milliseconds ("asked", "answered") or a number of requests ("unanswered"), or the field
    that told it.

    "asked": a request of this type must come within the limit after the message `after`. "answered": it must be
    answered within it. "unanswered": no more than that many may stay so in a row.
    """

    rule: Literal["asked", "answered", "unanswered"]
    type: int
    limit: int | EarlierField
    after: str = ""
    means: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """`port`, where given, carries nothing else. `by_order` pairs without correlation ids."""

    name: str
    port: int | None
    asks: Asks
    by_order: bool
    versions: Versions
    request_header: Header
    response_header: Header
    requests: Mapping[int, RequestType]
    rules: tuple[TimeRule, ...] = ()
    conditions: tuple[Condition, ...] = ()
    """Conditions on earlier messages, in the order of `Exchange.truths`."""

    @property
    def among_kafka(self) -> dict[int, RequestType]:
        return {number: one for number, one in self.requests.items() if one.among_kafka}

    @property
    def remembered(self) -> frozenset[EarlierField]:
        """What must be kept of a connection's messages."""
        found = {condition.source for condition in self.conditions if isinstance(condition.source, EarlierField)}
        return frozenset(found | {rule.limit for rule in self.rules if isinstance(rule.limit, EarlierField)})

    def may_ask(self, side: Side, *, turned: bool) -> bool:
        """Whether a side asks, once the roles have been `turned` an odd number of times."""
        return self.asks == "both" or ((self.asks == "client") == (side is Side.CLIENT)) != turned
