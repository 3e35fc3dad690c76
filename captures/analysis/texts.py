"""Formats the JSON objects of views as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kproxy.captures.text import utc
from kproxy.captures.views import VIEWS, Clock, Line
from kproxy.decoders.escaping import escape


def view_text(view: str, lines: Iterable[Line], clock: Clock = utc) -> Iterator[str]:
    """A view's JSON objects as lines of text, with control characters escaped; `clock` formats times."""
    return map(escape, VIEWS[view].text(lines, clock))
