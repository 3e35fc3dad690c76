"""Formats the values of a report as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from kproxy.captures.text import latency_text, size_text


def _time(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}"


def _count(value: float) -> str:
    return f"{value:.0f}" if abs(value) < 1e6 else size_text(round(value))


FORMS: Final[Mapping[str, Callable[[Any], str]]] = {
    "text": str,
    "rule": str,
    "count": _count,
    "bytes": lambda value: size_text(round(value)),
    "us": lambda value: latency_text(round(value * 1000)),
    "ms": lambda value: latency_text(round(value * 1_000_000)),
    "ratio": lambda value: f"{value:.2f}",
    "time": _time,
    "list": ", ".join,
    "flag": lambda value: "yes" if value else "",
}
"""By name of a form, the function that formats a value.

Durations are written in milliseconds, or with a unit; times in the session's time zone, which is UTC here.
"""

TO_THE_LEFT: Final = frozenset({"text", "rule", "list", "time", "flag"})


def text(form: str, value: Any) -> str:
    """A value as text in one of `FORMS`; "" for None."""
    return "" if value is None else FORMS[form](value)
