"""Slices of time keep all that was added, however often neighbours were merged."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

import kproxy
from kproxy.captures.analysis.figures import ALL, FILES, Figures, filters
from kproxy.captures.analysis.histogram import RELATIVE_ERROR
from kproxy.captures.analysis.overtime import PARTS, SECOND, SLICES, WINDOWS, OverTime, Slice, Span, together
from kproxy.captures.analysis.stats import BY, Stats
from kproxy.captures.bodies import Bodies
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.filters import parse
from tests.support.scripts import MILLISECOND, START, Script, eyes, play, request, response

CAPTURES = Path(__file__).parents[2] / "data" / "captures"

TIMES = st.integers(0, 2**62)
ADDED = st.lists(st.tuples(TIMES, st.none() | st.integers(0, 2**50), st.booleans()), min_size=1, max_size=200)


@given(ADDED)
def test_the_whole_capture_is_in_few_slices(added: list[tuple[int, int | None, bool]]) -> None:
    span = Span()
    counted = OverTime(span)
    for time, latency, failed in added:
        span.include(time)
        counted.add(time, latency, failed=failed, throttle_ms=1, size=10)
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
        counted.add(time, None, failed=False, throttle_ms=0, size=0)
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
        one.add(latency, failed=False, throttle_ms=0, size=0)
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
            assert sum(shown["over_time"]["count"]) == told["count"]
            for name in ("p50", "p90", "p99", "max"):
                assert round(shown[name] / 1e6, 3) == told[f"{name}_ms"]


@pytest.mark.parametrize("name", ["kafka-0.8.2.2.pcap", "kafka-1.1.1.pcap", "kafka-4.4.0-librdkafka.pcap"])
def test_records_are_those_of_the_export(name: str) -> None:
    """Batches of Produce and Fetch, in every codec and format, count the records that the JSON form says."""
    reader = read([CAPTURES / name])
    figures = Figures(reader.definitions)
    for item in reader:
        if isinstance(item, Exchange):
            figures.add(item, Bodies(item, reader.source, reader.definitions))
    reader.close()
    expected: Counter[str] = Counter()
    for line in kproxy.open(CAPTURES / name).lines():
        exchange = json.loads(line)
        counts = map(int, re.findall(r'"recordCount": ?([0-9]+)', line))
        expected[exchange.get("api", "")] += sum(counts)
    found: Counter[str] = Counter()
    for one in figures.to_json("api")["lines"]:
        found[one["name"]] += one["windows"][ALL]["records"]
    assert +found == +expected
    assert found["Produce"]
    assert figures.to_json("api")["total"][ALL]["records"] == expected.total()


@pytest.mark.parametrize("by", BY)
def test_the_filter_of_a_line_finds_it(by: str) -> None:
    names = {"api": ("Produce", "Key 31000", "(tls)", "(unmatched)"), "broker": ("10.0.0.1:9092", "[::1]:9092")}
    for name in names.get(by, ('a "b" \\', "10.0.0.1", "(none)")):
        for test in filters(by, name):
            assert parse(test).expression is not None, test


def test_what_figures_hold() -> None:
    """Two exchanges 20 s apart, the later one failed and throttled; the whole capture's slices last 2**29 ns."""
    script = Script()
    script.client(request(1, 11, 0, maxWaitMs=5000)).broker(response(1, 11, 0)).wait(19_998)
    late = response(1, 11, 1, errorCode=70, throttleTimeMs=7)
    script.client(request(1, 11, 1, maxWaitMs=5000)).broker(late)
    played = play(script.end())
    figures = Figures(eyes())
    for item in played.exchanges:
        figures.add(item, Bodies(item, played.tape, eyes()))
    told = figures.to_json("api")
    first, last = START + 2 * MILLISECOND, START + 20_002 * MILLISECOND
    assert told["span"] == {
        "10": {"from": START + 11 * SECOND, "slice": SECOND, "seconds": 9.002},
        "60": {"from": START // (6 * SECOND) * 6 * SECOND, "slice": 6 * SECOND, "seconds": 20.0},
        "600": {"from": START // (60 * SECOND) * 60 * SECOND, "slice": 60 * SECOND, "seconds": 20.0},
        "all": {"from": first >> 29 << 29, "slice": 1 << 29, "seconds": 20.0},
    }
    (line,) = told["lines"]
    assert (line["name"], line["long_poll"], line["filters"]) == ("Fetch", False, ["api == Fetch"])
    size = len(request(1, 11, 1, maxWaitMs=5000)) + len(late)
    millisecond = {"p50": MILLISECOND, "p90": MILLISECOND, "p99": MILLISECOND, "max": MILLISECOND}
    nothing = [None] * 9
    assert line["windows"]["10"] == {
        "count": 1, "failed": 1, "throttle_ms": 7, "bytes": size, "records": 0, **millisecond,
        "over_time": {
            "count": [0] * 9 + [1], "bytes": [0] * 9 + [size], "failed": [0] * 9 + [1],
            "p50": [*nothing, MILLISECOND], "p99": [*nothing, MILLISECOND],
        },
    }  # fmt: skip
    assert told["total"] == line["windows"]
    both = line["windows"]["all"]
    assert (both["count"], both["failed"], both["throttle_ms"], both["max"]) == (2, 1, 7, MILLISECOND)
    slices = both["over_time"]
    assert len(slices["count"]) == (last >> 29) - (first >> 29) + 1 == 38
    assert (slices["count"][0], slices["count"][-1], sum(slices["count"])) == (1, 1, 2)
    assert (slices["p50"][0], slices["p50"][1], slices["p99"][-1]) == (MILLISECOND, None, MILLISECOND)
    # A minute of the clock begins within these 20 seconds.
    assert line["windows"]["60"]["over_time"]["count"] == [1, 0, 0, 1]
    assert line["windows"]["600"]["over_time"]["count"] == [2]


def test_nothing_counted() -> None:
    span = Span()
    assert [span.stretch(window) for window in (None, 10)] == [(0, 0, SECOND)] * 2
    assert (span.seconds(None), span.seconds(60), OverTime(span).slices(10)) == (0.0, 0.0, [])
    assert Slice().percentiles((0.5, 0.9)) == [None, None]
    one = Slice()
    one.add(None, failed=True, throttle_ms=3, size=0)
    assert (one.count, one.failed, one.throttle_ms, one.percentiles((0.5,))) == (1, 1, 3, [None])


def test_percentiles_of_few_are_exact_at_the_end() -> None:
    one = Slice()
    for latency in (1000, 1007, 5000):
        one.add(latency, failed=False, throttle_ms=0, size=0)
    assert one.percentiles((0.0, 0.33, 0.34, 0.67, 1.0)) == [1004, 1004, 1004, 5000, 5000]
    assert (one.smallest, one.largest) == (1000, 5000)
    whole = together([None, one, Slice(), one])
    assert (whole.count, whole.smallest, whole.largest, whole.percentiles((0.5,))) == (6, 1000, 5000, [1004])


@pytest.mark.parametrize(
    ("by", "name", "expected"),
    [
        ("api", "(others)", []),
        ("topic", "(others)", []),
        ("api", "Produce", ["api == Produce"]),
        ("api", "Key 31000", ["api == 31000"]),
        ("api", "(tls)", ["status == tls"]),
        ("api", "(unmatched)", ["status == orphan_response"]),
        ("client", "shop", ['client.id == "shop"']),
        ("client", "10.0.0.1", ['client == "10.0.0.1"']),
        ("client", "[::1]", ['client == "[::1]"']),
        ("topic", "t", ['topic == "t"']),
        ("topic", "(none)", ["not has topic"]),
        ("broker", "b:9092", ['broker == "b:9092"']),
        ("broker", "(none)", ['broker == "(none)"']),
    ],
)
def test_filters(by: str, name: str, expected: list[str]) -> None:
    assert filters(by, name) == expected
