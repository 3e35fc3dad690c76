"""The figures of the Stats screen, from the snapshot beside the index, and the orders of its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

GROUPINGS: Final = ("api", "client", "broker", "topic")
"""The attributes by which exchanges can be grouped, as in captures.analysis.stats."""
ALL: Final = "all"
WINDOWS: Final[dict[str, str]] = {"10": "10 s", "60": "1 min", "600": "10 min", ALL: "all"}
"""Windows of time: name in the figures, and text."""
ORDERS: Final[dict[str, str]] = {
    "count": "count", "failed": "errors", "p50": "p50", "p90": "p90", "p99": "p99", "max": "max",
}  # fmt: skip
"""Orders of the lines: the member of the figures to sort by, and its name on screen."""


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

    def tests(self, slices: int) -> list[str]:
        """The display filters for the first `slices` slices of the window; an exchange is in them if it passes all."""
        from kproxy.decoders.fields import Type
        from kproxy.decoders.filters.values import LITERALS

        write = LITERALS[Type.TIME].write
        return [f"time >= {write(self.start)}", f"time < {write(self.start + self.slice * slices)}"]


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
