"""Slices of time keep all that was added, however often neighbours were merged."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kproxy.captures.analysis.figures import ALL, FILES, Figures, filters
from kproxy.captures.analysis.histogram import RELATIVE_ERROR
from kproxy.captures.analysis.overtime import PARTS, SECOND, SLICES, WINDOWS, OverTime, Slice, Span, together
from kproxy.captures.analysis.stats import BY, Stats
from kproxy.captures.bodies import Bodies
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.filters import parse

CAPTURES = Path(__file__).parents[2] / "data" / "captures"

TIMES = st.integers(0, 2**62)
ADDED = st.lists(st.tuples(TIMES, st.none() | st.integers(0, 2**50), st.booleans()), min_size=1, max_size=200)


@given(ADDED)
def test_the_whole_capture_is_in_few_slices(added: list[tuple[int, int | None, bool]]) -> None:
    span = Span()
    counted = OverTime(span)
    for time, latency, failed in added:
        span.include(time)
        counted.add(time, latency, failed=failed, throttle_ms=1)
    slices = counted.slices(None)
    assert len(slices) <= SLICES
    whole = together(slices)
    assert (whole.count, whole.throttle_ms) == (len(added), len(added))
    assert whole.failed == sum(failed for _, _, failed in added)
    start, stop, width = span.stretch(None)
    for number, one in zip(range(start, stop), slices, strict=True):
        expected = sum(number * width <= time < (number + 1) * width for time, _, _ in added)
        assert (one.count if one else 0) == expected


@pytest.mark.parametrize("window", WINDOWS)
@given(st.lists(st.integers(0, 3 * 600 * SECOND), min_size=1, max_size=200))
def test_a_window_is_what_came_last(window: int, times: list[int]) -> None:
    span = Span()
    counted = OverTime(span)
    for time in times:
        span.include(time)
        counted.add(time, None, failed=False, throttle_ms=0)
    width = window * SECOND // PARTS
    newest = max(times) // width
    expected = [sum(time // width == number for time in times) for number in range(newest - PARTS + 1, newest + 1)]
    found = [one.count if one else 0 for one in counted.slices(window)]
    assert found == expected[-len(found) :]
    assert sum(found) == sum(expected)
    assert span.seconds(window) <= window


@given(st.lists(st.integers(0, 2**60), min_size=1, max_size=300))
def test_percentiles_of_a_slice_are_near_the_truth(latencies: list[int]) -> None:
    one = Slice()
    for latency in latencies:
        one.add(latency, failed=False, throttle_ms=0)
    ordered = sorted(latencies)
    shares = (0.5, 0.9, 0.99, 1.0)
    for share, found in zip(shares, one.percentiles(shares), strict=True):
        true = ordered[max(1, -int(-share * len(ordered) // 1)) - 1]
        assert found is not None
        assert abs(found - true) <= RELATIVE_ERROR * true


def test_figures_are_those_of_the_command_line() -> None:
    reader = read([CAPTURES / "kafka-4.4.0-librdkafka.pcap"])
    figures = Figures(reader.definitions)
    stats = {by: Stats(reader.definitions, by) for by in BY}
    for item in reader:
        if isinstance(item, Exchange):
            figures.add(item, Bodies(item, reader.source, reader.definitions))
            for one in stats.values():
                one.add(item, reader.source)
    reader.close()
    assert set(FILES) == set(BY)
    for by, one in stats.items():
        found = {(line["name"], line["long_poll"]): line for line in figures.to_json(by)["lines"]}
        assert len(found) == len(one.lines())
        for line in one.lines():
            shown, told = found[line.name, line.long_poll]["windows"][ALL], line.to_json(by)
            assert (shown["count"], shown["failed"], shown["throttle_ms"]) == (
                told["count"],
                told["errors"],
                told["throttle_ms"],
            )
            assert sum(shown["counts"]) == told["count"]
            for name in ("p50", "p90", "p99", "max"):
                assert round(shown[name] / 1e6, 3) == told[f"{name}_ms"]


@pytest.mark.parametrize("by", BY)
def test_the_filter_of_a_line_finds_it(by: str) -> None:
    names = {"api": ("Produce", "Key 31000", "(tls)", "(unmatched)"), "broker": ("10.0.0.1:9092", "[::1]:9092")}
    for name in names.get(by, ('a "b" \\', "10.0.0.1", "(none)")):
        for test in filters(by, name):
            assert parse(test).expression is not None, test
