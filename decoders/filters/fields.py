"""The filter language as data: fields, operators, keywords. Parser, completion, help and docs read these tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kproxy.decoders.filters.path import Path


class Type(StrEnum):
    """The type of a field's values, which decides the literals and operators that fit."""

    API = "api"
    CLASS = "class"
    ERROR = "error"
    STATUS = "status"
    ROLE = "role"
    NUMBER = "number"
    TEXT = "text"
    ADDRESS = "address"
    BROKER = "broker"
    """An address, or a node id."""
    DURATION = "duration"
    SIZE = "size"
    TIME = "time"
    FLAG = "flag"
    ANY = "scalar"
    """A scalar of a body whose type differs between messages: text, number or boolean."""
    STRUCT = "struct"
    """A field with fields of its own; a filter can only test whether it is there."""


class Cost(StrEnum):
    """Whether a row's value comes from the index or needs its body decoded."""

    INDEX = "index"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the language; its value is the sum of the row's `attributes`.

    `many`: an exchange may have several values (see `decoders.filters.expression`). `path` is the path of a field in a
    body, and `scale` the factor for its value.
    """

    name: str
    type: Type
    doc: str
    attributes: tuple[str, ...]
    cost: Cost = Cost.INDEX
    many: bool = False
    path: Path | None = None
    scale: int = 1

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(operator.symbol for operator in OPERATORS if self.type in operator.types)


@dataclass(frozen=True, slots=True)
class Operator:
    symbol: str
    doc: str
    types: frozenset[Type]


EVERY = frozenset(Type) - {Type.STRUCT}
ORDERED = frozenset({Type.NUMBER, Type.DURATION, Type.SIZE, Type.TIME, Type.ANY})
NAMED = frozenset(
    {Type.API, Type.CLASS, Type.ERROR, Type.STATUS, Type.ROLE, Type.TEXT, Type.ADDRESS, Type.BROKER, Type.ANY}
)

OPERATORS: tuple[Operator, ...] = (
    Operator("==", "is", EVERY),
    Operator("!=", "is there and is another", EVERY),
    Operator("<", "is less than", ORDERED),
    Operator("<=", "is at most", ORDERED),
    Operator(">", "is more than", ORDERED),
    Operator(">=", "is at least", ORDERED),
    Operator("~", "matches the regular expression, anywhere", NAMED),
    Operator("contains", "contains the text", NAMED),
    Operator("not contains", "is there and does not contain the text", NAMED),
    Operator("in", "is one of (…, …)", EVERY - {Type.FLAG}),
    Operator("not in", "is there and is none of (…, …)", EVERY - {Type.FLAG}),
)

SEARCHES = frozenset({"~", "contains", "not contains"})
"""Operators whose values are searched for in text."""
LISTS = frozenset({"in", "not in"})
"""Operators that take several values."""
NEGATIVE = {"!=": "==", "not in": "in", "not contains": "contains"}
"""Operators that say what a value is not, to those that say the opposite."""

_DECODE = Cost.DECODE

FIELDS: tuple[Field, ...] = (
    Field("api", Type.API, "API of the request, by its name, an older name or its key", ("api_key",)),
    Field("class", Type.CLASS, "kind of API: core, group, transaction, admin, …", ("api_class",)),
    Field("protocol", Type.TEXT, "kafka, or the name of a dialect", ("protocol",)),
    Field("version", Type.NUMBER, "API version of the request", ("api_version",)),
    Field("client.id", Type.TEXT, "client id of the request", ("client_id",)),
    Field("client", Type.ADDRESS, "address of the client: host, host:port or :port", ("client",)),
    Field("broker", Type.BROKER, "node id of the broker, or its address: host, host:port or :port", ("broker",)),
    Field("connection", Type.NUMBER, "number of the connection, counted from 1", ("connection",)),
    Field("topic", Type.TEXT, "a topic that request or response names", ("topics",), many=True),
    Field("group", Type.TEXT, "a group that request or response names", ("groups",), many=True),
    Field("txn", Type.TEXT, "a transactional id that request or response names", ("txns",), many=True),
    Field("acks", Type.NUMBER, "acks of a Produce request: 0, 1 or -1 (all)", ("acks",)),
    Field("fetch.role", Type.ROLE, "who fetches: a consumer, or a follower that replicates", ("fetch_role",)),
    Field("error", Type.ERROR, "any error code of the response, by its name, an older name or its number",
          ("error_codes",), many=True),
    Field("error.retriable", Type.FLAG, "an error of the response is one after which clients try again",
          ("retriable",)),
    Field("status", Type.STATUS, "what became of the exchange", ("status",)),
    Field("latency", Type.DURATION, "time from the request's last byte to the response's", ("latency",)),
    Field("throttle", Type.DURATION, "how long the broker asked the client to wait, where it did", ("throttle",)),
    Field("size", Type.SIZE, "bytes of request and response together",
          ("request_size", "response_size")),
    Field("request.size", Type.SIZE, "bytes of the request with its length field",
          ("request_size",)),
    Field("response.size", Type.SIZE, "bytes of the response with its length field",
          ("response_size",)),
    Field("records", Type.NUMBER, "number of records that a Produce, Fetch or ShareFetch carries", ("records",)),
    Field("time", Type.TIME, "when the request passed; a time of day is of any day, -60s counts back from the end of "
          "the capture", ("time",)),
    Field("correlation", Type.NUMBER, "correlation id", ("correlation_id",)),
    Field("exchange", Type.NUMBER, "number of the exchange, counted from 1", ("number",)),
    Field("problem", Type.FLAG, "something could not be decoded, paired or reassembled", ("problem",)),
    Field("partial", Type.FLAG, "bytes of a frame are missing from the capture", ("partial",)),
    Field("modified", Type.FLAG, "kproxy changed bytes of a frame", ("modified",)),
    Field("commented", Type.FLAG, "packet comments lie on its frames", ("commented",)),
    Field("record.key", Type.TEXT, "key of a record, as text", ("record_keys",), _DECODE, many=True),
    Field("record.value", Type.TEXT, "value of a record, as text", ("record_values",), _DECODE, many=True),
    Field("record.header", Type.TEXT, 'header of a record, as "name: value"', ("record_headers",), _DECODE, many=True),
    Field("record.offset", Type.NUMBER, "offset of a record as its batch has it", ("record_offsets",), _DECODE,
          many=True),
    Field("record.timestamp", Type.TIME, "timestamp of a record", ("record_timestamps",), _DECODE, many=True),
)  # fmt: skip

REQUEST = ("api", "class", "version", "client.id", "client", "broker")
"""Fields that are known from a connection's addresses and a request's header alone."""

REQUEST_ATTRIBUTES = frozenset({"api_key", "api_class", "api_version", "client_id", "client", "broker"})
"""The row's attributes for the fields of REQUEST; a broker's node id is not included."""

BY_NAME: dict[str, Field] = {field.name: field for field in FIELDS}
BY_SYMBOL: dict[str, Operator] = {operator.symbol: operator for operator in OPERATORS}

AND = ("and", "&&")
OR = ("or", "||")
NOT = ("not", "!")
HAS = "has"
ALL = "all"
ANY = "any"
SAVED = "$"
"""Prefix of a saved filter's name."""
KEYWORDS = frozenset({"and", "or", "not", "in", "contains"})
"""Words that must be quoted as literals."""

PREFIXES: dict[str, str] = {
    HAS: "the exchange has a value of the field that follows",
    ALL: "each value of the field that follows fits, and there is one",
    ANY: "at least one value of the field that follows fits",
}
"""Words that may stand before a test."""

GRAMMAR = """\
expression = term { ("or" | "||") term }
term       = factor { ("and" | "&&") factor }
factor     = ("not" | "!") factor | "(" expression ")" | test
           | "$" name                                 a saved filter
test       = ["has"] field                            the field is there; a flag is true
           | ["any" | "all"] field operator value     == != < <= > >= ~ contains, not contains
           | ["any" | "all"] field ["not"] "in" "(" value { "," value } ")"
field      = name | ("request" | "response") ".body." step { "." step }
step       = name | name "[]" | name "[" number "]"   "[]" stands for every element of a list
value      = word | "text" | 'text'                   in quotes, \\" and \\\\ stand for " and \\
"""
