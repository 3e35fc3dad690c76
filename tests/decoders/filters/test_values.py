"""Literals one by one: what a text means, and how a value is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kproxy.decoders.fields import Type
from kproxy.decoders.filters import values
from kproxy.decoders.filters.values import (
    LITERALS,
    BadLiteral,
    Value,
    address,
    before_end,
    duration,
    moment,
    size,
    time,
)

SECOND = 1_000_000_000
MIDNIGHT = 1_795_219_200 * SECOND
"""2026-11-21T00:00:00Z."""


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0), ("1", 1_000_000), ("1ns", 1), ("1us", 1_000), ("1\u00b5s", 1_000), ("1\u03bcs", 1_000),
        ("1ms", 1_000_000), ("1s", SECOND), ("1m", 60 * SECOND), ("1min", 60 * SECOND), ("1h", 3600 * SECOND),
        ("1.5ms", 1_500_000), ("0.000001s", 1_000), ("2.25", 2_250_000), ("1S", SECOND), ("1MS", 1_000_000),
        ("-1", -1_000_000), ("-12", -12_000_000), ("0.000000001s", 1), ("1.50s", 1_500_000_000),
        ("1" + "0" * 37 + "ns", 10**37),
    ],
)  # fmt: skip
def test_durations(text: str, nanoseconds: int) -> None:
    assert duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("512", 512), ("1B", 1), ("1b", 1), ("1k", 1000), ("1kB", 1000), ("1kb", 1000), ("1KB", 1000), ("1KiB", 1024),
        ("1kib", 1024), ("1M", 10**6), ("1m", 10**6), ("1MB", 10**6), ("1MiB", 1 << 20), ("1G", 10**9),
        ("1GB", 10**9), ("1GiB", 1 << 30), ("1.5KiB", 1536), ("-1", -1),
    ],
)  # fmt: skip
def test_sizes(text: str, count: int) -> None:
    assert size(text) == count


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-11-21", MIDNIGHT), ("2026-11-21T01:02", MIDNIGHT + 3720 * SECOND),
        ("2026-11-21 01:02:03", MIDNIGHT + 3723 * SECOND), ("2026-11-21T00:00:00Z", MIDNIGHT),
        ("2026-11-21T00:00:00.5Z", MIDNIGHT + SECOND // 2), ("2026-11-21T00:00:00.000000001Z", MIDNIGHT + 1),
        ("2026-11-21T02:30:00+02:30", MIDNIGHT), ("2026-11-20T22:29:00-01:31", MIDNIGHT),
        ("1795219200", MIDNIGHT), ("1795219200.25", MIDNIGHT + SECOND // 4), ("123456789", 123456789 * SECOND),
        ("-1", -1_000_000), ("1970-01-01", 0), ("1970-01-02", 86_400 * SECOND),
    ],
)  # fmt: skip
def test_times(text: str, nanoseconds: int) -> None:
    assert time(text) == nanoseconds == moment(text)


@pytest.mark.parametrize(
    ("text", "meaning", "since_midnight"),
    [
        ("00:00", "00:00:00", 0), ("12:01", "12:01:00", 43_260 * SECOND), ("23:59:59", "23:59:59", 86_399 * SECOND),
        ("01:02:03.5", "01:02:03.5", 3_723_500_000_000), ("00:00:00.000000001", "00:00:00.000000001", 1),
        ("00:00:01.500", "00:00:01.5", 1_500_000_000), ("00:00:01.000", "00:00:01", SECOND),
    ],
)  # fmt: skip
def test_times_of_day(text: str, meaning: str, since_midnight: int) -> None:
    assert moment(text) == meaning
    assert values.of_day(meaning) == since_midnight
    assert before_end(meaning) is None


@pytest.mark.parametrize("text", ["24:00", "23:60", "23:59:60", "12:01:", "1:01", "2026-11-21T24:00"])
def test_no_time_of_day(text: str) -> None:
    with pytest.raises(BadLiteral):
        moment(text)


@pytest.mark.parametrize(
    ("text", "meaning", "before"),
    [("-60s", "-1m", 60 * SECOND), ("-1.5m", "-90s", 90 * SECOND), ("-1500us", "-1500us", 1_500_000),
     ("-2h", "-2h", 7200 * SECOND), ("-0s", "-0ns", 0)],
)  # fmt: skip
def test_times_before_the_end(text: str, meaning: str, before: int) -> None:
    assert moment(text) == meaning
    assert before_end(meaning) == before
    assert before_end(5) is None


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("10.0.0.1", "10.0.0.1"), ("10.0.0.1:9092", "10.0.0.1:9092"), (":9092", ":9092"), ("::1", "::1"),
        ("[::1]", "[::1]"), ("[0:0:0:0:0:0:0:1]:9092", "[::1]:9092"), ("FE80::0001", "fe80::1"),
        ("broker-1.example:65535", "broker-1.example:65535"), ("host", "host"), (":0", ":0"),
    ],
)  # fmt: skip
def test_addresses(text: str, meaning: str) -> None:
    assert address(text) == meaning


@pytest.mark.parametrize(
    ("read", "text", "partial"),
    [
        (address, "10.0.0", True), (address, "10.0.0.", True), (address, "10.0.0.256", False),
        (address, "1.2.3.4.5", False), (address, "10.0.0:9092", False), (address, "[::1", True),
        (address, "[::1]x", False), (address, "[::g]", False),
        (address, "1:2:", True), (address, "1:2:x", False), (address, "host:", True), (address, "host:65536", False),
        (address, "host:x", False), (address, "host:123456", False), (address, "a b", False), (address, "", False),
        (duration, "5x", False), (duration, "5n", True), (duration, "5mi", True), (duration, "0.5ns", False),
        (duration, "1" + "0" * 38 + "ns", False), (size, "0.5", False), (size, "5Ki", True),
        (time, "2026-11", True), (time, "2026-11-21T", True), (time, "tomorrow", False), (time, "1969-12-31", False),
        (time, "2026-11-21T23:59+24:00x", False),
    ],
)  # fmt: skip
def test_what_is_none_and_whether_more_typing_may_mend_it(
    read: Callable[[str], object], text: str, partial: bool
) -> None:
    with pytest.raises(BadLiteral) as error:
        read(text)
    assert error.value.partial == partial
    assert error.value.message


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Type.DURATION, 0, "0ns"), (Type.DURATION, 1, "1ns"), (Type.DURATION, 1500, "1500ns"),
        (Type.DURATION, 2000, "2us"), (Type.DURATION, 60 * SECOND, "1m"), (Type.DURATION, 90 * SECOND, "90s"),
        (Type.DURATION, 3600 * SECOND, "1h"), (Type.DURATION, -5_000_000, "-5"),
        (Type.SIZE, 0, "0B"), (Type.SIZE, 1000, "1kB"), (Type.SIZE, 1024, "1KiB"), (Type.SIZE, 1 << 30, "1GiB"),
        (Type.SIZE, 10**9, "1GB"), (Type.SIZE, 1 << 20, "1MiB"), (Type.SIZE, 10**6, "1MB"), (Type.SIZE, -1, "-1"),
        (Type.SIZE, 1001, "1001B"),
        (Type.TIME, MIDNIGHT, "2026-11-21T00:00:00Z"), (Type.TIME, MIDNIGHT + 1, "2026-11-21T00:00:00.000000001Z"),
        (Type.TIME, MIDNIGHT + SECOND // 2, "2026-11-21T00:00:00.5Z"), (Type.TIME, "12:01:00", "12:01:00"),
        (Type.TIME, -1_000_000, "-1"),
        (Type.API, 1, "Fetch"), (Type.API, 31000, "31000"), (Type.ERROR, 6, "NOT_LEADER_OR_FOLLOWER"),
        (Type.FLAG, 1, "true"), (Type.FLAG, 0, "false"), (Type.NUMBER, 17, "17"), (Type.BROKER, 2, "2"),
        (Type.TEXT, "shop", "shop"), (Type.TEXT, "and", '"and"'), (Type.TEXT, "a b", '"a b"'), (Type.TEXT, "", '""'),
        (Type.TEXT, 'a"b\\', '"a\\"b\\\\"'), (Type.ADDRESS, "[::1]:9092", "[::1]:9092"),
    ],
)  # fmt: skip
def test_how_values_are_written(kind: Type, value: Value, text: str) -> None:
    assert LITERALS[kind].write(value) == text


@pytest.mark.parametrize(
    ("kind", "name", "meaning"),
    [
        (Type.API, "Fetch", "key 1, core"), (Type.API, "GroupCoordinator", "key 10, group, now FindCoordinator"),
        (Type.ERROR, "NOT_LEADER_OR_FOLLOWER", "code 6, retriable"),
        (Type.ERROR, "TOPIC_AUTHORIZATION_FAILED", "code 29"), (Type.STATUS, "ok", ""), (Type.FLAG, "true", ""),
        (Type.API, "Nothing", ""), (Type.NUMBER, "1", ""),
    ],
)  # fmt: skip
def test_what_names_mean(kind: Type, name: str, meaning: str) -> None:
    assert values.meaning(kind, name) == meaning


def test_names_of_today() -> None:
    assert "GroupCoordinator" in values.choices(Type.API)
    today = values.todays_names(Type.API)
    assert "GroupCoordinator" not in today
    assert today["FindCoordinator"] == 10
    assert values.todays_names(Type.FLAG) == {"true": 1, "false": 0}
    assert values.choices(Type.TEXT) == {}


@pytest.mark.parametrize(
    ("word", "near"),
    [("Fech", "Fetch"), ("fetch", "Fetch"), ("prodce", "Produce"), ("xyz", None), ("", None), ("Metad", "Metadata"),
     ("M" * 5000, None)],
)  # fmt: skip
def test_what_was_meant(word: str, near: str | None) -> None:
    assert values.nearest(word, ["Fetch", "Produce", "Metadata", "FetchSnapshot"]) == near


def test_unknown_names() -> None:
    def told(kind: Type, text: str) -> tuple[str, bool]:
        with pytest.raises(BadLiteral) as error:
            LITERALS[kind].read(text)
        return error.value.message, error.value.partial

    assert told(Type.API, "Fech") == ("unknown API 'Fech'; did you mean Fetch?".replace("API", str(Type.API)), False)
    assert told(Type.FLAG, "x") == (f"unknown {Type.FLAG} 'x'; it is one of true, false", False)
    assert told(Type.FLAG, "t")[1]
    assert told(Type.API, "qqqqq") == (f"unknown {Type.API} 'qqqqq'", False)
    assert told(Type.NUMBER, "-") == ("'-' is not a whole number", True)
    assert told(Type.NUMBER, "1.5") == ("'1.5' is not a whole number", False)


def test_numbers_and_brokers() -> None:
    assert LITERALS[Type.NUMBER].read("-17") == -17
    assert LITERALS[Type.API].read("31000") == 31000
    assert LITERALS[Type.ERROR].read("-1") == -1
    assert LITERALS[Type.BROKER].read("2") == 2
    assert LITERALS[Type.BROKER].read("123456789") == 123456789
    assert LITERALS[Type.BROKER].read("b:9092") == "b:9092"


def test_of_two_names_as_near_the_shorter_was_meant() -> None:
    assert values.nearest("ab", ["abxxxxxx", "abyyyy", "abzzzzzzz"]) == "abyyyy"
