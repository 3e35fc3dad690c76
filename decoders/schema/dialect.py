"""The types of which a dialect consists, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kproxy.decoders.schema.model import NEVER, Field, Message, Versions
from kproxy.decoders.stream import Side

MOST_CONDITIONS = 4
"""Maximum number of conditions that one body may depend on: each condition doubles the number of layouts."""

Asks = Literal["client", "broker", "both"]
Role = Literal["type", "version", "correlationId", "clientId", "error"]


@dataclass(frozen=True, slots=True)
class EarlierField:
    """A field of an earlier message of the connection."""

    message: str
    """The message's name, such as "RegisterRequest"."""
    field: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: the field `field` of `source` has the value `value`.

    `source` is "header" or "body" of the same message, or a field of an earlier message.
    """

    source: Literal["header", "body"] | EarlierField
    field: str
    value: str | bool | int

    def holds(self, values: Mapping[str, Any]) -> bool | None:
        """Whether the condition holds for these values; None if the field is missing."""
        return None if self.field not in values else bool(values[self.field] == self.value)


@dataclass(frozen=True, slots=True)
class Body:
    """The fields of a message; each is present if all of its conditions hold."""

    name: str
    key: int
    kind: Literal["request", "response"]
    versions: Versions
    fields: tuple[tuple[Field, tuple[Condition, ...]], ...]
    conditions: tuple[Condition, ...]
    _variants: dict[tuple[bool, ...], Message] = field(default_factory=dict, compare=False, repr=False)

    def message(self, truths: tuple[bool, ...]) -> Message:
        """The definition of the message for these truth values of its conditions.

        The truth values are in the order of `conditions`.
        """
        found = self._variants.get(truths)
        if found is None:
            known = dict(zip(self.conditions, truths, strict=True))
            fields = tuple(one for one, conditions in self.fields if all(known[condition] for condition in conditions))
            found = Message(self.name, self.kind, self.key, self.versions, NEVER, fields, "")
            self._variants[truths] = found
        return found


@dataclass(frozen=True, slots=True)
class Header:
    """The fields before a body.

    `roles` maps the roles that kproxy interprets ("type", "correlationId") to field names.
    """

    message: Message
    roles: Mapping[Role, str]
    names: Mapping[int, str] = field(default_factory=dict)
    """Names of error codes: of the values of the field with the role "error"."""

    def get(self, role: Role, values: Mapping[str, Any]) -> Any:
        """The value of the field that has this role; None if the header has no such field."""
        name = self.roles.get(role)
        return None if name is None else values.get(name)


@dataclass(frozen=True, slots=True)
class RequestType:
    """A type of request; `response` is None if requests of this type are never answered."""

    type: int
    names: tuple[str, ...]
    request: Body
    response: Body | None
    turns: bool
    """Whether the other side sends the requests after this one."""
    among_kafka: bool
    """Whether the request occurs among Kafka's own requests on Kafka connections."""
    supposed: bool
    """Whether the layouts of its bodies are a guess, because nothing documents them."""

    @property
    def name(self) -> str:
        return self.names[0]


@dataclass(frozen=True, slots=True)
class TimeRule:
    """A rule about the time of a dialect's messages.

    "asked": a request of type `type` must come within `limit` ms after the message `after`. "answered": the response to
    such a request must come within `limit` ms. "unanswered": at most `limit` such requests in a row may miss the limit
    of their "answered" rule. `limit` is a number, or the field of an earlier message that holds the number.
    """

    rule: Literal["asked", "answered", "unanswered"]
    type: int
    limit: int | EarlierField
    after: str = ""
    means: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A protocol with Kafka's framing.

    The connections at `port`, if one is given, carry only this dialect. `by_order` says that responses are paired by
    order, not by correlation id.
    """

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
    """The conditions on earlier messages, in the order of the characters of `Exchange.truths`."""

    @property
    def among_kafka(self) -> dict[int, RequestType]:
        return {number: one for number, one in self.requests.items() if one.among_kafka}

    @property
    def remembered(self) -> frozenset[EarlierField]:
        """The fields of earlier messages whose values later messages of the same connection need."""
        found = {condition.source for condition in self.conditions if isinstance(condition.source, EarlierField)}
        return frozenset(found | {rule.limit for rule in self.rules if isinstance(rule.limit, EarlierField)})

    def may_ask(self, side: Side, *, turned: bool) -> bool:
        """Whether a side sends requests; `turned` says that the sides have changed roles an odd number of times."""
        return self.asks == "both" or ((self.asks == "client") == (side is Side.CLIENT)) != turned
