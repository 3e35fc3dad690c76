"""The Time column: time of day, or the seconds since another exchange."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kproxy.captures.index.format import Row
    from kproxy.captures.index.reader import IndexReader

CLOCK: Final = "clock"
SINCE: Final = "since"
SHOWN: Final = "shown"
CONNECTION: Final = "connection"
EPOCH: Final = "epoch"
FORMATS: Final[dict[str, str]] = {
    CLOCK: "Time", SINCE: "since start", SHOWN: "since above", CONNECTION: "on its conn", EPOCH: "epoch s",
}  # fmt: skip
"""Formats with their column titles: clock; seconds since the first exchange or the one set as reference; seconds since
the line above; seconds since the previous exchange on the connection; seconds since the epoch."""
NANOSECONDS: Final = 1_000_000_000
LOOKED_BACK: Final = 2_000
"""Maximum number of rows that are searched for the previous exchange on a connection."""


def of_day(seconds: int) -> str:
    """Local time of day, 8 characters; question marks for a time that the platform cannot convert."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "??:??:??"


def day_of(seconds: int) -> str:
    """Local month and day, "11-27"; question marks for a time that the platform cannot convert."""
    try:
        return time.strftime("%m-%d", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "??-??"


def moment_text(nanoseconds: int) -> str:
    """Local time of day with milliseconds, "12:34:56.789", of a time in ns since the epoch."""
    second, rest = divmod(nanoseconds, NANOSECONDS)
    return f"{of_day(second)}.{rest // 1_000_000:03d}"


def zone(seconds: int) -> str:
    """Offset of local time from UTC ("UTC", "+02:00"); empty for a time that the platform cannot convert."""
    try:
        offset = time.strftime("%z", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return ""
    return "UTC" if offset == "+0000" else f"{offset[:3]}:{offset[3:]}"


def zone_of(index: IndexReader) -> str:
    """`zone` at the time of the first exchange; empty without exchanges."""
    return zone(_first(index) // NANOSECONDS) if index.first < index.count else ""


class Times:
    """Format of the Time column; `reference` is the time that SINCE counts from (ns), None for the first row's."""

    def __init__(self, clock: Callable[[int], str]) -> None:
        self.format = CLOCK
        self.reference: int | None = None
        self._clock = clock

    def title(self, index: IndexReader | None) -> str:
        """Title of the column; for clock times with their zone, because filters and exports use UTC."""
        if self.format == SINCE and self.reference is not None:
            return "since ref"
        if self.format == CLOCK and index is not None:
            return f"{FORMATS[CLOCK]} {zone_of(index)}"
        return FORMATS[self.format]

    def next(self) -> None:
        names = list(FORMATS)
        self.format = names[(names.index(self.format) + 1) % len(names)]

    def refer_to(self, time: int) -> None:
        """Count from `time` (ns since the epoch); if that is the reference already, from the first row again."""
        self.reference = None if self.reference == time else time
        self.format = SINCE

    def text(self, index: IndexReader, number: int, row: Row, above: Row | None) -> str:
        """The cell of index row `number`, empty until a frame is complete; `above` is the row of the line above."""
        if not row.time:
            return ""
        match self.format:
            case "clock":
                return self._clock(row.time)
            case "epoch":
                return f"{row.time // 1_000_000_000}.{row.time // 100_000_000 % 10}"
            case "since":
                return _seconds(row.time - (_first(index) if self.reference is None else self.reference))
            case "shown":
                return "" if above is None else _seconds(row.time - above.time)
            case _:
                before = before_on_connection(index, number, LOOKED_BACK)
                return "" if before is None else _seconds(row.time - index.row(before).time)


def _first(index: IndexReader) -> int:
    return index.row(index.first).time if index.first < index.count else 0


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.6f}"


def before_on_connection(index: IndexReader, number: int, most: int) -> int | None:
    """The previous index row on the connection of row `number`; None if the `most` rows before have none."""
    connection = index.row(number).connection
    for one in range(number - 1, max(index.first, number - most) - 1, -1):
        if index.row(one).connection == connection:
            return one
    return None
