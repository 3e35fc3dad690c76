"""Splits a filter's text into tokens. Never fails: every character belongs to a token or to white space."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    WORD = "word"
    TEXT = "text"
    """A literal in quotes; `value` is the text between the quotes, unescaped."""
    UNCLOSED = "unclosed"
    SYMBOL = "symbol"
    BAD = "bad"
    END = "end"


class Token(NamedTuple):
    kind: Kind
    value: str
    start: int
    end: int


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<symbol>==|!=|<=|>=|&&|\|\||[<>~!(),])
    | (?P<quote>["'])
    | (?P<bad>[=&|])
    | (?P<word>[^\s()!=<>~&|,"']+)
    )""",
    re.VERBOSE,
)
_INSIDE = {'"': re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL), "'": re.compile(r"(?:[^'\\]|\\.)*", re.DOTALL)}
_ESCAPE = re.compile(r"""\\(["'\\])""")


def tokens(text: str) -> list[Token]:
    """The tokens of `text`; the last has kind END."""
    found: list[Token] = []
    position = 0
    while match := _TOKEN.match(text, position):
        group = match.lastgroup or ""
        start, position = match.span(group)
        if group == "quote":
            quote = text[start]
            inside = _INSIDE[quote].match(text, position)
            end = inside.end() if inside else position
            closed = end < len(text)
            value = _ESCAPE.sub(r"\1", text[position:end])
            position = end + 1 if closed else len(text)
            found.append(Token(Kind.TEXT if closed else Kind.UNCLOSED, value, start, position))
        else:
            found.append(Token(Kind(group), text[start:position], start, position))
    found.append(Token(Kind.END, "", len(text), len(text)))
    return found
