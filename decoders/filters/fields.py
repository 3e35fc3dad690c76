"""The filter language as data: fields, operators, keywords. Parser, completion, help and docs read these tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Type(StrEnum):
    """What a field's values are, and so which literals and operators fit."""

    API = "api"
    ERROR = "error"
    STATUS = "status"
    NUMBER = "number"
    TEXT = "text"
    ADDRESS = "address"
    DURATION = "duration"
    SIZE = "size"
    TIME = "time"


class Cost(StrEnum):
    """Whether a row's value is in the index or the body must be decoded for it."""

    INDEX = "index"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Field:
    """One name of the language; `attributes` are those of the row, added up where there are several."""

    name: str
    type: Type
    doc: str
    attributes: tuple[str, ...]
    cost: Cost = Cost.INDEX

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(operator.symbol for operator in OPERATORS if self.type in operator.types)


@dataclass(frozen=True, slots=True)
class Operator:
    symbol: str
    doc: str
    types: frozenset[Type]


EVERY = frozenset(Type)
ORDERED = frozenset({Type.NUMBER, Type.DURATION, Type.SIZE, Type.TIME})
NAMED = frozenset({Type.API, Type.ERROR, Type.STATUS, Type.TEXT, Type.ADDRESS})

OPERATORS: tuple[Operator, ...] = (
    Operator("==", "is", EVERY),
    Operator("!=", "is there and is another", EVERY),
    Operator("<", "is less than", ORDERED),
    Operator("<=", "is at most", ORDERED),
    Operator(">", "is more than", ORDERED),
    Operator(">=", "is at least", ORDERED),
    Operator("~", "matches the regular expression, anywhere", NAMED),
    Operator("contains", "contains the text", NAMED),
    Operator("in", "is one of (…, …)", EVERY),
)

FIELDS: tuple[Field, ...] = (
    Field("api", Type.API, "API of the request, by its name, an older name or its key", ("api_key",)),
    Field("protocol", Type.TEXT, "kafka, or the name of a dialect", ("protocol",)),
    Field("version", Type.NUMBER, "API version of the request", ("api_version",)),
    Field("client.id", Type.TEXT, "client id of the request", ("client_id",)),
    Field("client", Type.ADDRESS, "address of the client: host, host:port or :port", ("client",)),
    Field("broker", Type.ADDRESS, "address of the broker: host, host:port or :port", ("broker",)),
    Field("connection", Type.NUMBER, "number of the connection, counted from 1", ("connection",)),
    Field("error", Type.ERROR, "any error code of the response, by its name, an older name or its number",
          ("error_codes",)),
    Field("status", Type.STATUS, "what became of the exchange", ("status",)),
    Field("latency", Type.DURATION, "time from the request's last byte to the response's", ("latency",)),
    Field("size", Type.SIZE, "bytes of request and response together", ("request_size", "response_size")),
    Field("request.size", Type.SIZE, "bytes of the request", ("request_size",)),
    Field("response.size", Type.SIZE, "bytes of the response", ("response_size",)),
    Field("time", Type.TIME, "when the request passed", ("time",)),
    Field("correlation", Type.NUMBER, "correlation id", ("correlation_id",)),
    Field("exchange", Type.NUMBER, "number of the exchange, counted from 1", ("number",)),
)  # fmt: skip

REQUEST = ("api", "version", "client.id", "client", "broker")
"""Fields that a connection's addresses and a request's header tell, before anything else of the exchange is known."""

BY_NAME: dict[str, Field] = {field.name: field for field in FIELDS}
BY_SYMBOL: dict[str, Operator] = {operator.symbol: operator for operator in OPERATORS}

AND = ("and", "&&")
OR = ("or", "||")
NOT = ("not", "!")
KEYWORDS = frozenset({"and", "or", "not", "in", "contains"})
"""Words that a literal must quote."""

GRAMMAR = """\
expression = term { ("or" | "||") term }
term       = factor { ("and" | "&&") factor }
factor     = ("not" | "!") factor | "(" expression ")" | test
test       = field                                    the field is there
           | field operator value                     == != < <= > >= ~ contains
           | field ["not"] "in" "(" value { "," value } ")"
value      = word | "text" | 'text'                   in quotes, \\" and \\\\ stand for " and \\
"""
