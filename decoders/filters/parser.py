"""The filter language's parser: text to a `Result` that says what is meant, what is wrong and what could follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from decoders.filters.expression import Compare, Expression, Not, Present, all_of, any_of
from decoders.filters.fields import AND, BY_NAME, BY_SYMBOL, FIELDS, KEYWORDS, NOT, OR, Field
from decoders.filters.lexer import Kind, Token, tokens
from decoders.filters.values import LITERALS, BadLiteral, Value, choices, nearest, pattern

MAX_DEPTH = 100


class Status(StrEnum):
    OK = "ok"
    UNFINISHED = "unfinished"
    """More typing at the end may make it right."""
    ERROR = "error"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Expected:
    """One thing that could stand at the end of the text.

    `kind` is "field", "operator", "keyword", "value" or "example" (of an open-ended value; `text` shows its form);
    `field` is the field whose operators or values are meant.
    """

    kind: str
    text: str
    doc: str = ""
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a filter's text means.

    `span` [start, end) is the part that `message` is about (the whole text where all is well); `expected` is what
    could stand in place of the word that begins at `word` (the text's end, where none is being typed).
    """

    status: Status
    span: tuple[int, int]
    message: str
    expected: tuple[Expected, ...]
    expression: Expression | None
    word: int


def parse(text: str) -> Result:
    """Read a filter. Never raises: what is wrong is in the result."""
    if not text.strip():
        return Result(Status.EMPTY, (0, len(text)), "", tuple(_operands()), None, len(text))
    parser = _Parser(text)
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


def _operands() -> Iterator[Expected]:
    for field in FIELDS:
        yield Expected("field", field.name, field.doc)
    yield Expected("keyword", "not", "the opposite of what follows")
    yield Expected("keyword", "(")


def _operators(field: Field) -> Iterator[Expected]:
    for symbol in field.operators:
        yield Expected("operator", symbol, BY_SYMBOL[symbol].doc, field.name)


def _values(field: Field) -> Iterator[Expected]:
    names = choices(field.type)
    for name in names:
        yield Expected("value", name, field=field.name)
    if not names:
        yield Expected("example", LITERALS[field.type].example, field=field.name)


def _starting(expected: Iterable[Expected], prefix: str) -> list[Expected]:
    folded = prefix.casefold()
    return [item for item in expected if item.kind != "example" and item.text.casefold().startswith(folded)]


class _Parser:
    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0
        self._open = 0
        self._last: tuple[Token, list[Expected]] | None = None
        """The last operand's token and what else could have begun with its letters."""
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

    def _test(self) -> Expression:
        field = self._field()
        if self._is("not"):
            self._take()
            if not self._is("in", "contains"):
                raise self._unexpected([Expected("operator", "in"), Expected("operator", "contains")])
            return Not(self._comparison(field))
        token = self._token
        if token.kind is Kind.END or self._is(*AND, *OR, ")"):
            return Present(field)
        if not self._is(*BY_SYMBOL):
            raise self._unexpected([*_operators(field), *self._joins()])
        return self._comparison(field)

    def _field(self) -> Field:
        token = self._token
        if token.kind is not Kind.WORD or token.value in KEYWORDS:
            raise self._unexpected(_operands(), "a field")
        self._take()
        field = BY_NAME.get(token.value)
        others = [item for item in _starting(_operands(), token.value) if item.text != token.value]
        if field is not None:
            self._last = (token, others)
            self._after = [*_operators(field), *self._joins()]
            return field
        if others and token.end == self._length:
            raise _Stop(Status.UNFINISHED, (token.start, token.end), f"{token.value!r}: a field?", others, token.start)
        near = nearest(token.value, BY_NAME)
        hint = f"; did you mean {near}?" if near else ""
        raise _Stop(
            Status.ERROR, (token.start, token.end), f"unknown field {token.value!r}{hint}", _operands(), token.start
        )

    def _comparison(self, field: Field) -> Expression:
        operator = self._take()
        if operator.value not in field.operators:
            raise _Stop(
                Status.ERROR,
                (operator.start, operator.end),
                f"{field.name} is a {field.type} and takes {' '.join(field.operators)}, not {operator.value}",
                _operators(field),
                operator.start,
            )
        if operator.value != "in":
            return Compare(field, operator.value, (self._value(field, operator.value),))
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
        return Compare(field, "in", tuple(values))

    def _value(self, field: Field, operator: str) -> Value:
        token = self._token
        if token.kind is Kind.UNCLOSED:
            raise _Stop(Status.UNFINISHED, (token.start, token.end), "this quote is not closed", (), token.start)
        if token.kind not in {Kind.WORD, Kind.TEXT}:
            raise self._unexpected(_values(field), f"a value of {field.name}")
        if token.kind is Kind.WORD and token.value in KEYWORDS:
            raise _Stop(
                Status.ERROR, (token.start, token.end), f'put the word in quotes: "{token.value}"', _values(field)
            )
        self._take()
        typing = token.kind is Kind.WORD and token.end == self._length
        names = _starting(_values(field), token.value) if typing else []
        try:
            if operator == "~":
                value: Value = pattern(token.value)
            else:
                value = token.value if operator == "contains" else LITERALS[field.type].read(token.value)
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
        """What the word at the very end could still become, and where it begins."""
        if self._last is not None and self._last[1] and self._last[0].end == self._length:
            return self._last[1], self._last[0].start
        return [], self._length

    def following(self) -> tuple[list[Expected], int]:
        """What could stand at the end of a text that is complete as it is."""
        others, word = self._extensions()
        return (others, word) if others else (self._after or self._joins(), word)

    def _unexpected(self, expected: Iterable[Expected], what: str = "") -> _Stop:
        """The stop for a token that nothing expects here; at the end of the text it is only unfinished."""
        token = self._token
        listed = list(expected)
        wanted = what or " ".join(item.text for item in listed)
        if token.kind is Kind.END:
            return _Stop(Status.UNFINISHED, (token.start, token.end), f"needs {wanted}", listed, self._length)
        last = token.end == self._length
        if token.kind is Kind.UNCLOSED:
            return _Stop(Status.UNFINISHED, (token.start, token.end), "this quote is not closed", (), token.start)
        if token.kind in {Kind.WORD, Kind.BAD} and last and (begun := _starting(listed, token.value)):
            return _Stop(Status.UNFINISHED, (token.start, token.end), f"needs {wanted}", begun, token.start)
        hint = {"=": "; use ==", "&": "; use && or and", "|": "; use || or or"}.get(token.value, "")
        message = f"unexpected {token.value!r}; needs {wanted}" if not hint else f"unexpected {token.value!r}{hint}"
        return _Stop(Status.ERROR, (token.start, token.end), message, listed, token.start)
