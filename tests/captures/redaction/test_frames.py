"""Redaction keeps the length of frames and never fails, whatever they contain."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.reader import read
from kproxy.captures.redaction import PRESETS, Removed
from kproxy.captures.redaction.frames import FrameRedaction
from kproxy.captures.redaction.hosts import Hosts
from kproxy.decoders import secrets
from kproxy.decoders.exchange import Connection, Exchange, Frame
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from tests.captures import traffic

GOLDEN = traffic.DATA / "golden" / "golden-4.4.0.pcap"


@cache
def frames() -> list[tuple[bytes, Exchange, Frame]]:
    reader = read(GOLDEN)
    found = []
    for batch in reader.batches():
        for item in batch:
            if isinstance(item, Exchange):
                for frame in (item.request, item.response):
                    if frame is not None:
                        found.append((bytes(frame.data(reader.source)), item, frame))  # noqa: PERF401
    return found


def redaction(*presets: str, keep_unread: bool = False) -> FrameRedaction:
    hosts = Hosts(b"salt")
    hosts.learn("kafka-1")
    return FrameRedaction(definitions(), presets, hosts, Knowledge(), Removed(), keep_unread=keep_unread)


@settings(max_examples=37, deadline=None)
@given(
    st.integers(0, 1800),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    st.integers(0, 40),
    st.sets(st.sampled_from(PRESETS)),
)
def test_damaged_frames(index: int, damage: list[tuple[int, int]], cut: int, presets: set[str]) -> None:
    data, exchange, frame = frames()[index % len(frames())]
    bad = bytearray(data)
    for at, byte in damage:
        if at < len(bad):
            bad[at] = byte
    held = bytes(bad[: len(bad) - cut])
    assert len(redaction(*presets).of(held, frame, exchange)) == len(held)


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=120), st.sampled_from([None, 0, 1, 17, 36, 58, 59, 30_000]), st.sampled_from(list(Side)))
def test_any_bytes(data: bytes, api_key: int | None, side: Side) -> None:
    frame = Frame(side, 0, len(data) - 4, 0, 0, 0, [(0, len(data))])
    exchange = Exchange(1, Connection(1, "a:1", "b:2", 0), api_key, 0, 1, "c")
    exchange.request, exchange.response = (frame, None) if side is Side.CLIENT else (None, frame)
    assert len(redaction(*PRESETS).of(data, frame, exchange)) == len(data)


def test_a_frame_without_anything_to_hide_stays_as_it_is() -> None:
    for data, exchange, frame in frames()[:400]:
        assert redaction().of(data, frame, exchange) == data


@pytest.mark.parametrize("keep_unread", [False, True])
def test_a_cut_frame_that_may_hold_a_secret_ends_where_its_reading_stops(keep_unread: bool) -> None:
    found = 0
    for data, exchange, frame in frames():
        if exchange.api_key in secrets.API_KEYS and frame is exchange.request and len(data) > 20:
            short = Frame(frame.side, 0, frame.size, 0, 0, 0, [(0, 9)], (), 3)
            exchange.request = short
            out = redaction("secrets", keep_unread=keep_unread).of(data[:-3], short, exchange)
            exchange.request = frame
            assert set(out[12:]) == {ord("x")}
            found += 1
    assert found


def test_a_cut_frame_stays_where_nobody_asked_and_it_holds_no_secret() -> None:
    data, exchange, frame = next(one for one in frames() if one[1].api_key == 3 and one[2] is one[1].response)
    short = Frame(frame.side, 0, frame.size, 0, 0, 0, [(0, len(data) - 3)], (), 3)
    exchange.response = short
    kept, gone = (redaction("secrets", keep_unread=keep).of(data[:-3], short, exchange) for keep in (True, False))
    exchange.response = frame
    assert kept == data[:-3]
    assert gone != kept


def test_what_answers_nobody_holds_no_payload() -> None:
    data, exchange, frame = next(
        one for one in frames() if one[1].api_key == 1 and one[2] is one[1].response and len(one[0]) > 100
    )
    orphan = Exchange(1, exchange.connection, None, None, 1, None, None, frame)
    out = redaction("payloads").of(data, frame, orphan)
    assert set(out[8:]) == {ord("x")}
    assert out[:8] == data[:8]
