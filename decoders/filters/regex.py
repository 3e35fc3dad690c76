"""Regular expressions in filters. RE2 never backtracks, so matching time is linear in the length of the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import re2

LARGEST: Final = 4000
"""Maximum number of instructions of an expression; each runs at most once per character of text, in about 10 ns."""


class BadRegex(Exception):  # noqa: N818 (a finding about the text)
    """The text is not a regular expression, or is too large; the message says why."""


def searcher(pattern: str) -> Callable[[str], bool]:
    """A function that returns whether a text contains a match of `pattern` (RE2 syntax). Raises BadRegex."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        (why,) = error.args
        raise BadRegex(why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)) from error
    if compiled.programsize > LARGEST:
        raise BadRegex(f"it is too large ({compiled.programsize} of {LARGEST} instructions)")
    search = compiled.search
    return lambda text: search(text.encode("utf-8", "surrogatepass")) is not None
