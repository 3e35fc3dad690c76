"""Draws plots as SVG in a page, without scripts or fonts; colours are those of the page's style (classes c0 to c5,
axis, grid).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape as html_escape
from itertools import pairwise
from typing import Final, NamedTuple

from kproxy.decoders.escaping import escape as harmless

COLOURS: Final = 6
_WIDTH: Final = 960
_LEFT, _RIGHT = 210, 36
_ROW: Final = 22
_HEIGHT: Final = 234
_AXIS: Final = 44
"""Height of a time axis: a line of times, and one of dates."""
_STEPS: Final = (1, 2, 5, 10)
_DAY: Final = 86400
_TIME_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)

Write = Callable[[float], str]
"""Formats a value as text for an axis."""
Point = tuple[float, float]
"""(time in seconds since the epoch, value)."""


class Range(NamedTuple):
    """A row of a plot: a line from `low` to `high` with a tick at each of `marks`."""

    label: str
    low: float
    high: float
    marks: tuple[float, ...]


class Span(NamedTuple):
    """A span of time in the row `label`, in seconds since the epoch; the part up to `settled` is drawn in another
    colour.
    """

    label: str
    begin: float
    settled: float
    end: float
    words: str


def lines(series: Mapping[str, Sequence[Point]], write: Write) -> str:
    """A plot of values over time, with a colour for each series (at most six)."""
    points = [point for held in series.values() for point in held]
    if not points:
        return ""
    x = _Scale.over([when for when, _ in points], _LEFT // 2, _WIDTH - _RIGHT)
    y = _Scale(0, max(value for _, value in points) or 1, _HEIGHT - _AXIS, 10)
    parts = [*_time_axis(x, _HEIGHT - _AXIS)]
    for value in _ticks(0, y.high, 4):
        parts.append(_line(x.start, y(value), x.stop, y(value), "grid"))
        parts.append(_text(x.start - 6, y(value) + 4, write(value), "end"))
    for colour, (name, held) in enumerate(series.items()):
        for stretch in _stretches(sorted(held), _far(points)):
            places = " ".join(f"{x(when):.1f},{y(value):.1f}" for when, value in stretch)
            parts.append(f'<polyline class="c{colour % COLOURS} stroke" points="{places}"/>')
        parts += (
            f'<circle class="c{colour % COLOURS} fill" cx="{x(when):.1f}" cy="{y(value):.1f}" r="2.5">'
            f"<title>{_words(name)} {_clock(when)}: {_words(write(value))}</title></circle>"
            for when, value in held
        )
    return _figure(parts, _HEIGHT, list(series))


def ranges(rows: Sequence[Range], write: Write, names: Sequence[str]) -> str:
    """A plot of a row for each range, on a logarithmic axis; `names` are the names of the marks, in order."""
    positive = [max(value, 1) for row in rows for value in (row.low, row.high)]
    if not positive:
        return ""
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    x = _Scale(low, max(high, low + 1), _LEFT, _WIDTH - _RIGHT)
    bottom = len(rows) * _ROW + 10
    parts = []
    for power in range(low, max(high, low + 1) + 1):
        parts.append(_line(x(power), 4, x(power), bottom, "grid"))
        parts.append(_text(x(power), bottom + 16, write(10.0**power), "middle"))
    for row, found in enumerate(rows):
        middle = row * _ROW + _ROW / 2 + 4
        places = [x(math.log10(max(value, 1))) for value in (found.low, found.high, *found.marks)]
        parts.append(_text(_LEFT - 10, middle + 4, _short(found.label), "end", found.label))
        parts.append(_line(places[0], middle, places[1], middle, "axis"))
        parts += (
            f'<circle class="c{mark % COLOURS} fill" cx="{place:.1f}" cy="{middle:.1f}" r="4.5">'
            f"<title>{_words(found.label)} {_words(names[mark])}: {_words(write(found.marks[mark]))}</title></circle>"
            for mark, place in enumerate(places[2:])
        )
    return _figure(parts, bottom + 24, names)


def bars(rows: Sequence[tuple[str, Sequence[float]]], write: Write, names: Sequence[str]) -> str:
    """A plot of a row for each label, with a bar for each value one after the other; `names` are the names of the
    values.
    """
    longest = max((sum(values) for _, values in rows), default=0)
    if not longest:
        return ""
    x = _Scale(0, longest, 0, _WIDTH - _LEFT - 90)
    parts = []
    for row, (label, values) in enumerate(rows):
        top = row * _ROW + 4
        parts.append(_text(_LEFT - 10, top + 14, _short(label), "end", label))
        at = float(_LEFT)
        for part, value in enumerate(values):
            parts.append(_bar(part, at, top, x(value), f"{label} {names[part]}: {write(value)}"))
            at += x(value)
        parts.append(_text(at + 6, top + 14, write(sum(values)), "start"))
    return _figure(parts, len(rows) * _ROW + 10, names)


def spans(rows: Sequence[Span], names: tuple[str, str]) -> str:
    """A plot of spans of time, with a row for each label; `names` are those of a span's two parts."""
    if not rows:
        return ""
    labels = list(dict.fromkeys(row.label for row in rows))
    x = _Scale.over([when for row in rows for when in (row.begin, row.end)], _LEFT, _WIDTH - _RIGHT)
    bottom = len(labels) * _ROW + 10
    parts = [*_time_axis(x, bottom)]
    parts += (_text(_LEFT - 10, row * _ROW + 18, _short(label), "end", label) for row, label in enumerate(labels))
    for found in rows:
        top = labels.index(found.label) * _ROW + 4
        for colour, begin, end in ((0, found.begin, found.settled), (1, found.settled, found.end)):
            width = max(x(end) - x(begin) - (1 if colour else 0), 1.5)
            parts.append(_bar(colour, x(begin), top, width, found.words))
    return _figure(parts, bottom + _AXIS - 4, names)


class _Scale(NamedTuple):
    """Maps values to coordinates in a plot."""

    low: float
    high: float
    start: float
    stop: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, stop: float) -> _Scale:
        low, high = min(values), max(values)
        return cls(low, high if high > low else low + 1, start, stop)

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


def _far(points: Sequence[Point]) -> float:
    """Minimum distance in seconds between points that are not joined by a line, because nothing was captured between
    them.
    """
    times = sorted({when for when, _ in points})
    return 2.5 * min((after - before for before, after in pairwise(times)), default=1.0)


def _stretches(points: Sequence[Point], far: float) -> Iterator[Sequence[Point]]:
    start = 0
    for place, (before, after) in enumerate(pairwise(points), start=1):
        if after[0] - before[0] > far:
            yield points[start:place]
            start = place
    yield points[start:]


def _ticks(low: float, high: float, count: int) -> Iterator[float]:
    """About `count` round values from `low` to `high`."""
    size = 10 ** math.floor(math.log10((high - low) / count))
    step = next(one * size for one in _STEPS if one * size * count >= high - low)
    at = math.ceil(low / step) * step
    while at <= high:
        yield at
        at += step


def _time_axis(x: _Scale, bottom: float) -> Iterator[str]:
    step = next((one for one in _TIME_STEPS if one * 8 >= x.high - x.low), _TIME_STEPS[-1])
    while (x.high - x.low) / step > 8:
        step *= 2
    at = math.ceil(x.low / step) * step
    day = ""
    while at <= x.high:
        date, time = _clock(at).split(" ")
        yield _line(x(at), 4, x(at), bottom, "grid")
        if step < _DAY:
            yield _text(x(at), bottom + 16, time, "middle")
        if date != day:
            yield _text(x(at), bottom + (30 if step < _DAY else 16), date, "middle")
        day = date
        at += step


def _clock(when: float) -> str:
    return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M:%S}"


def _short(label: str) -> str:
    return label if len(label) <= 30 else f"{label[:29]}…"


def _words(text: str) -> str:
    return html_escape(harmless(text))


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _bar(colour: int, x: float, y: float, width: float, words: str) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_ROW - 6}"'
    return f'<rect class="c{colour % COLOURS} fill" {size}><title>{_words(words)}</title></rect>'


def _text(x: float, y: float, words: str, anchor: str, whole: str = "") -> str:
    title = f"<title>{_words(whole)}</title>" if whole and whole != words else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_words(words)}{title}</text>'


def _figure(parts: Sequence[str], height: float, names: Sequence[str]) -> str:
    keys = "".join(
        f'<span><i class="c{colour % COLOURS} key"></i>{_words(name)}</span>' for colour, name in enumerate(names)
    )
    return (
        f'<figure><figcaption>{keys}</figcaption><svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">'
        f"{''.join(parts)}</svg></figure>"
    )
