"""The figures of the Stats screen, from the snapshot beside the index, and the orders of its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kproxy.captures.period import Period

GROUPINGS: Final = ("api", "client", "broker", "topic")
"""The attributes by which exchanges can be grouped, as in captures.analysis.stats."""
ALL: Final = "all"
WINDOWS: Final[dict[str, str]] = {"10": "10 s", "60": "1 min", "600": "10 min", ALL: "all"}
"""Windows of time: name in the figures, and text."""
ORDERS: Final[dict[str, str]] = {
    "count": "count", "bytes": "bytes", "records": "records", "failed": "errors",
    "p50": "p50", "p90": "p90", "p99": "p99", "max": "max",
}  # fmt: skip
"""Orders of the lines: the member of the figures to sort by, and its name on screen."""
PERCENTILES: Final = ("p50", "p99")
"""The percentiles that are known of each slice."""
LATENCY: Final = "latency"
MEASURES: Final[dict[str, tuple[str, str]]] = {
    LATENCY: ("", "latency, ms"),
    "requests": ("count", "requests a second"),
    "bytes": ("bytes", "bytes a second"),
    "records": ("records", "records a second"),
    "errors": ("failed", "errors a second"),
}
"""What the chart can show: by name, the figure whose rate it shows ("" for the latencies), and its title."""


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one name in one window; captures.analysis.figures documents the members of `figures`."""

    name: str
    long_poll: bool
    filters: tuple[str, ...]
    figures: dict[str, Any]

    @property
    def key(self) -> tuple[str, bool]:
        return self.name, self.long_poll

    def over_time(self, figure: str) -> Sequence[Any]:
        """A figure by slice; if the snapshot lacks the figure, all None for a percentile and all 0 for others."""
        found: dict[str, Sequence[Any]] = self.figures["over_time"]
        return found.get(figure) or [None if figure in PERCENTILES else 0] * len(found["count"])

    @property
    def title(self) -> str:
        """The name, followed by "(long poll)" for Fetches that the broker held until their max wait was over."""
        return f"{self.name} (long poll)" if self.long_poll else self.name


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time: start (ns since the epoch), length of a slice (ns), length of the span (s)."""

    start: int
    slice: int
    seconds: float

    def period(self, first: int, after: int) -> Period:
        """The time from the beginning of slice `first` to the beginning of slice `after`."""
        return Period(self.start + first * self.slice, self.start + after * self.slice)


NOWHEN: Final = Window(0, 1_000_000_000, 0.0)


def window_of(facts: dict[str, Any], window: str) -> Window:
    span = facts["span"].get(window)
    return NOWHEN if span is None else Window(span["from"], span["slice"], span["seconds"])


def lines_of(facts: dict[str, Any], window: str, order: str) -> Sequence[Line]:
    """The lines that have an exchange in a window, the greatest by `order` first."""
    found = [
        Line(one["name"], one["long_poll"], tuple(one["filters"]), one["windows"][window])
        for one in facts["lines"]
        if window in one["windows"]
    ]
    found.sort(key=lambda line: (-line.figures.get(order, -1), line.name, line.long_poll))
    return found


def total_of(facts: dict[str, Any], window: str) -> Line | None:
    """The total of a window; None without an exchange. Its percentiles are those of all but long polls."""
    figures = facts["total"].get(window)
    return None if figures is None else Line("total", False, (), figures)
