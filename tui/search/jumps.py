"""Finds the row to jump to: by number or time, or the neighbour on the same connection."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kproxy.captures.index.format import COLUMNS
from kproxy.tui.listing.times import before_on_connection

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader

NANOSECONDS: Final = 1_000_000_000
_NUMBER: Final = re.compile(r"#?([0-9][0-9,_]*)")
_MOVE: Final = re.compile(r"([+-])([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h)")
_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?")
_UNITS: Final = {"ms": 10**6, "s": 10**9, "min": 60 * 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
CHUNK: Final = 16_384
"""Rows that are read together."""


def row_of(text: str, index: IndexReader, here: int | None) -> int:
    """The index row for a typed number, time of day, date and time, or distance in time from row `here`.

    For a time this is the first row at or after it. Raises ValueError with the reason.
    """
    text = text.strip()
    if index.count <= index.first:
        raise ValueError("there is no exchange")
    if match := _NUMBER.fullmatch(text):
        number = int(re.sub("[,_]", "", match[1]))
        if not index.first < number <= index.count:
            raise ValueError(f"there are exchanges {index.first + 1:,} to {index.count:,}")
        return number - 1
    start = index.row(index.first if here is None else here).time
    return _at(index, _moment(text, start))


def _moment(text: str, start: int) -> int:
    """A typed time as nanoseconds since the epoch; a time of day means the local day of `start`."""
    if match := _MOVE.fullmatch(text):
        by = int(float(match[2]) * _UNITS[match[3]])
        return start + by if match[1] == "+" else start - by
    if match := _CLOCK.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in match.groups()[:3])
        try:
            day = datetime.fromtimestamp(start // NANOSECONDS)  # noqa: DTZ006 - the list shows the local clock
            clock = day.replace(hour=hour, minute=minute, second=second, microsecond=0)
        except (ValueError, OverflowError, OSError) as error:
            raise ValueError(str(error)) from None
        rest = int((match[4] or ".0")[1:].ljust(9, "0"))
        return int(time.mktime(clock.timetuple())) * NANOSECONDS + rest
    try:
        moment = datetime.fromisoformat(text)
        return int(moment.timestamp() * 1_000_000) * 1_000
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text}: no number (430), clock (12:01:03.5), date and time, or distance (+5s)") from None


def _at(index: IndexReader, moment: int) -> int:
    """The first row at or after a moment, or the last row. Bisects, as rows are nearly in the order of time."""
    low, high = index.first, index.count
    while low < high:
        middle = (low + high) // 2
        if index.row(middle).time < moment:
            low = middle + 1
        else:
            high = middle
    return min(low, index.count - 1)


def on_connection(index: IndexReader, number: int, by: int) -> int | None:
    """The next (1) or previous (-1) row on the connection of row `number`, None if there is none."""
    if by < 0:
        return before_on_connection(index, number, index.count)
    connection = index.row(number).connection
    _, offset, size = COLUMNS["connection"]
    for start in range(number + 1, index.count, CHUNK):
        stop = min(start + CHUNK, index.count)
        raw = index.raw(start, stop)
        width = len(raw) // (stop - start)
        for one in range(stop - start):
            at = one * width + offset
            if int.from_bytes(raw[at : at + size], "little") == connection:
                return start + one
    return None
