"""The figures of the Stats screen as they were written beside the index, and the order that they are shown in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

GROUPINGS: Final = ("api", "client", "broker", "topic")
"""What exchanges may be counted by, as captures.analysis.stats has it."""
ALL: Final = "all"
WINDOWS: Final[dict[str, str]] = {"10": "10 s", "60": "1 min", "600": "10 min", ALL: "all"}
"""The windows by their names in the figures."""
ORDERS: Final[dict[str, str]] = {
    "count": "count", "failed": "errors", "p50": "p50", "p90": "p90", "p99": "p99", "max": "max",
}  # fmt: skip
"""What lines may be ordered by: member of the figures, and its name."""


@dataclass(frozen=True, slots=True)
class Line:
    """What is counted under a name in one window; see captures.analysis.figures for the members of `figures`."""

    name: str
    long_poll: bool
    filters: tuple[str, ...]
    figures: dict[str, Any]

    @property
    def key(self) -> tuple[str, bool]:
        return self.name, self.long_poll

    @property
    def title(self) -> str:
        """A Fetch that the broker held until its max wait was over waited: a long poll."""
        return f"{self.name} (wait)" if self.long_poll else self.name


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time: nanoseconds since the epoch, nanoseconds of a slice, and the seconds that it covers."""

    start: int
    slice: int
    seconds: float

    def tests(self, slices: int) -> list[str]:
        """What finds the exchanges of that many slices of it, in the display filter's words."""
        from kproxy.decoders.filters.fields import Type
        from kproxy.decoders.filters.values import LITERALS

        write = LITERALS[Type.TIME].write
        return [f"time >= {write(self.start)}", f"time < {write(self.start + self.slice * slices)}"]


NOWHEN: Final = Window(0, 1_000_000_000, 0.0)


def window_of(facts: dict[str, Any], window: str) -> Window:
    span = facts["span"].get(window)
    return NOWHEN if span is None else Window(span["from"], span["slice"], span["seconds"])


def lines_of(facts: dict[str, Any], window: str, order: str) -> Sequence[Line]:
    """The lines with an exchange in a window, the greatest first."""
    found = [
        Line(one["name"], one["long_poll"], tuple(one["filters"]), one["windows"][window])
        for one in facts["lines"]
        if window in one["windows"]
    ]
    found.sort(key=lambda line: (-line.figures.get(order, -1), line.name, line.long_poll))
    return found
