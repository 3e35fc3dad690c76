"""What a selection records of a connection, read back by the reader of captures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.reader import read
from kproxy.core.selection import Choice, Piece, Selection
from kproxy.decoders.exchange import Exchange, Health, Status
from kproxy.decoders.filters import parse
from kproxy.decoders.plurals import counted
from kproxy.recording.recorder import Flow, Recorder, SelectedFlow
from kproxy.recording.sinks import File, pcapng_header
from tests.kproxy.core.frames import DEFINITIONS, framed, request

CLIENT, BROKER = ("10.0.0.1", 51234), ("10.0.0.2", 9092)
PRODUCE, FETCH, METADATA, HEARTBEAT, SASL_HANDSHAKE = 0, 1, 3, 12, 17

JOINED: st.SearchStrategy[bool] = st.booleans()

Sent = tuple[int, bytes]
"""Side and bytes."""


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return framed(correlation_id.to_bytes(4, "big", signed=True) + body)


def choice(snap: int | None = None, wanted: str = "") -> Choice:
    return Choice(snap, parse(wanted).expression, DEFINITIONS)


def left(sent: Iterable[Sent], chosen: Choice) -> list[list[Piece]]:
    """The recorded pieces of each side, with what the selection still holds at the end."""
    selection = Selection(chosen, CLIENT, BROKER)
    found: list[list[Piece]] = [[], []]
    for side, data in sent:
        found[side] += selection.feed(side, data)
    for side in (0, 1):
        if rest := selection.rest(side):
            found[side].append((rest, 0))
    return found


def joined(pieces: Sequence[Piece]) -> bytes:
    assert not any(beyond for _, beyond in pieces)
    return b"".join(bytes(data) for data, _ in pieces)


def recorded(path: Path, sent: Iterable[Sent], chosen: Choice | None) -> tuple[list[Exchange], Health]:
    recorder = Recorder(
        File(path, pcapng_header("x")), lambda _seconds, _call: None, pytest.fail, choice=chosen, threaded=False
    )
    flow: Flow | SelectedFlow = recorder.connection(CLIENT, BROKER)
    for side, data in sent:
        flow.data(side, data)
    flow.end(0)
    flow.end(1)
    recorder.close()
    reader = read(path)
    try:
        items = list(reader)
    finally:
        reader.close()
    assert isinstance(items[-1], Health)
    return [item for item in items if isinstance(item, Exchange)], items[-1]


def facts(exchanges: Iterable[Exchange]) -> list[Any]:
    """The properties of exchanges that do not change when frames are cut."""
    return [
        (
            one.api_key,
            one.api_version,
            one.correlation_id,
            one.client_id,
            one.request and one.request.size,
            one.response and one.response.size,
        )
        for one in exchanges
    ]


@st.composite
def conversations(draw: st.DrawFn) -> list[Sent]:
    """Requests of a few APIs and their responses, in any possible order, cut anywhere."""
    asked: list[int] = []
    streams: list[list[bytes]] = []
    for number in range(draw(st.integers(1, 12))):
        key = draw(st.sampled_from([PRODUCE, FETCH, METADATA, HEARTBEAT]))
        size = draw(st.sampled_from([0, 1, 30, 300, 70_000]))
        # acks is -1, whatever the length of what stands before it
        body = b"\xff\xff" * 8 + bytes(size) if key == PRODUCE else bytes(size)
        streams.append([request(key, 3 if key else 7, number, body)])
        asked.append(number)
    sent: list[Sent] = []
    waiting: list[bytes] = []
    for stream, number in zip(streams, asked, strict=True):
        sent.append((0, stream[0]))
        waiting.append(answer(number, bytes(draw(st.sampled_from([0, 5, 300, 200_000])))))
        answered = draw(st.integers(0, len(waiting)))
        sent += [(1, waiting.pop(draw(st.integers(0, len(waiting) - 1)))) for _ in range(answered)]
    sent += [(1, one) for one in waiting]
    pieces: list[Sent] = []
    for side, data in sent:
        cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            if end > start and pieces and pieces[-1][0] == side and draw(JOINED):
                pieces[-1] = (side, pieces[-1][1] + data[start:end])
            elif end > start:
                pieces.append((side, data[start:end]))
    return pieces


@settings(max_examples=25, deadline=None)
@given(conversations(), st.sampled_from([64, 256, 1000]))
def test_a_snap_cuts_frames_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, sent: list[Sent], snap: int
) -> None:
    path = tmp_path_factory.mktemp("snap")
    whole, _ = recorded(path / "whole", sent, None)
    cut, health = recorded(path / "cut", sent, choice(snap))
    assert facts(cut) == facts(whole)
    assert (health.gaps, health.lost) == (0, 0)
    for one in cut:
        for frame in (one.request, one.response):
            assert frame is not None
            assert frame.missing == max(frame.size + 4 - snap, 0)
        missing = one.request is not None and one.response is not None and one.request.missing + one.response.missing
        assert one.status is (Status.CUT if missing else Status.OK)
        assert one.latency_ns is not None


@settings(max_examples=25, deadline=None)
@given(conversations(), st.sampled_from(["api != Fetch", "version == 3", "client.id == test and api == Produce"]))
def test_exchanges_that_are_left_out_leave_no_trace(
    tmp_path_factory: pytest.TempPathFactory, sent: list[Sent], wanted: str
) -> None:
    path = tmp_path_factory.mktemp("filter")
    whole, _ = recorded(path / "whole", sent, None)
    some, health = recorded(path / "some", sent, choice(wanted=wanted))
    tests = {
        "api != Fetch": lambda one: one.api_key != FETCH,
        "version == 3": lambda one: one.api_version == 3,
        "client.id == test and api == Produce": lambda one: one.api_key == PRODUCE,
    }
    assert facts(some) == facts(one for one in whole if tests[wanted](one))
    assert (health.gaps, health.lost, health.cut) == (0, 0, 0)
    left_out = len(whole) - len(some)
    assert (f"{counted(left_out, 'exchange')} left out".encode() in (path / "some").read_bytes()) is (left_out > 0)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=60))),
    st.sampled_from([None, 64]),
    st.sampled_from(["", "api == Fetch"]),
)
def test_a_selection_of_any_bytes_only_cuts_them(sent: list[Sent], snap: int | None, wanted: str) -> None:
    """No byte is recorded twice or in another place, and without a filter each is at least counted."""
    pieces = left(sent, choice(snap, wanted))
    for side in (0, 1):
        stream = b"".join(data for which, data in sent if which == side)
        position = 0
        for data, beyond in pieces[side]:
            if not wanted:
                assert stream[position : position + len(data)] == bytes(data)
            position += len(data) + beyond
        assert position == len(stream) if not wanted else position <= len(stream)


def test_addresses_can_be_filtered() -> None:
    sent = [(0, request(HEARTBEAT, 0, 1))]
    for wanted, there in (("client == 10.0.0.1", True), ("broker == :9092", True), ("broker == 10.0.0.3", False)):
        assert bool(left(sent, choice(wanted=wanted))[0]) is there


def test_equal_correlation_ids_are_answered_in_order() -> None:
    sent = [(0, request(key, 3, 0)) for key in (FETCH, METADATA, FETCH, METADATA)]
    sent += [(1, answer(0, bytes([number]))) for number in range(4)]
    assert joined(left(sent, choice(wanted="api != Fetch"))[1]) == answer(0, b"\1") + answer(0, b"\3")


def test_a_produce_without_acks_expects_no_response() -> None:
    unanswered = request(PRODUCE, 7, 5, b"\xff\xff" + bytes(2) + bytes(4))
    sent = [(0, unanswered), (0, request(METADATA, 3, 5)), (1, answer(5, b"metadata"))]
    requests, responses = left(sent, choice(wanted="api != Produce"))
    assert joined(requests) == sent[1][1]
    assert joined(responses) == sent[2][1]


def test_tokens_are_recorded_with_the_handshake_that_announces_them() -> None:
    token = framed(b"\0user\0password")
    sent = [
        (0, request(SASL_HANDSHAKE, 0, 1, b"\0\5PLAIN")),
        (1, answer(1, bytes(8))),
        (0, token),
        (1, framed(b"")),
        (0, request(METADATA, 3, 2)),
        (1, answer(2)),
    ]
    requests, responses = left(sent, choice(wanted="api == Fetch"))
    assert joined(requests) == sent[0][1] + token
    assert joined(responses) == sent[1][1] + framed(b"")


def test_bytes_of_another_protocol_are_cut_by_the_piece() -> None:
    hello = b"\x16\x03\x01" + bytes(1000)
    requests, _ = left([(0, hello), (0, bytes(100))], choice(64, "api == Fetch"))
    assert [(len(data), beyond) for data, beyond in requests] == [(64, 939), (64, 36)]


def test_a_comment_stays_with_its_frame(tmp_path: Path) -> None:
    path = tmp_path / "r"
    recorder = Recorder(
        File(path, pcapng_header("x")), lambda *_: None, pytest.fail, choice=choice(64, "api != Fetch"), threaded=False
    )
    flow = recorder.connection(CLIENT, BROKER)
    for number, key in enumerate((METADATA, FETCH)):
        flow.data(0, request(key, 3, number))
        flow.data(1, answer(number, bytes(100_000)), f"comment {number}")
    recorder.close()
    (exchange,) = (item for item in read(path) if isinstance(item, Exchange))
    assert exchange.response is not None
    assert list(exchange.response.comments) == ["comment 0"]


def test_a_comment_is_recorded_once(tmp_path: Path) -> None:
    path = tmp_path / "r"
    recorder = Recorder(File(path, pcapng_header("x")), lambda *_: None, pytest.fail, choice=choice(64), threaded=False)
    recorder.connection(CLIENT, BROKER).data(1, answer(1, bytes(1000)) + answer(2, bytes(1000)), "the comment")
    recorder.close()
    assert path.read_bytes().count(b"the comment") == 1


@pytest.mark.parametrize("ending", [(0, 1), (1, 0)])
@pytest.mark.parametrize("reset", [False, True])
def test_a_frame_that_never_comes_is_recorded_as_far_as_it_came(
    tmp_path: Path, ending: tuple[int, int], reset: bool
) -> None:
    recorder = Recorder(
        File(tmp_path / "r", pcapng_header("x")), lambda *_: None, pytest.fail, choice=choice(64), threaded=False
    )
    flow = recorder.connection(CLIENT, BROKER)
    flow.data(0, b"\0WX")
    flow.data(1, b"\0YZ")
    if reset:
        flow.reset(ending[0])
    else:
        for side in ending:
            flow.end(side)
    recorder.close()
    held = (tmp_path / "r").read_bytes()
    assert b"\0WX" in held
    assert b"\0YZ" in held


@pytest.mark.parametrize(("recorded", "copied"), [(64, True), (500, True), (501, False), (600, False)])
def test_a_small_piece_of_what_was_read_is_a_copy(recorded: int, copied: bool) -> None:
    """A view keeps all that was read in memory; a large piece is none, so that it is not copied."""
    data = memoryview(request(METADATA, 3, 1, bytes(1000 - len(request(METADATA, 3, 1)))))
    ((piece, beyond),) = Selection(choice(recorded), CLIENT, BROKER).feed(0, data)
    assert (len(piece), beyond) == (recorded, 1000 - recorded)
    assert isinstance(piece, bytes) is copied
    if not copied:
        assert isinstance(piece, memoryview)
        assert piece.obj is data.obj
