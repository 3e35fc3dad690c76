"""The times of one exchange, compared with its neighbours on the connection and with others of its API and version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kproxy.captures.index.format import NO_LATENCY, Flag, Row, State
from kproxy.tui.terminal import look

if TYPE_CHECKING:
    from kproxy.captures.index.reader import Detail, IndexReader
    from kproxy.decoders.exchange import Frame
    from kproxy.tui.listing.rows import RowText
    from kproxy.tui.widgets.overview import Line

AROUND: Final = 2_000
"""Number of exchanges before the shown one, and of those after it, with which it is compared."""
MOST_NAMED: Final = 4
"""Maximum number of requests in flight that are named."""
FEWEST_ALIKE: Final = 5
"""Minimum number of comparable exchanges for which a percentage is shown."""
_MILLISECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Bar:
    """A time span from `start` to `end`, nanoseconds since the epoch."""

    name: str
    start: int
    end: int
    text: str
    bound: bool = False
    """Whether this is a limit or an instruction (max wait, throttle) instead of a time seen in the capture."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Bars, the earliest first, and lines of "name  value" below them."""

    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()

    @property
    def start(self) -> int:
        return min((bar.start for bar in self.bars), default=0)

    @property
    def end(self) -> int:
        return max((bar.end for bar in self.bars), default=0)


def timing(number: int, row: Row, detail: Detail, index: IndexReader, text: RowText, max_wait: int | None) -> Timing:
    """The times of index row `number`; `max_wait` is the max wait of a Fetch in milliseconds, else None."""
    around = _Around(number, row, detail, index, text)
    lines = [
        ("latency", _latency(row), look.BOLD),
        ("comparison", around.standing(), look.PLAIN),
        ("long poll", _long_poll(row, max_wait), look.PLAIN),
        ("throttle", _throttle(detail), look.SEVERITY["W"]),
        ("in flight", around.in_flight(), look.PLAIN),
        ("previous", around.before(), look.PLAIN),
        ("next", around.after(), look.PLAIN),
        ("unknown", "\n".join(_unknown(row, detail)), look.DIM),
    ]
    return Timing(tuple(_bars(detail, around.free_at, max_wait)), tuple(line for line in lines if line[1]))


def duration_text(nanoseconds: int) -> str:
    """A duration as text, in milliseconds below a second: "0.120 ms", "2.400 s"."""
    if abs(nanoseconds) < 1_000_000_000:
        return f"{nanoseconds / _MILLISECOND:.3f} ms"
    return f"{nanoseconds / 1e9:.3f} s"


def _bars(detail: Detail, free_at: int | None, max_wait: int | None) -> Iterator[Bar]:
    asked, answered = detail.request, detail.response
    if asked is not None:
        yield Bar("request", asked.first_time, asked.time, _passing(asked))
    if asked is not None and answered is not None:
        begun, came = asked.time, max(asked.time, answered.first_time)
        if free_at is not None and free_at > begun:
            free = min(free_at, came)
            yield Bar("queued", begun, free, f"{duration_text(free - begun)} behind earlier requests")
            begun = free
        yield Bar("broker", begun, came, duration_text(came - begun))
    if answered is not None:
        yield Bar("response", answered.first_time, answered.time, _passing(answered))
    if asked is not None and max_wait is not None and max_wait > 0:
        yield Bar("max wait", asked.time, asked.time + max_wait * _MILLISECOND, f"{max_wait:,} ms at most", bound=True)
    if answered is not None and detail.throttle_ms > 0:
        end = answered.time + detail.throttle_ms * _MILLISECOND
        yield Bar("throttle", answered.time, end, f"{detail.throttle_ms:,} ms imposed", bound=True)


def _passing(frame: Frame) -> str:
    return duration_text(frame.time - frame.first_time) if frame.time != frame.first_time else "at once"


def _latency(row: Row) -> str:
    if row.latency == NO_LATENCY:
        return ""
    return f"{duration_text(row.latency)}, from the request's last byte to the response's"


def _long_poll(row: Row, max_wait: int | None) -> str:
    if max_wait is None:
        return ""
    if row.latency == NO_LATENCY:
        return f"the broker may hold it for {max_wait:,} ms"
    if row.flags & Flag.WAITED:
        return f"held by the broker until its {max_wait:,} ms were over: too little data came"
    return f"answered before its {max_wait:,} ms were over"


def _throttle(detail: Detail) -> str:
    if not detail.throttle_ms:
        return ""
    return (
        f"{detail.throttle_ms:,} ms: the client waits that long after the response; brokers before 2.0 waited "
        "themselves before they answered (KIP-219)"
    )


def _unknown(row: Row, detail: Detail) -> Iterator[str]:
    """A line of text for each time that the capture does not show."""
    if detail.request is None:
        yield "the time of the request: no request was seen"
    if detail.response is None and row.state != State.NO_REPLY_EXPECTED:
        waits = row.state in {State.WAITING, State.EMPTY}
        yield "the latency: no response has come yet" if waits else "the latency: no response was seen"
    for side, frame in (("request", detail.request), ("response", detail.response)):
        if frame is not None and frame.missing:
            yield f"when the {side} was complete: {frame.missing:,} of its bytes were not captured"


class _Around:
    """The neighbours of an exchange: up to AROUND exchanges before it, and as many after it."""

    def __init__(self, number: int, row: Row, detail: Detail, index: IndexReader, text: RowText) -> None:
        self._row, self._index, self._text = row, index, text
        self._first = row.time if detail.request is None else detail.request.first_time
        start = max(index.first, number - AROUND)
        self._whole_past = start == index.first
        self._whole_future = number + AROUND >= index.count
        self._before: list[tuple[int, Row]] = []
        self._after: tuple[int, Row] | None = None
        self._alike: list[int] = []
        alike = (row.protocol, row.api_key, row.api_version, row.flags & Flag.WAITED)
        for at, one in enumerate(index.rows(start, number + AROUND + 1), start):
            if at == number or one.state == State.EMPTY:
                continue
            if one.connection == row.connection:
                if at < number:
                    self._before.append((at, one))
                elif self._after is None:
                    self._after = at, one
            if one.latency != NO_LATENCY and alike == (
                one.protocol, one.api_key, one.api_version, one.flags & Flag.WAITED,
            ):  # fmt: skip
                self._alike.append(one.latency)
        asked = [] if detail.request is None else [(at, one) for at, one in self._before if one.time <= row.time]
        self._pending = [
            (at, one)
            for at, one in asked
            if (one.state == State.WAITING if one.latency == NO_LATENCY else one.time + one.latency > row.time)
        ]
        self._unanswered = sum(one.state == State.NO_RESPONSE for _, one in asked)
        self.free_at = max(
            (one.time + one.latency for _, one in self._pending if one.latency != NO_LATENCY), default=None
        )
        """Time of the last response to an earlier request in flight: brokers answer a connection's requests in turn."""

    def standing(self) -> str:
        """A phrase that says how many other exchanges of the same API and version were faster; "" without a latency."""
        if self._row.latency == NO_LATENCY:
            return ""
        what = self._text.api(self._row) + (" that waited as long polls" if self._row.flags & Flag.WAITED else "")
        near = "" if self._whole_past and self._whole_future else f" within {AROUND:,} exchanges"
        total = len(self._alike)
        if not total:
            return f"no other {what}{near}"
        quicker = sum(latency < self._row.latency for latency in self._alike)
        share = f" ({100 * quicker // total} %)" if total >= FEWEST_ALIKE else ""
        return f"slower than {quicker:,} of {total:,} other {what}{near}{share}"

    def in_flight(self) -> str:
        if self._row.state == State.ORPHAN_RESPONSE:
            return ""
        named = [self._name(at, one) for at, one in self._pending[-MOST_NAMED:]]
        more = [f"{left:,} more"] if (left := len(self._pending) - len(named)) else []
        others = f"{len(self._pending):,} before it: {', '.join([*named, *more])}" if named else "nothing before it"
        unseen = f"; of {self._unanswered:,} no response was seen" if self._unanswered else ""
        return others + unseen + ("" if self._whole_past else f" ({AROUND:,} exchanges looked at)")

    def before(self) -> str:
        if not self._before:
            return _none("first", whole=self._whole_past)
        at, one = self._before[-1]
        return f"{self._name(at, one)}: {_gap(one, self._first)}"

    def after(self) -> str:
        if self._after is None:
            return _none("last so far", whole=self._whole_future)
        at, one = self._after
        asked = self._index.detail(one).request
        return f"{self._name(at, one)}: {_gap(self._row, one.time if asked is None else asked.first_time)}"

    def _name(self, at: int, row: Row) -> str:
        return f"{at + 1} {self._text.api(row)}"


def _none(place: str, *, whole: bool) -> str:
    return f"none: it is the {place} of its connection" if whole else f"none within {AROUND:,} exchanges"


def _gap(earlier: Row, later: int) -> str:
    """The time from an exchange to the next request, whose first byte is at `later` (ns since the epoch), in words."""
    sent = f"later request {duration_text(later - earlier.time)} after earlier request"
    if earlier.latency == NO_LATENCY:
        return f"{sent}, whose response was not seen"
    idle = later - earlier.time - earlier.latency
    if idle >= 0:
        return f"later request {duration_text(idle)} after earlier response"
    return f"{sent}, {duration_text(-idle)} before its response"
