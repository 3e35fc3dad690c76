"""Stage 2 passes over most of a plain capture, but over nothing whose reading depends on earlier bytes."""

from __future__ import annotations

import gzip
import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kproxy.captures.definitions import definitions
from kproxy.captures.spark import local
from kproxy.captures.spark.claims import judging, plain
from kproxy.captures.spark.claims.by_flow import Flows
from kproxy.captures.spark.claims.checks import NUMBERS
from kproxy.captures.spark.claims.compiled import Found, check
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tables.schema import USUAL
from kproxy.captures.tcp.packets import Packets
from kproxy.captures.tcp.reassembly import Share
from kproxy.decoders.conversation.conversation import Conversation
from kproxy.decoders.exchange import Connection, Exchange, Frame, Status
from kproxy.decoders.stream import End, Gap, Run, Side
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, assert_same, counted, exported
from tests.captures.spark.cutting import cut_at
from tests.captures.spark.test_claims import (
    COORDINATOR,
    SECOND,
    START,
    Talk,
    assert_as_exported,
    find_coordinator,
    request,
    response,
    timed,
)
from tests.captures.spark.test_damaged import fragmented
from tests.support.multiply import lengthen, multiply

FIRST, LENGTH = 1000, 100
"""Address of the first segment of `held`, and bytes of each."""


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """For each stretch that the reading reaches: its number of exchanges, and whether it is passed over."""
    found: list[tuple[int, bool]] = []
    before = plain.Passing.over

    def passing(self: plain.Passing, *given: Any) -> bool:
        found.append((self.plain.claims, before(self, *given)))
        return found[-1][1]

    monkeypatch.setattr(plain.Passing, "over", passing)
    return found


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Exchange]:
    """The claimed exchanges that stage 2 reads nevertheless."""
    found: list[Exchange] = []

    def noted(item: Exchange, started: int, done: int) -> int:
        found.append(item)
        return check(item, started, done)

    monkeypatch.setattr(judging, "check", noted)
    return found


def apart(folder: Path, *parts: Sequence[bytes]) -> list[Path]:
    """Packets in consecutive compressed files, each of which is a split."""
    paths = []
    for number, frames in enumerate(parts):
        path = folder / f"{number}.pcap.gz"
        path.write_bytes(gzip.compress(files.pcap(timed(frames, START + number * SECOND))))
        paths.append(path)
    return paths


def exchanges(talk: Talk, numbers: Sequence[int]) -> list[bytes]:
    """Packets of consecutive exchanges."""
    pairs = ((talk.send(0, find_coordinator(n)), talk.send(1, response(n, COORDINATOR))) for n in numbers)
    return [packet for pair in pairs for packet in pair]


@pytest.mark.parametrize("make", [multiply, lengthen], ids=["many connections", "one"])
@pytest.mark.parametrize("size", [1 << 20, 1 << 40], ids=["in splits", "whole"])
def test_next_to_nothing_is_read_twice(
    make: Any,
    size: int,
    over: list[tuple[int, bool]],
    checked: list[Exchange],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plain, "LEAST", 64)
    make(traffic.BENCH, 2, capture := tmp_path / "a.pcap")
    count = len(local.tables([capture], Options(USUAL, bodies=False), size=size)["exchanges"])
    passed = sum(claims for claims, done in over if done)
    assert passed > 0.9 * count
    assert passed + len(checked) <= count


def test_a_stretch_behind_what_waits_is_read(over: list[tuple[int, bool]], tmp_path: Path) -> None:
    talk = Talk()
    before = [*talk.opening, *exchanges(talk, range(5)), talk.send(0, find_coordinator(100))]
    assert_as_exported(apart(tmp_path, before, exchanges(talk, range(5, 25))), size=1)
    assert over == [(4, True), (19, False)]


def test_a_stretch_that_is_read_is_upheld_all_the_same(checked: list[Exchange], tmp_path: Path) -> None:
    talk = Talk()
    before = [*talk.opening, *exchanges(talk, range(5)), talk.send(0, find_coordinator(100))]
    assert_as_exported(apart(tmp_path, before, exchanges(talk, range(5, 25))), size=1)
    assert len(checked) == 1 + 20


def test_a_connection_that_goes_on_in_another_file(over: list[tuple[int, bool]], tmp_path: Path) -> None:
    talk = Talk()
    parts = [*talk.opening, *exchanges(talk, range(5))], exchanges(talk, range(5, 25)), exchanges(talk, range(25, 30))
    assert_as_exported(apart(tmp_path, *parts), size=1)
    assert over == [(4, True), (19, True), (4, True)]


def test_a_correlation_id_that_waits_and_is_used_again(tmp_path: Path) -> None:
    talk = Talk()
    before = [*talk.opening, *exchanges(talk, range(3)), talk.send(0, find_coordinator(7))]
    tables = assert_as_exported(apart(tmp_path, before, exchanges(talk, range(3, 20))), size=1)
    assert "no_response" in tables["exchanges"].column("status").to_pylist()


def test_packets_that_are_missing_before_a_stretch(over: list[tuple[int, bool]], tmp_path: Path) -> None:
    talk = Talk()
    before = [*talk.opening, *exchanges(talk, range(5))]
    talk.send(1, bytes(100))
    assert_as_exported(apart(tmp_path, before, exchanges(talk, range(5, 25))), size=1)
    assert over == [(4, True)], "the stretch waits for the packets that are missing"


def metadata(number: int) -> tuple[bytes, bytes]:
    """A request that splits never claim, and its response."""
    broker = struct.pack(">ii", 1, 77) + b"\0\x0810.0.0.2" + struct.pack(">i", 9092) + b"\xff\xff"
    return request(3, 1, number, struct.pack(">i", -1)), response(number, broker + struct.pack(">ii", 77, 0))


def test_a_response_that_begins_before_its_request(tmp_path: Path) -> None:
    talk = Talk()
    frames = [*talk.opening, *exchanges(talk, range(20))]
    answer, (asked, answered) = response(500, COORDINATOR), metadata(501)
    frames += [talk.send(1, answer[:10]), talk.send(0, find_coordinator(500) + asked), talk.send(1, answer[10:])]
    frames += [talk.send(1, answered), *exchanges(talk, range(600, 605))]
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(timed(frames)))
    tables = assert_as_exported([path])
    assert set(tables["exchanges"].column("status").to_pylist()) == {"ok"}


def test_a_clock_that_goes_forth_and_back(tmp_path: Path) -> None:
    talk, later = Talk(), START + 100 * SECOND
    first, one, rest = exchanges(talk, range(2)), exchanges(talk, [2]), exchanges(talk, range(3, 43))
    packets = [(later - 50 * SECOND, one[0]), (later + SECOND, one[1]), *timed(rest, later - 49 * SECOND)]
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap([*timed(first, later), *packets]))
    planned = cut_at(path, [4.5 / (4 + len(packets))])
    expected = exported([path])
    tables = local.of_plan(planned, Options(tuple(TABLES)), size=1 << 40)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, expected)
    assert "orphan_response" in tables["exchanges"].column("status").to_pylist()


def test_a_packet_whose_fragments_were_captured_the_other_way_round(tmp_path: Path) -> None:
    talk = Talk()
    packet = talk.send(0, request(10, 0, 1, struct.pack(">h", 300) + b"g" * 300))
    pieces = fragmented([(START, packet)] * 50, Random(1))[-2:]
    assert pieces[0][1] != packet
    frames = [talk.send(1, response(1, COORDINATOR)), *exchanges(talk, range(2, 20))]
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap([*pieces[::-1], *timed(frames)]))
    assert len(assert_as_exported([path])["exchanges"]) == 19


def test_what_a_body_holds_is_no_stretch(over: list[tuple[int, bool]], tmp_path: Path) -> None:
    """A split that begins within a body finds what looks like exchanges in it, which are not exchanges."""
    outer, inner = Talk(), [find_coordinator(n) for n in range(20)]
    answers = [response(n, COORDINATOR) for n in range(20)]
    asked, answered = b"".join(inner), b"".join(answers)
    # API 10 with a body that no definition fits, and its response; each frame inside is one packet
    head, reply = request(10, 0, 500, b""), response(500, b"")
    head = struct.pack(">i", len(head) - 4 + len(asked)) + head[4:]
    reply = struct.pack(">i", len(reply) - 4 + len(answered)) + reply[4:]
    before = [*outer.opening, *exchanges(outer, range(3)), outer.send(0, head)]
    body = [outer.send(side, one) for pair in zip(inner, answers, strict=True) for side, one in enumerate(pair)]
    last = [outer.send(1, reply), *(outer.send(1, one) for one in answers)]
    tables = assert_as_exported(apart(tmp_path, before, [*body, *last]), size=1)
    assert len(tables["exchanges"]) < 3 + 20 + 20
    assert not any(done for claims, done in over if claims > 3)


def frame(at: int, size: int) -> Frame:
    return Frame(0, at, size - 4, 1, 1, at + size - 1, [(at, size)])  # type: ignore[arg-type]  # a side's number


def held(frames: Sequence[tuple[int, int, int]], count: int, **changes: Any) -> list[plain.Plain]:
    """The stretches of consecutive segments; a frame is (claim, start, size), its start counted from FIRST."""
    at = np.arange(count, dtype=np.int64) * LENGTH + FIRST
    sizes, none = np.full(count, LENGTH, np.int64), np.zeros(count, np.int64)
    columns = {"stored": sizes, "flags": none} | changes
    packets = Packets([b""], none, none, none, none, columns["flags"], at, sizes, columns["stored"])
    share = Share(packets, none, columns.get("reached", at), none, 0, 0)
    connection = Connection(0, "c:1", "b:2", 0, True)
    found = Found()
    for number in sorted({number for number, _, _ in frames}):
        one, other = (frame(FIRST + start, size) for claim, start, size in frames if claim == number)
        item = Exchange(0, connection, 0, 0, number, None, one, other, Status.OK)
        found.take([(one.spans[0][0], item)], [(other.at, item)])
    numbers = np.frombuffer(found.numbers, np.int64).reshape(-1, len(NUMBERS)).T
    asked, answered = (numbers[NUMBERS.index(name)] for name in ("asked_pieces", "answered_pieces"))
    made = plain.Frames(asked, answered, found.spans, found.talks)
    claims = np.array([0, len(made.claims)])
    flows = Flows([7], np.array([0, count]), np.array([0, 1]), share, none)
    return made.stretches(flows, claims, np.arange(len(made.claims), dtype=np.int64) * 10).get(0, [])


EACH = [(n // 2, n * LENGTH, LENGTH) for n in range(20)]
"""Ten exchanges with one segment for each frame."""


def test_what_is_looked_at_of_each_frame_in_any_case() -> None:
    """Always read: a request's header and more, a response's length and correlation id, however they are divided."""
    spans = array("q", [0, 60, 100, 60, 200, 50, 260, 20, 300, 5, 400, 5, 500, 5, 600, 100])
    frames = plain.Frames(np.array([2, 1, 1]), np.array([1, 3, 0]), spans, [])
    assert [column.tolist() for column in frames.bodies()] == [[136, 208, 403, 500, 696], [160, 250, 405, 505, 700]]


def test_a_stretch_begins_behind_an_exchange_that_shows_what_the_connection_is() -> None:
    assert held(EACH, 20) == [plain.Plain(2, 20, 1, 9, 10, "c:1", "b:2")]


def test_a_stretch_ends_before_bytes_that_nobody_claims() -> None:
    assert held(EACH[:10], 20) == [plain.Plain(2, 10, 1, 4, 10, "c:1", "b:2")]


def test_a_stretch_has_whole_exchanges() -> None:
    crossing = [(5, 10), (5, 19), (6, 11), (6, 12), (7, 13), (7, 14), (8, 16), (8, 17)]
    frames = [*EACH[:10], *((claim, segment * LENGTH, LENGTH) for claim, segment in crossing)]
    assert [(one.start, one.end) for one in held(frames, 20)] == [(2, 10)]


@pytest.mark.parametrize(
    "changes",
    [
        {"flags": np.where(np.arange(20) == 10, 1, 0)},
        {"stored": np.where(np.arange(20) == 10, LENGTH - 1, LENGTH)},
        {"reached": np.where(np.arange(20) == 10, FIRST + 5000, np.arange(20) * LENGTH + FIRST)},
    ],
    ids=["flags", "cut by the snap length", "out of order"],
)
def test_nothing_is_odd_about_a_stretch(changes: dict[str, Any]) -> None:
    assert all(one.end <= 10 or one.start > 10 for one in held(EACH, 20, **changes))
    assert len(held(EACH, 20, **changes)) == 2


class Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, start: int, end: int) -> bytes:
        return self._data[start:end]


def test_a_conversation_rests_when_all_is_answered_and_not_before() -> None:
    asked, answered = find_coordinator(1), response(1, COORDINATOR)
    data = asked + answered
    talk = Conversation("c:1", "b:2", Bytes(data), definitions())
    rests = [talk.rests(1)]
    for side, start, end in ((0, 0, 10), (0, 10, len(asked)), (1, len(asked), len(data))):
        offset = start if not side else 0
        talk.feed([Run(Side(side), offset, [offset + end - start], [start], [1])])
        rests.append(talk.rests(1))
    assert rests == [False, False, False, True]
    assert talk.asked == len(asked)


def test_a_conversation_does_not_rest_while_it_looks_for_the_next_frame() -> None:
    asked, answered = find_coordinator(1), response(1, COORDINATOR)
    data = asked + answered + b"\xff" * 9
    talk = Conversation("c:1", "b:2", Bytes(data), definitions())
    size = len(answered)
    talk.feed([Run(Side.CLIENT, 0, [len(asked)], [0], [1]), Run(Side.BROKER, 0, [size], [len(asked)], [1])])
    assert talk.rests(1)
    talk.feed([Run(Side.BROKER, size, [size + 9], [len(asked) + size], [1])])
    assert not talk.rests(1)


def test_a_conversation_does_not_rest_behind_a_gap(resting: Conversation) -> None:
    answered = resting._responses.position
    resting.feed([Gap(Side.BROKER, answered, answered + 10, 2000, 1)])
    assert resting._responses.position == answered + 10
    assert not resting.rests(1)


def test_a_conversation_does_not_rest_where_bare_tokens_may_come() -> None:
    asked, answered = request(17, 0, 1, b"\0\5PLAIN"), response(1, b"\0\0\0\0\0\1\0\5PLAIN")
    talk = Conversation("c:1", "b:2", Bytes(asked + answered), definitions())
    talk.feed([Run(Side.CLIENT, 0, [len(asked)], [0], [1])])
    assert talk.feed([Run(Side.BROKER, 0, [len(answered)], [len(asked)], [1])])
    assert not talk.rests(1)


@pytest.fixture
def resting() -> Conversation:
    """A conversation after one complete exchange, whose bytes are at addresses from 0."""
    asked, answered = find_coordinator(1), response(1, COORDINATOR)
    talk = Conversation("c:1", "b:2", Bytes(asked + answered), definitions())
    talk.feed([Run(Side.CLIENT, 0, [len(asked)], [0], [1])])
    talk.feed([Run(Side.BROKER, 0, [len(answered)], [len(asked)], [1])])
    return talk


@pytest.mark.parametrize("what", ["a response that is early", "the broker's end", "the client's end"])
def test_what_a_conversation_does_not_rest_behind(what: str) -> None:
    asked, answered, early = find_coordinator(1), response(1, COORDINATOR), response(9, COORDINATOR)
    size, at = len(answered), len(asked) + len(answered)
    talk = Conversation("c:1", "b:2", Bytes(asked + answered + early), definitions())
    talk.feed([Run(Side.CLIENT, 0, [len(asked)], [0], [1]), Run(Side.BROKER, 0, [size], [len(asked)], [1])])
    assert talk.rests(1)
    if what == "a response that is early":
        talk.feed([Run(Side.BROKER, size, [size + len(early)], [at], [1])])
    else:
        talk.feed([End(Side.BROKER if what == "the broker's end" else Side.CLIENT, at, 1, "FIN")])
    assert not talk.rests(1)


def test_a_conversation_does_not_rest_before_requests_are_in_the_capture() -> None:
    asked, answered = find_coordinator(1), response(1, COORDINATOR)
    talk = Conversation("c:1", "b:2", Bytes(asked + answered), definitions(), opened=False)
    talk.feed([Run(Side.CLIENT, 0, [len(asked)], [0], [7])])
    talk.feed([Run(Side.BROKER, 0, [len(answered)], [len(asked)], [8])])
    assert (talk.rests(6), talk.rests(7)) == (False, True)


def passing() -> plain.Passing:
    """A stretch: a request of 50 bytes at address 1000, an ACK, and the response of 40 bytes at 2000."""
    at = np.array([1000, 1500, 2000], np.int64)
    sizes, none = np.array([50, 0, 40], np.int64), np.zeros(3, np.int64)
    packets = Packets([b""], none, none, none, none, none, at, sizes, sizes)
    return plain.Passing(plain.Plain(0, 3, 0, 1, 0, "c:1", "b:2"), packets, lambda: None)


def runs(talk: Conversation) -> list[Run]:
    """The runs that reassembly makes of the stretch."""
    asked, answered = talk.asked, talk._responses.position
    return [
        Run(Side.CLIENT, asked, [asked + 50], [1000], [1]),
        Run(Side.BROKER, answered, [answered + 40], [2000], [1]),
    ]


def test_a_conversation_goes_on_behind_a_stretch(resting: Conversation) -> None:
    asked, over = resting.asked, passing()
    assert over.over(resting, runs(resting))
    assert (over.connection, over.place) == (resting.connection, asked)
    assert resting.asked == asked + 50
    assert (resting._requests.floor, resting._responses.floor) == (1049, 2039)
    assert resting.rests(1)


@pytest.mark.parametrize(
    "change",
    [
        lambda events: events[:1],
        lambda events: [*events, End(None, 2040, 1)],
        lambda events: [*events, Gap(Side.BROKER, 0, 1, 2040, 1)],
        lambda events: [replace(events[0], at=[1001]), events[1]],
        lambda events: [replace(events[0], ends=[events[0].ends[0] - 1]), events[1]],
        lambda events: [replace(events[0], stored=[49]), events[1]],
        lambda events: [replace(events[0], released=1500), events[1]],
        lambda events: [replace(events[0], comments={1: "odd"}), events[1]],
        lambda events: [replace(events[0], overlaps=[(0, 1)]), events[1]],
    ],
    ids=["less", "an end", "a gap", "elsewhere", "shorter", "cut", "late", "a comment", "an overlap"],
)
def test_anything_else_is_read(resting: Conversation, change: Callable[[list[Any]], list[Any]]) -> None:
    over = passing()
    assert not over.over(resting, change(runs(resting)))
    assert over.connection is None


def test_a_connection_that_is_taken_for_another_is_read(resting: Conversation) -> None:
    over = passing()
    over.plain = over.plain._replace(client="b:2", broker="c:1")
    assert not over.over(resting, runs(resting))
