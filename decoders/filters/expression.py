"""A parsed filter: a tree that prints as text which parses to the same tree, and compiles to one closure.

Truth: a comparison with a value that the exchange does not have is false, whatever the operator. What a row cannot
tell (`Unavailable`) decides nothing where the rest of the expression decides (false and unknown is false, true or
unknown is true); otherwise the compiled filter raises it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from decoders.filters.fields import Cost, Field, Type
from decoders.filters.rows import Unavailable
from decoders.filters.values import LITERALS, Value, api_keys, choices, error_meanings, quote

Predicate = Callable[[Any], bool]
Getter = Callable[[str], Callable[[Any], Any]]
"""From a row's attribute name to the function that reads it."""


class Expression:
    """A node of the tree."""

    __slots__ = ()

    def compile(self, get: Getter = attrgetter) -> Predicate:
        """The filter as a function of a row; `get` says how an attribute of `Row` is read from it.

        The function raises Unavailable where the row cannot tell.
        """
        raise NotImplementedError

    def fields(self) -> Iterator[Field]:
        """The fields that the expression names."""
        raise NotImplementedError

    @property
    def cost(self) -> Cost:
        """DECODE where a field needs bodies."""
        return Cost.DECODE if any(field.cost is Cost.DECODE for field in self.fields()) else Cost.INDEX


@dataclass(frozen=True, slots=True)
class Present(Expression):
    """A bare field: the exchange has one."""

    field: Field

    def compile(self, get: Getter = attrgetter) -> Predicate:
        value = _value(self.field, get)
        if self.field.type is Type.ERROR:
            return lambda row: bool(value(row))
        return lambda row: value(row) is not None

    def fields(self) -> Iterator[Field]:
        yield self.field

    def __str__(self) -> str:
        return self.field.name


@dataclass(frozen=True, slots=True)
class Compare(Expression):
    """field operator value; `values` holds more than one for `in` alone."""

    field: Field
    operator: str
    values: tuple[Value, ...]

    def compile(self, get: Getter = attrgetter) -> Predicate:
        value = _value(self.field, get)
        if self.field.type is Type.ERROR:
            value = _errors(value, get)
        return _TESTS[self.field.type](self, value)

    def fields(self) -> Iterator[Field]:
        yield self.field

    def __str__(self) -> str:
        write = quote_any if self.operator in {"~", "contains"} else LITERALS[self.field.type].write
        if self.operator == "in":
            return f"{self.field.name} in ({', '.join(write(value) for value in self.values)})"
        return f"{self.field.name} {self.operator} {write(self.values[0])}"


@dataclass(frozen=True, slots=True)
class Not(Expression):
    item: Expression

    def compile(self, get: Getter = attrgetter) -> Predicate:
        item = self.item.compile(get)
        return lambda row: not item(row)

    def fields(self) -> Iterator[Field]:
        yield from self.item.fields()

    def __str__(self) -> str:
        return f"not {_inner(self.item, And, Or)}"


@dataclass(frozen=True, slots=True)
class And(Expression):
    """All of two or more items, none of them itself an And: see `all_of`."""

    items: tuple[Expression, ...]

    def compile(self, get: Getter = attrgetter) -> Predicate:
        return _decided_by(False, [item.compile(get) for item in self.items])

    def fields(self) -> Iterator[Field]:
        for item in self.items:
            yield from item.fields()

    def __str__(self) -> str:
        return " and ".join(_inner(item, Or) for item in self.items)


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """Any of two or more items, none of them itself an Or: see `any_of`."""

    items: tuple[Expression, ...]

    def compile(self, get: Getter = attrgetter) -> Predicate:
        return _decided_by(True, [item.compile(get) for item in self.items])

    def fields(self) -> Iterator[Field]:
        for item in self.items:
            yield from item.fields()

    def __str__(self) -> str:
        return " or ".join(str(item) for item in self.items)


def all_of(items: Sequence[Expression]) -> Expression:
    """The items joined by `and`, flat. At least one is needed."""
    flat = [inner for item in items for inner in (item.items if isinstance(item, And) else (item,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(items: Sequence[Expression]) -> Expression:
    """The items joined by `or`, flat. At least one is needed."""
    flat = [inner for item in items for inner in (item.items if isinstance(item, Or) else (item,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def quote_any(value: Value) -> str:
    return quote(str(value))


def _inner(item: Expression, *looser: type[Expression]) -> str:
    return f"({item})" if isinstance(item, looser) else str(item)


# --- evaluation ------------------------------------------------------------------------------------------------------


def _decided_by(decisive: bool, items: Sequence[Predicate]) -> Predicate:
    """`or` (decisive true) or `and` (decisive false) of items that may not know."""

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


def _value(field: Field, get: Getter) -> Callable[[Any], Any]:
    if len(field.attributes) == 1:
        return get(field.attributes[0])
    parts = [get(name) for name in field.attributes]

    def total(row: Any) -> int | None:
        present = [value for part in parts if (value := part(row)) is not None]
        return sum(present) if present else None

    return total


def _number_test(test: Compare, value: Callable[[Any], Any]) -> Predicate:
    wanted: Any = test.values[0]
    table: dict[str, Predicate] = {
        "==": lambda row: value(row) == wanted,
        "!=": lambda row: (found := value(row)) is not None and found != wanted,
        "<": lambda row: (found := value(row)) is not None and found < wanted,
        "<=": lambda row: (found := value(row)) is not None and found <= wanted,
        ">": lambda row: (found := value(row)) is not None and found > wanted,
        ">=": lambda row: (found := value(row)) is not None and found >= wanted,
        "in": _member(value, frozenset(test.values)),
    }
    return table[test.operator]


def _member(value: Callable[[Any], Any], wanted: frozenset[Value]) -> Predicate:
    return lambda row: value(row) in wanted


def _text_test(test: Compare, value: Callable[[Any], Any]) -> Predicate:
    wanted = str(test.values[0])
    if test.operator == "~":
        search = re.compile(wanted).search
        return lambda row: (found := value(row)) is not None and search(found) is not None
    if test.operator == "contains":
        return lambda row: (found := value(row)) is not None and wanted in found
    return _number_test(test, value)


def _address_test(test: Compare, value: Callable[[Any], Any]) -> Predicate:
    if test.operator in {"~", "contains"}:
        return _text_test(test, value)
    wanted = frozenset(test.values)
    among: Predicate = lambda row: not wanted.isdisjoint(_address_names(value(row)))  # noqa: E731 (a closure, as the others)
    return among if test.operator != "!=" else lambda row: not among(row)


def _address_names(address: str) -> tuple[str, ...]:
    """What may stand for "host:port": itself, the host, the port; an IPv6 host with or without its brackets."""
    host, colon, port = address.rpartition(":")
    if not colon:
        return (address,)
    return (address, host, f":{port}", host.strip("[]"))


def _errors(codes: Callable[[Any], Any], get: Getter) -> Callable[[Any], Any]:
    """The row's error codes; one that meant something else in the row's API and version as the name that it had."""
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


def _matching(kind: Type, test: Compare) -> Callable[[Value], bool]:
    """Whether one of the names of a named type's value satisfies `~` or `contains`."""
    wanted = str(test.values[0])
    fits = re.compile(wanted).search if test.operator == "~" else lambda name: wanted in name
    names: dict[Value, list[str]] = {}
    for name, value in choices(kind).items():
        for meant in api_keys(value) if kind is Type.API else (value,):
            names.setdefault(meant, []).append(name)
    fitting = frozenset(value for value, spelled in names.items() if any(fits(name) for name in spelled))
    return lambda value: value in fitting if value in names else bool(fits(str(value)))


def _api_test(test: Compare, value: Callable[[Any], Any]) -> Predicate:
    if test.operator in {"~", "contains"}:
        fits = _matching(Type.API, test)
        return lambda row: (found := value(row)) is not None and fits(found)
    wanted = frozenset(key for one in test.values for key in api_keys(one))
    if test.operator == "!=":
        return lambda row: (found := value(row)) is not None and found not in wanted
    return lambda row: value(row) in wanted


def _error_test(test: Compare, value: Callable[[Any], Any]) -> Predicate:
    if test.operator in {"~", "contains"}:
        fits = _matching(Type.ERROR, test)
        return lambda row: any(fits(code) for code in value(row))
    wanted = frozenset(test.values)
    none = 0 in wanted
    if test.operator == "!=":
        return lambda row: bool(codes := value(row)) and wanted.isdisjoint(codes)
    return lambda row: not wanted.isdisjoint(codes) if (codes := value(row)) else none


_TESTS: dict[Type, Callable[[Compare, Callable[[Any], Any]], Predicate]] = {
    Type.API: _api_test,
    Type.ERROR: _error_test,
    Type.STATUS: _text_test,
    Type.NUMBER: _number_test,
    Type.TEXT: _text_test,
    Type.ADDRESS: _address_test,
    Type.DURATION: _number_test,
    Type.SIZE: _number_test,
    Type.TIME: _number_test,
}
