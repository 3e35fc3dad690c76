"""Counts the figures of the Stats screen: those of `kproxy stats` for each name, in windows of time.

For each name and window: number of exchanges, failures, latency percentiles, throttle time, and the same for each slice
of the window.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kproxy.captures.analysis.overtime import WINDOWS, OverTime, Slice, Span, together
from kproxy.captures.analysis.stats import BY, NO_TOPIC, OTHERS, Line, Stats, count_over_time, measure, time_of
from kproxy.captures.bodies import Bodies
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.filters.values import in_quotes
from kproxy.decoders.records.counting import counted
from kproxy.decoders.schema import Definitions

SHARES: Final = (0.5, 0.9, 0.99)
FILES: Final[Mapping[str, str]] = MappingProxyType({by: f"stats-{by}" for by in BY})
"""By grouping, the name of the snapshot file with the figures."""
ALL: Final = "all"
NAMES: Final[tuple[str, ...]] = (*(str(window) for window in WINDOWS), ALL)
"""Names of the windows: seconds up to the newest exchange, or ALL for the whole capture."""


class Figures:
    """Counts the exchanges of one reading, in every grouping."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._span = Span()
        self._stats = {by: Stats(definitions, by, span=self._span) for by in BY}
        self._total = OverTime(self._span)

    def add(self, exchange: Exchange, bodies: Bodies) -> None:
        """Count a complete exchange. Never raises on bad bytes."""
        if time := time_of(exchange):
            self._span.include(time)
        measured = measure(exchange, bodies, self._definitions, records=_records(exchange, bodies))
        for stats in self._stats.values():
            stats.take(measured)
        # the latency of a long poll is mostly the time in which there was nothing to fetch
        count_over_time(self._total, measured, None if measured.long_poll else exchange.latency_ns)

    def to_json(self, by: str) -> dict[str, Any]:
        """The figures in one grouping, as a JSON object.

        {"span": {window: {"from" (ns since the epoch), "slice" (ns), "seconds"}}, "lines": […], "total": {window:
        figures}}. Long polls do not count in the percentiles of "total".

        A line is {"name", "long_poll", "filters": the display filters that select its exchanges, "windows": {window:
        figures}}. Figures are {"count", "failed", "throttle_ms", "bytes", "records", "over_time"} and, if there was a
        response, "p50", "p90", "p99", "max" (ns). "over_time" has lists with an element for each slice: "count" and
        "bytes"; "failed" and "records" unless all are 0; "p50" and "p99" if there was a response, null for slices
        without one. Windows without exchanges are omitted.
        """
        span = {}
        for name, window in _windows():
            start, _, width = self._span.stretch(window)
            span[name] = {"from": start * width, "slice": width, "seconds": self._span.seconds(window)}
        lines = [_line(by, line) for line in self._stats[by].lines()]
        return {"span": span, "lines": lines, "total": _in_windows(self._total)}


def _records(exchange: Exchange, bodies: Bodies) -> int:
    """The number of records in an exchange; 0 if it carries none, or if their number is unknown."""
    if exchange.protocol is not None:
        return 0
    return counted(exchange.api_key, bodies.asked, bodies.answered)[0] or 0


def _windows() -> Iterable[tuple[str, int | None]]:
    return zip(NAMES, (*WINDOWS, None), strict=True)


def _line(by: str, line: Line) -> dict[str, Any]:
    windows = {} if line.over_time is None else _in_windows(line.over_time)
    return {"name": line.name, "long_poll": line.long_poll, "filters": filters(by, line.name), "windows": windows}


def _in_windows(over_time: OverTime) -> dict[str, Any]:
    """The figures of the windows that have exchanges."""
    windows = {}
    for name, window in _windows():
        slices = over_time.slices(window)
        whole = together(slices)
        if whole.count:
            windows[name] = _figures(whole, slices)
    return windows


def _figures(whole: Slice, slices: list[Slice | None]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "count": whole.count,
        "failed": whole.failed,
        "throttle_ms": whole.throttle_ms,
        "bytes": whole.bytes,
        "records": whole.records,
    }
    over_time: dict[str, list[int] | list[int | None]] = {
        "count": [0 if one is None else one.count for one in slices],
        "bytes": [0 if one is None else one.bytes for one in slices],
    }
    if whole.failed:
        over_time["failed"] = [0 if one is None else one.failed for one in slices]
    if whole.records:
        over_time["records"] = [0 if one is None else one.records for one in slices]
    p50, p90, p99 = whole.percentiles(SHARES)
    if p50 is not None:
        of_slices = [(None, None) if one is None else one.percentiles((0.5, 0.99)) for one in slices]
        figures |= {"p50": p50, "p90": p90, "p99": p99, "max": whole.largest}
        over_time |= {"p50": [low for low, _ in of_slices], "p99": [high for _, high in of_slices]}
    return figures | {"over_time": over_time}


def filters(by: str, name: str) -> list[str]:
    """Display filters that select the exchanges counted under `name` in the grouping `by`; [] if no filter can."""
    if name == OTHERS:
        return []
    match by:
        case "api":
            if name in _UNNAMED:
                return [_UNNAMED[name]]
            return [f"api == {name.removeprefix('Key ')}"]
        case "client":
            return [f"{'client' if _is_address(name) else 'client.id'} == {in_quotes(name)}"]
        case "topic" if name == NO_TOPIC:
            return ["not has topic"]
        case _:
            return [f"{by} == {in_quotes(name)}"]


_UNNAMED: Final = {"(tls)": f"status == {Status.TLS}", "(unmatched)": f"status == {Status.ORPHAN_RESPONSE}"}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
