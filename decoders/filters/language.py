"""The filter language as data, except for its fields (decoders/fields.py): operators, keywords, grammar."""

from __future__ import annotations

from dataclasses import dataclass

from kproxy.decoders.fields import Field, Type


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
    Operator("!=", "is present and differs", EVERY),
    Operator("<", "is less than", ORDERED),
    Operator("<=", "is at most", ORDERED),
    Operator(">", "is more than", ORDERED),
    Operator(">=", "is at least", ORDERED),
    Operator("~", "matches the regular expression, anywhere", NAMED),
    Operator("contains", "contains the text", NAMED),
    Operator("not contains", "is present and does not contain the text", NAMED),
    Operator("in", "is one of (…, …)", EVERY - {Type.FLAG}),
    Operator("not in", "is present and is none of (…, …)", EVERY - {Type.FLAG}),
)


def operators(field: Field) -> tuple[str, ...]:
    """The operators that a filter may use with a field."""
    return tuple(operator.symbol for operator in OPERATORS if field.type in operator.types)


SEARCHES = frozenset({"~", "contains", "not contains"})
"""Operators that search for their value in text."""
LISTS = frozenset({"in", "not in"})
"""Operators that take several values."""
NEGATIVE = {"!=": "==", "not in": "in", "not contains": "contains"}
"""Operators that negate another operator, with that operator."""

REQUEST = ("api", "class", "version", "client.id", "client", "broker")
"""Fields whose values follow from a connection's addresses and a request's header alone."""

REQUEST_ATTRIBUTES = frozenset({"api_key", "api_class", "api_version", "client_id", "client", "broker"})
"""The row attributes that the fields of REQUEST read; a broker's node id is not among them."""

BY_SYMBOL: dict[str, Operator] = {operator.symbol: operator for operator in OPERATORS}

AND = ("and", "&&")
OR = ("or", "||")
NOT = ("not", "!")
HAS = "has"
ALL = "all"
ANY = "any"
SAVED = "$"
"""Character before the name of a saved filter."""
KEYWORDS = frozenset({"and", "or", "not", "in", "contains"})
"""Words of the language; a value that reads like one must be in quotes."""

PREFIXES: dict[str, str] = {
    HAS: "the exchange has a value of the field that follows",
    ALL: "all values of the field that follows fit, and there is at least one",
    ANY: "at least one value of the field that follows fits",
}
"""Words that may stand before a test, with their meaning."""

GRAMMAR = """\
expression = term { ("or" | "||") term }
term       = factor { ("and" | "&&") factor }
factor     = ("not" | "!") factor | "(" expression ")" | test
           | "$" name                                 a saved filter
           | "text" | 'text'                          the exchange contains this text
test       = ["has"] field                            the field is present; a flag is true
           | ["any" | "all"] field operator value     == != < <= > >= ~ contains, not contains
           | ["any" | "all"] field ["not"] "in" "(" value { "," value } ")"
field      = name | ("request" | "response") ".body." step { "." step }
step       = name | name "[]" | name "[" number "]"   "[]" stands for every element of a list
value      = word | "text" | 'text'                   in quotes, \\" and \\\\ stand for " and \\
"""
