"""Regular expressions of filters, in time that grows with the text alone: none backtracks, however it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import re2

LARGEST: Final = 4000
"""Instructions of an expression: a character of the text costs each of them at most once, some ten nanoseconds."""


class BadRegex(Exception):  # noqa: N818 (a finding about the text)
    """The text is no regular expression, or too large a one; the message says why."""


def searcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text has what matches the expression (RE2's syntax). Raises BadRegex."""
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
