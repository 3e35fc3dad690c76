"""Searches: a filter that is only a text in quotes selects the exchanges that contain the text anywhere."""

from __future__ import annotations

import re
from typing import Final

from kproxy.decoders.fields import BY_NAME
from kproxy.decoders.filters import bodies
from kproxy.decoders.filters.expression import Compare, Expression, any_of
from kproxy.decoders.filters.language import KEYWORDS, PREFIXES, SAVED
from kproxy.decoders.filters.lexer import Kind, tokens
from kproxy.decoders.filters.values import BadLiteral, in_quotes, pattern

FIELDS: Final = ("api", "client.id", "client", "broker", "topic", "group", "txn", "error", "record", "text")
"""The fields in which a search looks. Those that need no decoded body come first: if one of them contains the text, no
body is decoded.
"""


def search(text: str) -> Expression:
    """The expression that selects exchanges containing `text`, ignoring case.

    Raises BadLiteral if it is empty or too long.
    """
    if not text:
        raise BadLiteral("there is nothing to search for between the quotes")
    try:
        sought = pattern(f"(?i){re.escape(text)}")
    except BadLiteral as bad:
        raise BadLiteral(f"this text cannot be searched for: {bad.__cause__}") from bad
    return any_of([Compare(BY_NAME[name], "~", (sought,)) for name in FIELDS])


def as_search(text: str) -> str | None:
    """The filter that searches for `text`; None if it looks like a filter: it has operators or begins with a field."""
    words = tokens(text)[:-1]
    if not words or any(word.kind is not Kind.WORD or word.value in KEYWORDS for word in words):
        return None
    first = words[0].value
    if first in BY_NAME or first in PREFIXES or first.startswith(SAVED) or bodies.is_path(first):
        return None
    return in_quotes(text.strip())
