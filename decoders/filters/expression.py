"""A parsed filter: a tree that compiles to one function; the tree's text parses to the same tree.

If an exchange does not have a field, any comparison with the field is false. If a field has several values, `any` is
true if one value fits, `all` if all fit. Without either word, one value must fit, but for the operators
of NEGATIVE (`!=`, `not in`, `not contains`) all values must fit: `topic != a` means that no topic is a. Unknown values
(`Unavailable`) follow three-valued logic: false and unknown is false, true or unknown is true. If the whole is unknown,
the compiled filter raises Unavailable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kproxy.decoders.exchange_row import DECODED_STATUSES, Unavailable, Why
from kproxy.decoders.fields import Cost, Field, Type, attribute
from kproxy.decoders.filters.language import ALL, LISTS, NEGATIVE, SEARCHES
from kproxy.decoders.filters.values import (
    LITERALS,
    Value,
    api_keys,
    before_end,
    error_meanings,
    of_day,
    quote,
    todays_names,
)

Predicate = Callable[[Any], bool]
Getter = Callable[[str], Callable[[Any], Any]]
"""A function from an attribute's name to a function that reads this attribute from a row."""
Fits = Callable[[Any], bool]
"""A function that returns whether one value of a field fits."""


class Expression:
    """A node in the tree of a parsed filter."""

    __slots__ = ()

    def compile(self, get: Getter = attribute) -> Predicate:
        """The filter as a function of a row; `get(name)` makes the function that reads an attribute from a row.

        The compiled function raises Unavailable if values that decide the result are unknown.
        """
        raise NotImplementedError

    def fields(self) -> Iterator[Field]:
        """The fields that the expression names."""
        raise NotImplementedError

    def anchored(self, end: int) -> Expression:
        """The expression with times relative to the capture's end made absolute.

        `end` is that end in ns since the epoch.
        """
        del end
        return self

    @property
    def relative(self) -> bool:
        """Whether the expression holds a time relative to the capture's end.

        Evaluating such an expression raises Unavailable; `anchored` returns one that can be evaluated.
        """
        return self.anchored(0) != self

    def attributes(self) -> Iterator[str]:
        """The names of the row attributes that the compiled filter may read."""
        for field in self.fields():
            yield from field.attributes

    @property
    def cost(self) -> Cost:
        """DECODE if the filter needs decoded bodies, else INDEX."""
        return Cost.DECODE if any(field.cost is Cost.DECODE for field in self.fields()) else Cost.INDEX


@dataclass(frozen=True, slots=True)
class Present(Expression):
    """A field alone or after `has`: true if the exchange has a value of the field; for a flag, if the flag is true."""

    field: Field

    def compile(self, get: Getter = attribute) -> Predicate:
        value = _value(self.field, get)
        if _several(self.field):
            return lambda row: any(True for _ in value(row))
        if self.field.type is Type.FLAG:
            return lambda row: bool(value(row))
        return lambda row: value(row) is not None

    def fields(self) -> Iterator[Field]:
        yield self.field

    def __str__(self) -> str:
        return self.field.name if self.field.path is None else f"has {self.field.name}"


@dataclass(frozen=True, slots=True)
class Compare(Expression):
    """A comparison: field, operator and values; only `in` and `not in` have more than one of `values`.

    `quantifier` is ANY, ALL, or "". With "", the operator decides how many of several values must fit.
    """

    field: Field
    operator: str
    values: tuple[Value, ...]
    quantifier: str = ""

    def compile(self, get: Getter = attribute) -> Predicate:
        field = self.field
        value = _value(field, get)
        if field.type is Type.STATUS and DECODED_STATUSES.isdisjoint(map(str, self.values)) and self._named:
            value = get("status_seen")
        if field.type is Type.ERROR and field.path is None:
            return _error_test(self, meant_errors(value, get))
        if field.type is Type.BROKER:
            return _broker_test(self, value, get)
        fits = _fits(self)
        if field.path is not None:
            value = _scalars(value, field.scale)
        if not _several(field):
            return lambda row: (found := value(row)) is not None and fits(found)
        if self.each:
            return lambda row: _each(value(row), fits)
        return lambda row: any(fits(found) for found in value(row))

    @property
    def each(self) -> bool:
        """Whether all of a field's values must fit; if False, one must."""
        return self.quantifier == ALL or (not self.quantifier and self.operator in NEGATIVE)

    def anchored(self, end: int) -> Expression:
        if self.field.type is not Type.TIME:
            return self
        backs = [(value, before_end(value)) for value in self.values]
        return replace(self, values=tuple(value if back is None else end - back for value, back in backs))

    def fits(self) -> Fits:
        """A function that returns whether one value of the field fits.

        Not for errors and brokers, whose comparison needs the whole row.
        """
        return _fits(self)

    def fields(self) -> Iterator[Field]:
        yield self.field

    def attributes(self) -> Iterator[str]:
        yield from self.field.attributes
        if self.field.type is Type.BROKER and self._nodes:
            yield "node"
        if self.field.name == "error":
            yield from ("api_key", "api_version")

    @property
    def _named(self) -> bool:
        """Whether the operator compares whole values; the other operators search in them."""
        return self.operator not in SEARCHES

    @property
    def _nodes(self) -> bool:
        """Whether the comparison is with a broker's node id."""
        return self._named and any(isinstance(value, int) for value in self.values)

    def __str__(self) -> str:
        write = quote_any if self.operator in SEARCHES else LITERALS[self.field.type].write
        name = f"{self.quantifier} {self.field.name}".lstrip()
        if self.operator in LISTS:
            return f"{name} {self.operator} ({', '.join(write(value) for value in self.values)})"
        return f"{name} {self.operator} {write(self.values[0])}"


@dataclass(frozen=True, slots=True)
class Not(Expression):
    item: Expression

    def compile(self, get: Getter = attribute) -> Predicate:
        item = self.item.compile(get)
        return lambda row: not item(row)

    def anchored(self, end: int) -> Expression:
        return Not(self.item.anchored(end))

    def fields(self) -> Iterator[Field]:
        yield from self.item.fields()

    def attributes(self) -> Iterator[str]:
        yield from self.item.attributes()

    def __str__(self) -> str:
        return f"not {_inner(self.item, And, Or)}"


@dataclass(frozen=True, slots=True)
class And(Expression):
    """A conjunction of two or more items, none of which is an And; made by `all_of`."""

    items: tuple[Expression, ...]

    def compile(self, get: Getter = attribute) -> Predicate:
        return _decided_by(False, [item.compile(get) for item in self.items])

    def anchored(self, end: int) -> Expression:
        return And(tuple(item.anchored(end) for item in self.items))

    def fields(self) -> Iterator[Field]:
        for item in self.items:
            yield from item.fields()

    def attributes(self) -> Iterator[str]:
        for item in self.items:
            yield from item.attributes()

    def __str__(self) -> str:
        return " and ".join(_inner(item, Or) for item in self.items)


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """A disjunction of two or more items, none of which is an Or; made by `any_of`."""

    items: tuple[Expression, ...]

    def compile(self, get: Getter = attribute) -> Predicate:
        return _decided_by(True, [item.compile(get) for item in self.items])

    def anchored(self, end: int) -> Expression:
        return Or(tuple(item.anchored(end) for item in self.items))

    def fields(self) -> Iterator[Field]:
        for item in self.items:
            yield from item.fields()

    def attributes(self) -> Iterator[str]:
        for item in self.items:
            yield from item.attributes()

    def __str__(self) -> str:
        return " or ".join(str(item) for item in self.items)


def all_of(items: Sequence[Expression]) -> Expression:
    """The conjunction of one or more items, with nested Ands flattened."""
    flat = [inner for item in items for inner in (item.items if isinstance(item, And) else (item,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(items: Sequence[Expression]) -> Expression:
    """The disjunction of one or more items, with nested Ors flattened."""
    flat = [inner for item in items for inner in (item.items if isinstance(item, Or) else (item,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def quote_any(value: Value) -> str:
    return quote(str(value))


def _inner(item: Expression, *looser: type[Expression]) -> str:
    return f"({item})" if isinstance(item, looser) else str(item)


# --- evaluation ------------------------------------------------------------------------------------------------------


def _decided_by(decisive: bool, items: Sequence[Predicate]) -> Predicate:
    """Three-valued `or` (`decisive` is True) or `and` (`decisive` is False) of items that may raise Unavailable."""

    def pair(first: Predicate, second: Predicate) -> Predicate:
        def test(row: Any) -> bool:
            try:
                if first(row) is decisive:
                    return decisive
            except Unavailable:
                if second(row) is decisive:
                    return decisive
                raise
            return second(row)

        return test

    joined = items[-1]
    for item in reversed(items[:-1]):
        joined = pair(item, joined)
    return joined


def _several(field: Field) -> bool:
    """Whether a row has an iterable of values for this field; the iteration may end with Unavailable."""
    return field.many or field.path is not None


def _each(values: Iterable[Any], fits: Fits) -> bool:
    found = False
    for value in values:
        if not fits(value):
            return False
        found = True
    return found


def _value(field: Field, get: Getter) -> Callable[[Any], Any]:
    if field.path is not None:
        return _in_body(field, get)
    if len(field.attributes) == 1:
        return get(field.attributes[0])
    parts = [get(name) for name in field.attributes]

    def total(row: Any) -> int | None:
        present = [value for part in parts if (value := part(row)) is not None]
        return sum(present) if present else None

    return total


def _in_body(field: Field, get: Getter) -> Callable[[Any], Iterable[Any]]:
    at, path = get("at"), field.path
    return lambda row: at(row)(path)


def _scalars(values: Callable[[Any], Iterable[Any]], scale: int) -> Callable[[Any], Iterator[Any]]:
    """The values in a body that can be compared, bytes as base64 text, numbers multiplied by `scale`.

    Raises Unavailable, after all other values, if one was withheld.
    """

    def scalars(row: Any) -> Iterator[Any]:
        withheld = False
        for value in values(row):
            found = value
            if isinstance(value, dict):
                withheld = withheld or "redacted" in value
                found = value.get("base64")
            if isinstance(found, int) and scale != 1:
                yield found * scale
            elif isinstance(found, str | int | float):
                yield found
        if withheld:
            raise Unavailable(Why.SECRET)

    return scalars


def _fits(test: Compare) -> Fits:
    """A function that returns whether one value fits.

    An operator of NEGATIVE is true where its positive form is false.
    """
    positive = NEGATIVE.get(test.operator)
    if positive is not None:
        fits = _fits(replace(test, operator=positive))
        return lambda value: not fits(value)
    kind, operator = test.field.type, test.operator
    if operator in SEARCHES:
        return _matching(kind, test)
    if kind is Type.ADDRESS:
        wanted = frozenset(test.values)
        return lambda value: not wanted.isdisjoint(_address_names(value))
    if kind is Type.ERROR:
        return frozenset(test.values).__contains__
    if kind is Type.ANY:
        return _scalar_fits(test)
    if kind is Type.TIME and test.relative:
        return _end_not_known
    if kind is Type.TIME and any(isinstance(value, str) for value in test.values):
        return _clock_fits(test)
    if kind is Type.API:
        keys = frozenset(key for one in test.values for key in api_keys(one))
        return keys.__contains__
    return _ordered(operator, test.values)


def _ordered(operator: str, values: Sequence[Value]) -> Fits:
    wanted: Any = values[0]
    table: dict[str, Fits] = {
        "==": lambda value: bool(value == wanted),
        "<": lambda value: bool(value < wanted),
        "<=": lambda value: bool(value <= wanted),
        ">": lambda value: bool(value > wanted),
        ">=": lambda value: bool(value >= wanted),
        "in": frozenset(values).__contains__,
    }
    return table[operator]


def _end_not_known(_: Any) -> bool:
    raise Unavailable(Why.END)


_DAY = 86_400_000_000_000


def _clock_fits(test: Compare) -> Fits:
    """A comparison with times of day, on any day; a list may also hold absolute times."""
    clocks = tuple(of_day(value) for value in test.values if isinstance(value, str))
    moments = frozenset(value for value in test.values if not isinstance(value, str))
    fits = _ordered(test.operator, clocks)
    if not moments:
        return lambda value: fits(value % _DAY)
    return lambda value: fits(value % _DAY) or value in moments


def _scalar_fits(test: Compare) -> Fits:
    """A comparison as numbers if both are numbers, else as texts; booleans are the texts "true" and "false"."""
    numbers = [_number(str(value)) for value in test.values]
    by_text = _ordered(test.operator, [str(value) for value in test.values])
    by_number = None if None in numbers else _ordered(test.operator, [one for one in numbers if one is not None])
    ordered = test.operator in {"<", "<=", ">", ">="}

    def fits(value: Any) -> bool:
        if isinstance(value, bool):
            return not ordered and by_text("true" if value else "false")
        if isinstance(value, int | float):
            return by_number(value) if by_number is not None else not ordered and by_text(str(value))
        return isinstance(value, str) and by_text(value)

    return fits


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) else None


def _text_of(test: Compare) -> Fits:
    wanted = str(test.values[0])
    if test.operator == "~":
        from kproxy.decoders.filters.regex import searcher

        return searcher(wanted)
    return lambda text: wanted in text


def _matching(kind: Type, test: Compare) -> Fits:
    """A function that returns whether a value satisfies `~` or `contains`.

    APIs and errors are searched by current name.
    """
    fits = _text_of(test)
    if kind not in {Type.API, Type.ERROR}:
        return lambda value: bool(fits(value if isinstance(value, str) else str(value)))
    names: dict[Value, list[str]] = {}
    for name, value in todays_names(kind).items():
        for meant in api_keys(value) if kind is Type.API else (value,):
            names.setdefault(meant, []).append(name)
    fitting = frozenset(value for value, spelled in names.items() if any(fits(name) for name in spelled))
    return lambda value: value in fitting if value in names else bool(fits(str(value)))


def _address_names(address: str) -> tuple[str, ...]:
    """The filter values that match "host:port": the address, the host (IPv6 with and without brackets), and ":port"."""
    host, colon, port = address.rpartition(":")
    if not colon:
        return (address,)
    return (address, host, f":{port}", host.strip("[]"))


def _broker_test(test: Compare, address: Callable[[Any], Any], get: Getter) -> Predicate:
    """A comparison with a broker: by address and, if the address differs, by node id, which may be unavailable."""
    other = test.operator in NEGATIVE
    if test.operator in SEARCHES:
        fits = _text_of(test)
        return lambda row: bool(fits(address(row))) is not other
    nodes = frozenset(value for value in test.values if isinstance(value, int))
    addresses = frozenset(value for value in test.values if isinstance(value, str))
    node = get("node")

    def among(row: Any) -> bool:
        return not addresses.isdisjoint(_address_names(address(row))) or (bool(nodes) and node(row) in nodes)

    return lambda row: among(row) is not other


def meant_errors(codes: Callable[[Any], Any], get: Getter) -> Callable[[Any], Any]:
    """A function that reads a row's error codes.

    A code that means another error in the row's API and version is replaced by the name of that error.
    """
    meanings = error_meanings()
    api_key, version = get("api_key"), get("api_version")

    def meant(code: int, row: Any) -> Value:
        for key, versions, name in meanings.get(code, ()):
            if key == api_key(row) and (spoken := version(row)) is not None and spoken in versions:
                return name
        return code

    def values(row: Any) -> Sequence[Value]:
        found: Sequence[int] = codes(row)
        if not found or meanings.keys().isdisjoint(found):
            return found
        return [meant(code, row) for code in found]

    return values


def _error_test(test: Compare, value: Callable[[Any], Any]) -> Predicate:
    """A comparison with a row's errors; without errors, only `==` and `in` are true, if NONE is among the values."""
    fits = _fits(test)
    none = test.operator in {"==", "in"} and 0 in test.values
    if test.each:
        return lambda row: _each(codes, fits) if (codes := value(row)) else none
    return lambda row: any(fits(code) for code in codes) if (codes := value(row)) else none
