"""The fast path, as plain Python and compiled, does what the slow path does."""

from __future__ import annotations

import struct
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.formats.pcapng_writer import Direction
from kproxy.core import passing, plans
from kproxy.core.plans import Plans
from tests.kproxy.core.frames import DEFINITIONS, framed, request, response
from tests.support.playbook import ANYTHING, PASSES, Playbook
from tests.support.variants import each_variant_of

variants = each_variant_of(passing)

IDS = st.sampled_from([0, 1, 7, -1, -(1 << 31), (1 << 31) - 1])
APIS = st.sampled_from([(0, 9), (0, 11), (1, 12), (1, 17), (3, 12), (12, 4), (18, 3), (900, 1), (-1, -1)])
TEMPTING = struct.pack(">ihhi", 80, 0, 9, 7) * 4
"""Looks like the start of a frame, several times."""
REQUESTS = st.one_of(
    st.builds(
        lambda api, number, size: framed(struct.pack(">hhi", *api, number) + TEMPTING[:size]),
        APIS,
        IDS,
        st.integers(0, 40),
    ),
    st.binary(max_size=30).map(framed),
    st.just(bytes(4)),
    st.binary(min_size=1, max_size=12),
)
RESPONSES = st.one_of(
    st.builds(lambda number, size: framed(struct.pack(">i", number) + TEMPTING[:size]), IDS, st.integers(0, 40)),
    st.binary(max_size=12).map(framed),
    st.binary(min_size=1, max_size=12),
)
NODES = [{"nodeId": 1, "host": "kafka-1", "port": 9092, "rack": None}]
ANSWERS = RESPONSES | st.builds(
    lambda api, number, nodes: response(api[0], api[1], number, {"nodeEndpoints": nodes} if nodes else {}),
    st.sampled_from([(0, 11), (1, 17)]),
    IDS,
    st.sampled_from([[], NODES]),
)
CUTS = st.none() | st.lists(st.integers(1, 60), max_size=12)


class SlowPath(passing.Passing):
    """Accepts no bytes, so that all take the slow path."""

    def from_client_passes(self, data: bytes) -> bool:  # noqa: ARG002
        return False

    from_broker_passes = from_client_passes


def cut(frames: list[bytes], sizes: list[int] | None) -> list[bytes]:
    """The bytes of frames in pieces of these sizes and a rest, or each frame as a piece."""
    if sizes is None:
        return frames
    pieces = []
    data = b"".join(frames)
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [piece for piece in (*pieces, data) if piece]


def state(story: Playbook) -> tuple[Any, ...]:
    at = story.connection.passing
    return (
        story.outcomes, story.connection.idle, at.requests, at.responses,
        at.request_rest, at.response_rest, {number: len(plans) for number, plans in at.noted.items()},
    )  # fmt: skip


@variants
@settings(max_examples=75, deadline=None)
@given(st.lists(st.tuples(st.lists(REQUESTS, max_size=3), CUTS, st.lists(ANSWERS, max_size=3), CUTS), max_size=5))
def test_the_fast_path_does_what_the_slow_path_does(variant: ModuleType, talk: Any) -> None:
    stories = Playbook(), Playbook()
    stories[0].connection.passing = variant.Passing(stories[0].shared.plans.made, plans.unchanged)
    stories[1].connection.passing = SlowPath({}, plans.unchanged)
    for story in stories:
        story.client(request(0, 9, 1), PASSES).broker(response(0, 9, 1, {}), PASSES)
    for requests, cuts_up, responses, cuts_down in talk:
        for story in stories:
            for piece in cut(requests, cuts_up):
                story.client(piece, ANYTHING)
            for piece in cut(responses, cuts_down):
                story.broker(piece, ANYTHING)
        assert state(stories[0]) == state(stories[1])


@variants
def test_most_bytes_take_the_fast_path(variant: ModuleType) -> None:
    story = Playbook(plans=Plans(DEFINITIONS))
    at = story.connection.passing = variant.Passing(story.shared.plans.made, plans.unchanged)
    ask, answer = request(0, 9, 5, bytes(50)), response(0, 9, 5, {})
    assert not at.from_client_passes(ask)
    assert not at.from_broker_passes(answer)
    story.client(ask, PASSES).broker(answer, PASSES)
    assert at.from_client_passes(ask)
    assert at.from_broker_passes(answer)
    assert at.from_client_passes(ask[:20])
    assert at.from_client_passes(ask[20:])
    assert not at.from_client_passes(ask + ask), "two frames in one read take the slow path"
    assert not at.from_client_passes(request(3, 12, 6)), "the first request of an API takes the slow path"
    story.client(request(3, 12, 6), PASSES)
    assert at.from_client_passes(request(3, 12, 7))
    assert not at.from_broker_passes(response(3, 12, 7, {})), "a response with addresses is held"
    assert at.from_broker_passes(answer)
    assert (at.requests, at.responses) == (5, 3)
    assert at.from_client_passes(request(0, 9, 7))
    assert [plan is None for plan in at.noted[7]] == [False, True], (
        "of equal correlation ids the oldest is answered first"
    )


@variants
@pytest.mark.parametrize(("api_key", "version"), [(0, 11), (1, 17)])
def test_a_whole_response_without_addresses_takes_the_fast_path(
    variant: ModuleType, api_key: int, version: int
) -> None:
    story = Playbook()
    at = story.connection.passing = variant.Passing(story.shared.plans.made, plans.unchanged)
    story.client(request(0, 9, 1), PASSES).broker(response(0, 9, 1, {}), PASSES)
    story.client(request(api_key, version, 5), PASSES)
    bare, named = (response(api_key, version, 5, values) for values in ({}, {"nodeEndpoints": NODES}))
    assert list(at.noted) == [5]
    for frame in (bare[:-1], named, bare + bare, bare[:-1] + b"\1"):
        assert not at.from_broker_passes(frame)
        assert list(at.noted) == [5]
    assert at.from_broker_passes(bare)
    assert not at.noted
    story.client(request(api_key, version, 6) + request(api_key, version, 6), PASSES)
    assert not at.from_broker_passes(response(api_key, version, 6, {})), (
        "the slow path decides which of the two this answers"
    )


class Written:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def write(self, data: bytes) -> None:
        self.log.append(data)


@variants
def test_bytes_are_sent_before_they_are_noted(variant: ModuleType) -> None:
    log: list[Any] = []

    class End(variant.Side):  # type: ignore[misc, name-defined]  # of either module
        def unlike(self, data: bytes) -> None:
            log.append(("unlike", self.side, data))

    passed = [0, 0]
    notes = variant.Notes(1 << 20, *(partial(log.append, called) for called in ("begun", "full")))
    at = variant.Passing({9: None}, plans.unchanged)
    ends = client, broker = End(0, passed), End(1, passed)
    ask = framed((9).to_bytes(4, "big") + bytes(20))
    answer = framed(bytes(10))
    client.data_received(ask)
    assert log == [("unlike", 0, ask)]
    for end, other in ((client, broker), (broker, client)):
        end.other, end.passing, end.notes, end.record = other, at, notes, log.append
    client.data_received(ask)
    assert log.pop() == ("unlike", 0, ask), "there is nothing to write to"
    broker.transport, client.transport = (Written(log) for _ in ends)
    at.requests_known = at.responses_known = True
    log.clear()
    client.data_received(ask)
    broker.data_received(answer)
    assert log == [ask, "begun", answer]
    ((call, (moment, *told)), (_, (later, *answered))) = notes.take()
    assert call == log.append
    assert (told, answered) == ([0, ask], [1, answer])
    assert 0 < moment <= later
    assert passed == [len(ask), len(answer)]
    assert notes.take() == []


@variants
def test_notes_are_full_by_their_number_and_by_their_bytes(variant: ModuleType) -> None:
    log: list[str] = []
    notes = variant.Notes(100, *(partial(log.append, called) for called in ("begun", "full")))
    notes.add(99, print, ())
    notes.add(1, print, ())
    assert log == ["begun", "full"]
    notes.take()
    log.clear()
    for _ in range(passing.MOST_NOTES):
        assert log in ([], ["begun"])
        notes.add(0, print, ())
    assert log == ["begun", "full"]
    assert len(notes.take()) == passing.MOST_NOTES
    notes.add(99, print, ())
    notes.add(1, print, ())
    assert log == ["begun", "full", "begun", "full"]
    notes.take()
    log.clear()
    for _ in range(passing.SOME_NOTES):
        notes.add(0, print, ())
        notes.add(0, print, ())
        assert log == ["begun"]
    notes.add(0, print, (), True)
    assert log == ["begun", "full"]


@variants
def test_packets_wait_until_they_are_written_together(variant: ModuleType) -> None:
    log: list[str] = []
    packets = variant.Packets(100, partial(log.append, "full"))
    packets.add([b"a" * 60, b"b"], 61, 1)
    packets.add([b"c" * 38], 38, 2)
    assert (log, packets.count, packets.size) == ([], 3, 99)
    packets.add([b"d"], 1, 1)
    assert log == ["full"]
    assert packets.take() == ([b"a" * 60, b"b", b"c" * 38, b"d"], 100, 4)
    assert packets.take() == ([], 0, 0)
    packets.add([b"e" * 101], 101, 1)
    assert log == ["full", "full"]


@variants
def test_a_pair_makes_plain_packets_and_leaves_all_others(variant: ModuleType) -> None:
    unlike: list[tuple[Any, ...]] = []

    class Flow(variant.Pair):  # type: ignore[misc, name-defined]  # of either module
        def add_unlike(self, *told: Any) -> None:
            unlike.append(told)

    directions = Direction(("10.0.0.1", 5), ("10.0.0.2", 6), 70), Direction(("10.0.0.2", 6), ("10.0.0.1", 5), 90)
    alike = Direction(("10.0.0.1", 5), ("10.0.0.2", 6), 70)
    packets = variant.Packets(1 << 20, list)
    flow = Flow(packets, directions, 10)
    flow.add_data(1, 0, b"asked")
    before, after = alike.packet(1, b"asked", 90)
    wanted = before + b"asked" + after
    assert [bytes(each) for each in packets.take()[0]] == [wanted]
    flow.add_data(2, 1, b"answered")
    assert [each.sequence for each in directions] == [75, 98]
    assert packets.take()[1:] == (len(wanted), 1), "five bytes are padded to eight"
    for told in ((b"eleven byte", None, 0), (b"said", "a comment", 0), (memoryview(b"view"), None, 0), (b"", None, 1)):
        flow.add_data(3, 0, *told)
        assert unlike.pop() == (3, 0, *told)
    flow.add_data(4, 0, b"")
    flow.unacknowledged = passing.UNACKNOWLEDGED
    flow.add_data(5, 0, b"too much")
    assert [told[0] for told in unlike] == [5]
    flow.unacknowledged = passing.UNACKNOWLEDGED
    flow.add_data(6, 1, b"which this acknowledges")
    assert [told[0] for told in unlike] == [5, 6], "it is longer than ten bytes"
    flow.unacknowledged = passing.UNACKNOWLEDGED
    flow.add_data(7, 0, b"heard")
    assert packets.take()[2] == 1
    flow.ended = [True, False]
    flow.add_data(8, 0, b"late")
    assert packets.take() == ([], 0, 0)
