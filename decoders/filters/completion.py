"""Completes a filter's text: fields, operators, names, and values that occur in the capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kproxy.decoders.fields import BY_NAME, Type
from kproxy.decoders.filters.lexer import Kind, tokens
from kproxy.decoders.filters.parser import Expected, parse
from kproxy.decoders.filters.values import quote

Seen = Callable[[str], Iterable[tuple[str, int]]]
"""A function from a field's name to (value, count) pairs; values are written as in a filter, without quotes."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible completion; `count` is the number of exchanges with this value, None if they were not counted.

    `kind` is "field", "operator", "keyword", "value", "saved" or "example". An example shows the form of a value; the
    user replaces it.
    """

    text: str
    kind: str
    doc: str = ""
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The `candidates` that can replace the part [start, end) of the text."""

    start: int
    end: int
    candidates: tuple[Candidate, ...]

    def accept(self, text: str, candidate: Candidate) -> tuple[str, int]:
        """Insert a candidate into the filter's text; returns (new text, new position of the cursor)."""
        head = text[: self.start]
        apart = head and not head[-1].isspace() and head[-1] != "(" and candidate.text not in {",", ")"}
        head += f" {candidate.text}" if apart else candidate.text
        return head + text[self.end :], len(head)


def complete(
    text: str, cursor: int | None = None, seen: Seen | None = None, saved: Mapping[str, str] | None = None
) -> Completion:
    """The completions at the cursor (None: the end of the text).

    Values from the capture come first, most frequent first.

    Only the text before the cursor decides; a completion replaces the whole word at the cursor. `seen` returns values
    from the capture; `saved` are saved filters by name. Never raises.
    """
    at = len(text) if cursor is None else min(max(cursor, 0), len(text))
    head = text[:at]
    end = next((token.end for token in tokens(text) if token.start < at <= token.end and token.kind is Kind.WORD), at)
    typed = next((token for token in tokens(head) if token.end == at and token.kind in _TYPED), None)
    if typed is not None:
        values = _values(parse(head[: typed.start], saved).expected, typed.value, seen)
        values = [value for value in values if value.text != typed.value]
        if values:
            return Completion(typed.start, end, tuple(values))
    result = parse(head, saved)
    start = min(result.word, at)
    expected = [one for one in result.expected if one.text.casefold().startswith(head[start:].casefold())]
    rest = [Candidate(one.text, one.kind, one.doc) for one in expected if one.kind not in _VALUES]
    return Completion(start, max(end, start), (*_values(result.expected, head[start:], seen), *rest))


_TYPED = frozenset({Kind.WORD, Kind.UNCLOSED})
_VALUES = frozenset({"value", "example"})


def _values(expected: Iterable[Expected], prefix: str, seen: Seen | None) -> list[Candidate]:
    """Values that begin with `prefix`: values in the capture first, then other names, then examples.

    Empty if no value is expected.
    """
    listed = [one for one in expected if one.kind in _VALUES]
    field = next((one.field for one in listed), None)
    if field is None:
        return []
    found = _seen(field, prefix, seen)
    texts = {one.text for one in found}
    folded = prefix.casefold()
    names = [one for one in listed if one.text not in texts]
    named = [one for one in names if one.kind == "value" and one.text.casefold().startswith(folded)]
    examples = [one for one in names if one.kind == "example" and not prefix and not found]
    return [*found, *(Candidate(one.text, one.kind, one.doc) for one in (*named, *examples))]


def _seen(field: str, prefix: str, seen: Seen | None) -> list[Candidate]:
    if seen is None:
        return []
    folded = prefix.casefold()
    begun = [(value, count) for value, count in seen(field) if value.casefold().startswith(folded)]
    known = BY_NAME.get(field)
    closed = known is not None and known.type in {Type.API, Type.ERROR, Type.STATUS, Type.CLASS, Type.ROLE}
    return [
        Candidate(value if closed else quote(value), "value", count=count)
        for value, count in sorted(begun, key=lambda one: (-one[1], one[0]))
    ]
