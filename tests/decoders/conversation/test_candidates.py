"""The compiled patterns find every place that the plain rule finds, and every search is bounded."""

from __future__ import annotations

import random
from struct import pack

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kproxy.decoders.conversation.candidates import Awaited
from kproxy.decoders.conversation.recognition import LONGEST_CLIENT_ID, known
from kproxy.decoders.conversation.requests import Requests
from kproxy.decoders.conversation.responses import Responses
from kproxy.decoders.conversation.resync import EFFORT, TRIAL
from kproxy.decoders.conversation.stretch import Stretch
from kproxy.decoders.exchange import Connection, Exchange, Health
from kproxy.decoders.message import Decoded, decode_request
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Gap, Run
from tests.support.golden import golden
from tests.support.scripts import (
    BROKER,
    CLIENT,
    Cut,
    Script,
    Tape,
    bytewise,
    eyes,
    packets,
    play,
    request,
    response,
    whole,
)

LIMIT = 128 << 20
CONNECTION = Connection(0, "10.0.0.1:51234", "10.0.0.2:9092", 0)
APIS = known(eyes())


def requests(limit: int = LIMIT) -> Requests:
    return Requests(CONNECTION, Tape(), eyes(), APIS, limit, Health(), [], opened=True)


def plain_requests(window: bytes, limit: int = LIMIT) -> list[tuple[int, int]]:
    framer = requests(limit)
    tried = ((at, framer.candidate(window, at)) for at in range(len(window) - 13))
    return [(at, size) for at, size in tried if size >= 0]


def plain_responses(window: bytes, ids: set[int], limit: int = LIMIT) -> list[tuple[int, int]]:
    found = []
    for at in range(len(window) - 7):
        size = int.from_bytes(window[at : at + 4], "big", signed=True)
        if 4 <= size <= limit and int.from_bytes(window[at + 4 : at + 8], "big", signed=True) in ids:
            found.append((at, size))
    return found


def exchange(number: int) -> Exchange:
    return Exchange(0, CONNECTION, 3, 12, number, "shop")


CLIENT_IDS = st.sampled_from([b"", b"shop", b"\0", b"\xc3\xa9"])
SIZES = st.sampled_from([0, 3, 4, 7, 8, 9, 10, 11, 12, 40, 255, 65536, LIMIT - 1, LIMIT, LIMIT + 1, -1, 0x7FFFFFFF])
SHORTS = st.one_of(
    st.integers(-1, 20), st.integers(85, 100), st.sampled_from([255, 256, 1023, 1024, 1025, 0x7FFF, -2, -0x8000])
)
HEADS = st.builds(
    lambda size, key, version, number, length, text: pack(">ihhih", size, key, version, number, length) + text,
    SIZES, SHORTS, SHORTS, st.integers(-(2**31), 2**31 - 1), SHORTS, CLIENT_IDS,
)  # fmt: skip
WINDOWS = st.lists(
    st.one_of(HEADS, HEADS.map(lambda head: head[2:]), st.binary(max_size=9), st.just(bytes(7)), st.just(b"\xff" * 3)),
    max_size=12,
).map(b"".join)


@settings(max_examples=75, deadline=None)
@given(WINDOWS, st.sampled_from([500, LIMIT, 0x7FFFFFFF]))
@example(pack(">ihhih", 12, 7, 0, 9, 1), LIMIT)
@example(pack(">ihhih", 12, 7, 0, 9, 1)[:13], LIMIT)
@example(b"\0" * 3 + pack(">ihhih", 16, 3, 1, 9, 1024) + bytes(4), LIMIT)
def test_requests(window: bytes, limit: int) -> None:
    assert requests(limit).candidates(window) == plain_requests(window, limit)


def test_every_known_key_and_version_is_found() -> None:
    framer = requests()
    for key, (low, high) in APIS.versions.items():
        for version in range(low - 1, high + 2):
            head = pack(">ihhih", 12, key, version, 5, -1)
            assert bool(framer.candidates(b"x" + head)) is APIS.exact(key, version), (key, version)
    for one in golden("4.4.0"):
        if one.kind == "request":
            assert (3, len(one.frame) - 4) in framer.candidates(b"\0\0\0" + one.frame + bytes(14))


IDS = st.one_of(
    st.integers(0, 6), st.integers(250, 260), st.integers(65530, 65540), st.integers(-3, -1), st.sampled_from(
        [2**31 - 1, -(2**31), 0x5B000000, 0x5D5C2E00, 0x5E2D0A5D]
    ),
)  # fmt: skip


@settings(max_examples=75, deadline=None)
@given(st.lists(st.tuples(st.lists(IDS, max_size=8), st.sets(IDS, max_size=3), WINDOWS), max_size=4), st.randoms())
def test_responses(steps: list[tuple[list[int], set[int], bytes]], dice: random.Random) -> None:
    """Requests are added and given up between the windows of a search."""
    outstanding: dict[int, Exchange] = {}
    framer = Responses(CONNECTION, Tape(), eyes(), APIS, LIMIT, Health(), outstanding, {}, opened=True)
    framer.awaited = Awaited(outstanding, LIMIT)
    for asked, gone, window in steps:
        for number in gone:
            outstanding.pop(number, None)
        for number in asked:
            outstanding[number] = exchange(number)
        heads = [pack(">ii", dice.choice([0, 3, 4, 90, LIMIT]), number) for number in outstanding]
        data = window + b"".join(heads)
        assert framer.candidates(data) == plain_responses(data, set(outstanding))


def test_ids_of_any_range() -> None:
    dice = random.Random(1)
    outstanding: dict[int, Exchange] = {}
    framer = Responses(CONNECTION, Tape(), eyes(), APIS, LIMIT, Health(), outstanding, {}, opened=True)
    for _ in range(600):
        number = dice.randrange(-(2**31), 2**31)
        outstanding[number] = exchange(number)
        window = dice.randbytes(30) + pack(">ii", 99, number) + bytes(20)
        assert framer.candidates(window) == plain_responses(window, set(outstanding))


@pytest.mark.parametrize("size", [30, 300, 5000])
@pytest.mark.parametrize("body", [b"\xff\xff\xff\xff", b"\0\x10\0\0"], ids=["ends early", "fails at once"])
def test_headers_everywhere_are_refuted_within_bounds(size: int, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes decoded in vain grow at most in proportion to the input."""
    tried: list[int] = []

    def counting(data: bytes, definitions: Definitions) -> Decoded:
        tried.append(len(data))
        return decode_request(data, definitions)

    monkeypatch.setattr("kproxy.decoders.conversation.requests.decode_request", counting)
    head = size.to_bytes(4, "big") + request(3, 1, 7, "", topics=None)[4:-4] + body
    trap = head * (100_000 // len(head))
    script = Script().client(request(3, 1, 1)).lost(CLIENT, bytes(9)).packets(CLIENT, trap)
    script.client(request(3, 12, 2)).end()
    played = play(script, packets)
    assert len(tried) <= EFFORT * len(trap) / TRIAL + 9
    if body[0]:
        assert sum(tried) <= EFFORT * len(trap) + 2 * size
    assert played.lines()[-1] == "2 Metadata v12 #2 no_response"


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
def test_random_records_after_a_lost_length(cut: Cut) -> None:
    dice = random.Random(7)
    size = 3000 if cut is bytewise else 200_000
    topic = {"name": "orders", "partitionData": [{"index": 0, "records": dice.randbytes(size)}]}
    lost = request(0, 9, 1, acks=-1, timeoutMs=100, topicData=[topic])
    script = Script().client(request(3, 12, 0)).lost(CLIENT, lost[:1000]).packets(CLIENT, lost[1000:])
    script.packets(CLIENT, request(0, 9, 2, acks=-1, timeoutMs=100, topicData=[topic]))
    script.broker(response(3, 12, 0), response(0, 9, 1), response(0, 9, 2)).end()
    assert "2 Produce v9 #2 ok" in play(script, cut).lines()


def test_a_frame_after_the_last_gap_whose_client_id_cannot_be_one_is_not_begun() -> None:
    head = pack(">ihhih", 500, 3, 12, 9, 4) + b"\0\1\2\3"
    for cut in (whole, packets, bytewise):
        script = Script().client(request(3, 12, 1)).lost(CLIENT, bytes(50)).client(head).end()
        assert [line for line in play(script, cut).lines() if "#9" in line] == []


def test_gaps_are_found_by_offset() -> None:
    script = Script()
    for _ in range(5):
        script.lost(BROKER, bytes(3)).broker(b"abcd")
    stretch = Stretch(script.tape, 0)
    for event in script.events:
        if isinstance(event, Run):
            stretch.extend(event)
        elif isinstance(event, Gap):
            stretch.gap(event)
    for offset in range(35):
        start = offset // 7 * 7
        assert stretch.gap_at(offset) == ((start, start + 3) if offset % 7 < 3 else None)


def test_the_pattern_holds_the_longest_client_id() -> None:
    assert LONGEST_CLIENT_ID == 1024
