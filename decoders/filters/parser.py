"""Parses filters: text to a `Result` with the expression, or with the error, and with what could follow."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kproxy.decoders.body_path import ROOTS
from kproxy.decoders.fields import BY_NAME, FIELDS, Field, Type
from kproxy.decoders.filters import bodies, habits
from kproxy.decoders.filters.bodies import BadPath
from kproxy.decoders.filters.expression import Compare, Expression, Not, Present, all_of, any_of
from kproxy.decoders.filters.language import (
    ALL,
    AND,
    ANY,
    BY_SYMBOL,
    HAS,
    KEYWORDS,
    LISTS,
    NOT,
    OR,
    PREFIXES,
    SAVED,
    SEARCHES,
    operators,
)
from kproxy.decoders.filters.lexer import Kind, Token, tokens
from kproxy.decoders.filters.searching import search
from kproxy.decoders.filters.values import (
    DURATIONS,
    LITERALS,
    SIZES,
    BadLiteral,
    Value,
    choices,
    meaning,
    nearest,
    pattern,
)

MAX_DEPTH = 100

_SOME_FIELDS = "some fields are api, topic, error and request.body.…; a text to search for is in quotes"
_UNITS = frozenset(unit for unit, _ in (*DURATIONS, *SIZES))


class Status(StrEnum):
    OK = "ok"
    UNFINISHED = "unfinished"
    """The text is not valid, but may become valid if the user types on."""
    ERROR = "error"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Expected:
    """One word that could come next in the text.

    `kind` is "field", "operator", "keyword", "value", "saved" (a saved filter) or "example" (`text` shows the form of a
    value); `field` is the name of the field that an operator, value or example belongs to.
    """

    kind: str
    text: str
    doc: str = ""
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of parsing a filter's text.

    `span` [start, end) is the part of the text that `message` is about (the whole text if it is valid). `expected`
    lists what could replace the word being typed, which begins at `word` (the text's end if no word is being typed).
    """

    status: Status
    span: tuple[int, int]
    message: str
    expected: tuple[Expected, ...]
    expression: Expression | None
    word: int

    def pointer(self, text: str) -> tuple[str, ...]:
        """Two lines for a terminal: the part of the filter's `text` around `span`, and carets below `span`.

        An empty tuple if the filter is empty.
        """
        if not text.strip():
            return ()
        start, end = self.span
        first = max(0, start - _AROUND)
        last = min(len(text), max(end, start + 1) + _AROUND)
        before, shown = ("…" if first else ""), _one_line(text[first:last])
        indent = _width(before + shown[: start - first])
        carets = max(1, _width(shown[start - first : end - first]))
        return f"  {before}{shown}{'…' if last < len(text) else ''}", f"  {' ' * indent}{'^' * carets}"


_AROUND = 60
"""Number of characters of a filter that are shown on each side of an error."""


def _one_line(text: str) -> str:
    """The text with a space for each character that would move a terminal's cursor."""
    return "".join(character if character.isprintable() else " " for character in text)


def _width(text: str) -> int:
    """Number of terminal columns that a text takes: two for each wide character, none for combining ones."""
    wide = sum(unicodedata.east_asian_width(character) in {"W", "F"} for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def parse(text: str, saved: Mapping[str, str] | None = None) -> Result:
    """Parse a filter; `$name` in it stands for one of the `saved` filters. Never raises: errors are in the result."""
    saved = saved or {}
    if not text.strip():
        return Result(Status.EMPTY, (0, len(text)), "", tuple(_operands(saved)), None, len(text))
    parser = _Parser(text, saved)
    try:
        expression = parser.whole()
    except _Stop as stop:
        return Result(stop.status, stop.span, stop.message, tuple(stop.expected), None, stop.word)
    expected, word = parser.following()
    return Result(Status.OK, (0, len(text)), "", tuple(expected), expression, word)


class _Stop(Exception):  # noqa: N818 (carries a result out of the recursion)
    def __init__(
        self, status: Status, span: tuple[int, int], message: str, expected: Iterable[Expected] = (), word: int = 0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.span = span
        self.message = message
        self.expected = list(expected)
        self.word = word


def _operands(saved: Mapping[str, str]) -> Iterator[Expected]:
    yield from _fields()
    yield from _saved(saved)
    yield Expected("keyword", "not", "the opposite of what follows")
    for word, doc in PREFIXES.items():
        yield Expected("keyword", word, doc)
    yield Expected("keyword", "(")


def _fields() -> Iterator[Expected]:
    for field in FIELDS:
        yield Expected("field", field.name, field.doc)
    for root in ROOTS:
        yield Expected("field", f"{root}.", f"any field of the {root.partition('.')[0]}'s body")


def _saved(saved: Mapping[str, str]) -> Iterator[Expected]:
    for name, text in saved.items():
        yield Expected("saved", f"{SAVED}{name}", text)


def _members(paths: Iterable[str]) -> list[Expected]:
    return [Expected("field", path) for path in paths]


def _operators(field: Field) -> Iterator[Expected]:
    for symbol in operators(field):
        yield Expected("operator", symbol, BY_SYMBOL[symbol].doc, field.name)


def _values(field: Field) -> Iterator[Expected]:
    names = choices(field.type)
    for name in names:
        yield Expected("value", name, meaning(field.type, name), field.name)
    if not names and field.type is not Type.STRUCT:
        literal = LITERALS[field.type]
        for example in (literal.example, *literal.more):
            yield Expected("example", example, field=field.name)


def _longer(path: str, field: Field) -> list[Expected]:
    """Longer paths of bodies that begin with `path`."""
    begun = path.rpartition(".")[0]
    further = [one for one, _ in bodies.members(path)] if field.type is Type.STRUCT else []
    beside = [one for one, _ in bodies.members(begun) if one != path and one.startswith(path)]
    return _members([*further, *beside])


def _wanted(expected: Iterable[Expected]) -> str:
    """The words that are expected at a place, as text for a message."""
    operators = [item.text for item in expected if item.kind == "operator"]
    if operators:
        return f"an operator ({' '.join(operators)})"
    words = [f'"{item.text}"' if item.text.isalpha() else item.text for item in expected]
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


_HINTS = {
    "=": "'=' is not an operator; write ==",
    "&": "'&' is not an operator; write and, or &&",
    "|": "'|' is not an operator; write or, or ||",
    ")": "this ) closes nothing",
}


def _starting(expected: Iterable[Expected], prefix: str) -> list[Expected]:
    folded = prefix.casefold()
    return [item for item in expected if item.kind != "example" and item.text.casefold().startswith(folded)]


class _Parser:
    def __init__(self, text: str, saved: Mapping[str, str]) -> None:
        self._length = len(text)
        self._saved = saved
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0
        self._open = 0
        self._last: tuple[Token, list[Expected]] | None = None
        """The last operand's token, and the operands into which it could be extended."""
        self._after: list[Expected] = []

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._token
        self._next += 1
        return token

    def _is(self, *values: str) -> bool:
        token = self._token
        return token.kind in {Kind.WORD, Kind.SYMBOL} and token.value in values

    # --- grammar ---

    def whole(self) -> Expression:
        expression = self._expression()
        if self._token.kind is not Kind.END:
            raise self._unexpected(self._joins())
        return expression

    def _expression(self) -> Expression:
        items = [self._term()]
        while self._is(*OR):
            self._take()
            items.append(self._term())
        return any_of(items)

    def _term(self) -> Expression:
        items = [self._factor()]
        while self._is(*AND):
            self._take()
            items.append(self._factor())
        return all_of(items)

    def _factor(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            token = self._token
            raise _Stop(Status.ERROR, (token.start, token.end), f"nested deeper than {MAX_DEPTH}")
        try:
            if self._is(*NOT):
                self._take()
                return Not(self._factor())
            if self._is("("):
                return self._group()
            if self._token.kind is Kind.WORD and self._token.value.startswith(SAVED):
                return self._named()
            if self._token.kind is Kind.TEXT:
                return self._search()
            return self._test()
        finally:
            self._depth -= 1

    def _group(self) -> Expression:
        opening = self._take()
        self._open += 1
        inner = self._expression()
        if not self._is(")"):
            if self._token.kind is Kind.END:
                expected, word = self.following()
                raise _Stop(Status.UNFINISHED, (opening.start, opening.end), "this ( is not closed", expected, word)
            raise self._unexpected(self._joins())
        self._open -= 1
        self._last = None
        self._after = []
        self._take()
        return inner

    def _named(self) -> Expression:
        """The expression of the saved filter that the token names; saved filters cannot refer to others."""
        token = self._take()
        span = (token.start, token.end)
        text = self._saved.get(token.value.removeprefix(SAVED))
        others = [item for item in _starting(_saved(self._saved), token.value) if item.text != token.value]
        if text is None:
            if others and token.end == self._length:
                message = f"{token.value!r}: a saved filter?"
                raise _Stop(Status.UNFINISHED, span, message, others, token.start)
            near = nearest(token.value, [item.text for item in _saved(self._saved)])
            hint = f"; did you mean {near}?" if near else ""
            message = f"no saved filter {token.value}{hint}"
            raise _Stop(Status.ERROR, span, message, _saved(self._saved), token.start)
        inner = parse(text)
        if inner.expression is None:
            raise _Stop(Status.ERROR, span, f"{token.value}: {inner.message or 'is empty'}", (), token.start)
        self._last = (token, others)
        self._after = self._joins()
        return inner.expression

    def _search(self) -> Expression:
        token = self._take()
        try:
            found = search(token.value)
        except BadLiteral as bad:
            raise _Stop(Status.ERROR, (token.start, token.end), bad.message, (), token.start) from bad
        self._last = None
        self._after = self._joins()
        return found

    def _test(self) -> Expression:
        if self._is(HAS):
            self._take()
            return Present(self._field())
        prefix = self._prefix()
        field = self._field(prefix)
        token = self._token
        if prefix is None and (token.kind is Kind.END or self._is(*AND, *OR, ")")):
            return Present(field)
        if not self._is("not", *BY_SYMBOL):
            raise self._unexpected([*_operators(field), *([] if prefix else self._joins())])
        return self._comparison(field, "" if prefix is None else prefix.value)

    def _prefix(self) -> Token | None:
        """Takes the word `all` or `any` before a field; None if there is none."""
        return self._take() if self._is(ALL, ANY) else None

    def _field(self, prefix: Token | None = None) -> Field:
        token = self._token
        if token.kind is not Kind.WORD or token.value in KEYWORDS or token.value in PREFIXES:
            raise self._unexpected(_operands(self._saved), "a field")
        self._take()
        field = BY_NAME.get(token.value)
        others = [item for item in _starting(_operands(self._saved), token.value) if item.text != token.value]
        if field is None and bodies.is_path(token.value):
            field = self._path(token)
            others = _longer(token.value, field)
        if field is not None:
            if prefix is not None and not field.many:
                several = ", ".join(one.name for one in FIELDS if one.many)
                raise _Stop(
                    Status.ERROR,
                    (prefix.start, token.end),
                    f"{field.name} has one value; {prefix.value} is for fields with several: {several}, paths with []",
                    (),
                    prefix.start,
                )
            self._last = (token, others)
            self._after = [*_operators(field), *([] if prefix else self._joins())]
            return field
        if others and token.end == self._length:
            comparison = habits.comparison_with(token.value)
            message = f"{token.value!r}: a field?" + (f" or {comparison}" if comparison else "")
            raise _Stop(Status.UNFINISHED, (token.start, token.end), message, others, token.start)
        hint = habits.instead_of_field(token.value) or _SOME_FIELDS
        raise _Stop(
            Status.ERROR,
            (token.start, token.end),
            f"unknown field {token.value!r}; {hint}",
            _operands(self._saved),
            token.start,
        )

    def _path(self, token: Token) -> Field:
        """The field of a body whose path is the token."""
        try:
            return bodies.read(token.value)
        except BadPath as bad:
            unfinished = bad.partial and token.end == self._length
            raise _Stop(
                Status.UNFINISHED if unfinished else Status.ERROR,
                (token.start + bad.start, token.start + bad.end),
                bad.message,
                _members(bad.near),
                token.start,
            ) from bad

    def _operator(self) -> Token:
        """Takes the next operator; `not in` and `not contains` become one token."""
        token = self._take()
        if token.value != "not" or token.kind is not Kind.WORD:
            return token
        if not self._is("in", "contains"):
            raise self._unexpected([Expected("operator", "in"), Expected("operator", "contains")])
        second = self._take()
        return Token(Kind.WORD, f"not {second.value}", token.start, second.end)

    def _comparison(self, field: Field, quantifier: str) -> Expression:
        before, operator = self._tokens[self._next - 1], self._operator()
        if field.type is Type.STRUCT:
            text = f"{field.name} consists of further fields and has no value of its own"
            shown = [path for path, kind in bodies.members(field.name) if kind is not Type.STRUCT]
            if field.path is not None and field.path.steps and not str(field.path.steps[-1]).endswith("]"):
                listed = bodies.listed(field.name)
                text = f"{field.name} is a list; write {field.name}[]" if listed else text
            elif shown:
                text = f"{text}; use one of them, such as {shown[0]}"
            raise _Stop(Status.ERROR, (before.start, before.end), text, _members(shown), before.start)
        if operator.value not in operators(field):
            message = f"{field.name} takes {' '.join(operators(field))}, not {operator.value}"
            raise _Stop(
                Status.ERROR,
                (operator.start, operator.end),
                self._hint(self._token) or message,
                _operators(field),
                operator.start,
            )
        if operator.value not in LISTS:
            return Compare(field, operator.value, (self._value(field, operator.value),), quantifier)
        if not self._is("("):
            raise self._unexpected([Expected("keyword", "(")])
        opening = self._take()
        values = [self._value(field, "==")]
        while self._is(","):
            self._take()
            values.append(self._value(field, "=="))
        if not self._is(")"):
            if self._token.kind is Kind.END:
                more = [Expected("keyword", ","), Expected("keyword", ")")]
                others, word = self._extensions()
                raise _Stop(
                    Status.UNFINISHED, (opening.start, opening.end), "this ( is not closed", [*others, *more], word
                )
            raise self._unexpected([Expected("keyword", ","), Expected("keyword", ")")])
        self._take()
        self._last = None
        self._after = self._joins()
        return Compare(field, operator.value, tuple(values), quantifier)

    def _value(self, field: Field, operator: str) -> Value:
        token = self._token
        if token.kind is Kind.UNCLOSED:
            raise _Stop(Status.UNFINISHED, (token.start, token.end), "this quote is not closed", (), token.start)
        if token.kind not in {Kind.WORD, Kind.TEXT}:
            raise self._unexpected(_values(field), f"a value of {field.name}")
        if token.kind is Kind.WORD and token.value in KEYWORDS:
            raise _Stop(
                Status.ERROR,
                (token.start, token.end),
                f'a value that reads "{token.value}" must be in quotes',
                _values(field),
            )
        self._take()
        typing = token.kind is Kind.WORD and token.end == self._length
        names = _starting(_values(field), token.value) if typing else []
        try:
            if operator == "~":
                value: Value = pattern(token.value)
            else:
                value = token.value if operator in SEARCHES else LITERALS[field.type].read(token.value)
        except BadLiteral as bad:
            partial = bad.partial and typing
            status = Status.UNFINISHED if partial else Status.ERROR
            raise _Stop(
                status, (token.start, token.end), bad.message, names if partial else _values(field), token.start
            ) from bad
        self._last = (token, [item for item in names if item.text != token.value])
        self._after = self._joins()
        return value

    # --- what could follow ---

    def _joins(self) -> list[Expected]:
        joins = [Expected("keyword", "and"), Expected("keyword", "or")]
        return [*joins, Expected("keyword", ")")] if self._open else joins

    def _extensions(self) -> tuple[list[Expected], int]:
        """(longer words that the last word of the text could become, position at which that word begins)"""
        if self._last is not None and self._last[1] and self._last[0].end == self._length:
            return self._last[1], self._last[0].start
        return [], self._length

    def following(self) -> tuple[list[Expected], int]:
        """(what could follow a text that is complete, position at which that begins)"""
        others, word = self._extensions()
        return (others, word) if others else (self._after or self._joins(), word)

    def _hint(self, token: Token) -> str | None:
        """A hint on what the user probably meant by an unexpected token; None if there is none."""
        before = self._tokens[self._next - 1] if self._next else token
        if token.value == ")" and (self._open or before.value in {"(", ","}):
            return None
        if token.kind is Kind.WORD and re.fullmatch(r"[0-9.]+", before.value) and token.value in _UNITS:
            return f"write a number and its unit without a space: {before.value}{token.value}"
        if token.value == ">" and before.value == "<" and before.end == token.start:
            return "'<>' is not an operator; write !="
        if token.value == "(" and before.value in PREFIXES:
            return f"{before.value} takes no parentheses: {before.value} response.body.topics[].errorCode"
        if token.value[:1] in {"[", "{"} and before.value == "in":
            return f"'in' takes its values in parentheses: in ({token.value.strip('[]{}')}, …)"
        if token.kind is Kind.WORD and (meant := habits.instead_of_operator(token.value, before.value)) is not None:
            return meant
        has = self._next > 1 and self._tokens[self._next - 2].value == HAS
        if has and token.value in BY_SYMBOL:
            return f"'has' only tests whether {before.value} is there; leave out 'has' to compare"
        return _HINTS.get(token.value)

    def _unexpected(self, expected: Iterable[Expected], what: str = "") -> _Stop:
        """The exception for an unexpected token: UNFINISHED if the text may become valid by typing on, else ERROR."""
        token = self._token
        listed = list(expected)
        wanted = what or _wanted(listed)
        if token.kind is Kind.END:
            return _Stop(Status.UNFINISHED, (token.start, token.end), f"expected {wanted}", listed, self._length)
        last = token.end == self._length
        if token.kind is Kind.UNCLOSED:
            return _Stop(Status.UNFINISHED, (token.start, token.end), "this quote is not closed", (), token.start)
        if token.kind in {Kind.WORD, Kind.BAD} and last and (begun := _starting(listed, token.value)):
            return _Stop(Status.UNFINISHED, (token.start, token.end), f"expected {wanted}", begun, token.start)
        message = self._hint(token) or f"expected {wanted}, found {token.value!r}"
        return _Stop(Status.ERROR, (token.start, token.end), message, listed, token.start)
