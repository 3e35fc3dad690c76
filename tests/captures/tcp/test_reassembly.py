"""Reassembly in sequence space: what damage costs, and that batches do not matter."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.tcp import reassembly
from kproxy.captures.tcp.reassembly import CROWDED, MISSED, MOST_WAITING, Reassembler, TcpConnection, part_of
from kproxy.captures.tcp.waiting import LONGEST_TIME, OVERHEAD
from tests.captures.tcp.scripts import (
    ACK,
    FIN,
    KEY,
    MILLISECOND,
    RST,
    SYN,
    Script,
    Segment,
    ends,
    gaps,
    overlaps,
    stream,
)

SECOND = 1000 * MILLISECOND
CLIENT, BROKER = 0, 1


def opening(client: int = 1000, broker: int = 9000) -> list[Segment]:
    return [
        Segment(CLIENT, client, flags=SYN),
        Segment(BROKER, broker, flags=SYN | ACK, ack=client + 1),
        Segment(CLIENT, client + 1, ack=broker + 1),
    ]


def one(segments: list[Segment]) -> list[list[Any]]:
    """The two sides of a single connection; asserts that they are the same however batches are cut."""
    script = Script(segments)
    (events,) = script.run()
    whole = script.streams(events)
    (events,) = script.run(range(len(segments)))
    assert script.streams(events) == whole
    return whole


def in_order(way: int, seq: int, pieces: list[bytes], **more: Any) -> list[Segment]:
    found = []
    for piece in pieces:
        found.append(Segment(way, seq, piece, **more))
        seq += len(piece)
    return found


PIECES = [bytes([65 + i]) * (i + 1) for i in range(20)]
WHOLE = b"".join(PIECES)


def test_in_order() -> None:
    client, broker = one([*opening(), *in_order(CLIENT, 1001, PIECES), *in_order(BROKER, 9001, PIECES)])
    assert stream(client) == stream(broker) == WHOLE
    assert gaps(client) == overlaps(client) == []
    assert ends(client) == ends(broker) == ["end of capture"]


def test_sequence_numbers_wrap() -> None:
    start = 2**32 - 30
    client, _ = one([*opening(client=start - 1), *in_order(CLIENT, start, PIECES)])
    assert stream(client) == WHOLE


def test_sequence_numbers_wrap_more_than_once() -> None:
    step = 1 << 27
    flood = [Segment(CLIENT, (1001 + i * step) % 2**32, b"x", length=step) for i in range(80)]
    client, _ = one([*opening(), *flood])
    assert [item[0] for item in client[:-1]] == [i * step for i in range(80)]


def test_reordering() -> None:
    segments = in_order(CLIENT, 1001, PIECES)
    segments[3], segments[4], segments[10], segments[12] = segments[4], segments[3], segments[12], segments[10]
    client, _ = one([*opening(), *segments])
    assert stream(client) == WHOLE
    assert gaps(client) == overlaps(client) == []


def test_what_came_late_is_delivered_when_the_hole_is_filled() -> None:
    segments = in_order(CLIENT, 1001, [b"aa", b"bb", b"cc"])
    client, _ = one([*opening(), segments[0], segments[2], segments[1]])
    delivered = [item[3] for item in client if isinstance(item[0], int)]
    assert delivered == sorted(delivered)
    assert delivered[1] == delivered[2]


def test_retransmission_and_keep_alives() -> None:
    segments = in_order(CLIENT, 1001, PIECES)
    again = [segments[2], segments[5], Segment(CLIENT, 1001 + len(WHOLE) - 1, b""), segments[19]]
    client, _ = one([*opening(), *segments, *again, Segment(CLIENT, 1001 + len(WHOLE) - 1, b"\0")])
    assert stream(client) == WHOLE
    assert overlaps(client) == []


def test_a_zero_window_probe_carries_the_next_byte() -> None:
    client, _ = one(
        [*opening(), Segment(CLIENT, 1001, b"abc"), Segment(CLIENT, 1004, b"d"), Segment(CLIENT, 1004, b"def")]
    )
    assert stream(client) == b"abcdef"
    assert overlaps(client) == []


def test_overlap_first_seen_wins_and_is_reported() -> None:
    client, _ = one(
        [*opening(), Segment(CLIENT, 1001, b"abcdef"), Segment(CLIENT, 1003, b"cXYfgh"), Segment(CLIENT, 1009, b"i")]
    )
    assert stream(client) == b"abcdefghi"
    assert overlaps(client) == [(3, 5)]


def test_overlap_of_what_waits_for_a_hole() -> None:
    late = [Segment(CLIENT, 1004, b"def"), Segment(CLIENT, 1002, b"bcdEfg"), Segment(CLIENT, 1001, b"a")]
    client, _ = one([*opening(), *late])
    assert stream(client) == b"abcdefg"
    assert overlaps(client) == [(4, 5)]


def test_an_acknowledged_hole_is_lost_after_a_second() -> None:
    lost = [*opening(), Segment(CLIENT, 1001, b"abc"), Segment(CLIENT, 1010, b"xyz"), Segment(BROKER, 9001, ack=1013)]
    waiting = [*lost, Segment(CLIENT, 1013, b"!", time=SECOND // 2)]
    client, _ = one([*waiting, Segment(CLIENT, 1004, b"defghi", time=SECOND // 2)])
    assert stream(client) == b"abcdefghixyz!"
    assert gaps(client) == []
    client, _ = one(
        [*waiting, Segment(BROKER, 9001, ack=1014, time=2 * SECOND), Segment(CLIENT, 1014, b"?", time=2 * SECOND)]
    )
    assert stream(client) == b"abc" + bytes(6) + b"xyz!?"
    assert gaps(client) == [(3, 9)]


def test_an_acknowledged_hole_is_lost_after_many_segments() -> None:
    rest = in_order(CLIENT, 1010, [b"x"] * 40, ack=9001)
    client, _ = one([*opening(), Segment(CLIENT, 1001, b"abc"), Segment(BROKER, 9001, ack=1013), *rest])
    assert gaps(client) == [(3, 9)]
    found = next(i for i, item in enumerate(client) if item[0] == "gap")
    assert len(client) > found + 2


@pytest.mark.parametrize(
    ("beyond", "last", "lost"),
    [
        (128, 50 * MILLISECOND, []),
        (129, 50 * MILLISECOND, [(3, 9)]),
        (129, 50 * MILLISECOND - 1, []),
        (1, LONGEST_TIME - 1, []),
        (1, LONGEST_TIME, [(3, 9)]),
    ],
)
def test_an_acknowledged_hole_can_be_filled_for_128_packets_and_50_milliseconds(
    beyond: int, last: int, lost: list[tuple[int, int]]
) -> None:
    acknowledged = Segment(BROKER, 9001, ack=1011, time=SECOND)
    rest = in_order(CLIENT, 1010, [b"x"] * beyond, ack=9001, time=SECOND)
    rest[-1].time = SECOND + last
    filled = Segment(CLIENT, 1004, b"defghi", time=SECOND + last)
    client, _ = one([*opening(), Segment(CLIENT, 1001, b"abc"), acknowledged, *rest, filled])
    assert gaps(client) == lost


def test_what_waits_of_a_part_is_bounded() -> None:
    """Fewer packets may wait if they are large; a flow with too many gets them delivered in their order."""
    size = 64 << 10
    segments = [Segment(CLIENT, 1001 + i * size, bytes(size), ack=9001, time=i) for i in range(40)]
    script = Script(segments)
    reassembler = Reassembler(script.same)
    waiting = []
    for i in range(len(segments)):
        reassembler.feed(script.packets.some(slice(i, i + 1)))
        assert reassembler._waiting[part_of(KEY)] <= MOST_WAITING
        (flow,) = reassembler._flows.values()
        waiting.append(len(flow.waiting))
    assert max(waiting) == MOST_WAITING // (size + OVERHEAD) == 31
    assert waiting[31:] == [0] * 9, "one that could wait no longer has begun the connection"
    client, _ = one(segments)
    assert stream(client) == bytes(40 * size)


def test_a_flood_of_syns_that_wait_costs_little_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    is_later = reassembly._is_later

    def counted(*arguments: Any) -> bool:
        nonlocal looked
        looked += 1
        return is_later(*arguments)

    monkeypatch.setattr(reassembly, "_is_later", counted)
    script = Script([Segment(CLIENT, i << 16, flags=SYN, time=i) for i in range(4000)])
    found = script.run()
    assert len(found) == 4000
    assert looked < 20 * 4000


def test_a_hole_that_nobody_acknowledged_waits() -> None:
    rest = in_order(CLIENT, 1010, [b"x"] * 400)
    client, _ = one([*opening(), *rest, Segment(CLIENT, 1001, b"abcdefghi")])
    assert stream(client) == b"abcdefghi" + b"x" * 400
    assert gaps(client) == []


def test_what_was_acknowledged_and_never_seen_is_lost() -> None:
    client, _ = one([*opening(), Segment(CLIENT, 1001, b"abc"), Segment(BROKER, 9001, ack=1051)])
    assert gaps(client) == [(3, 50)]


def test_fin_waits_for_what_stands_before_it() -> None:
    client, broker = one(
        [
            *opening(),
            Segment(CLIENT, 1004, b"def", flags=ACK | FIN),
            Segment(CLIENT, 1001, b"abc"),
            Segment(BROKER, 9001, b"answer", ack=1008),
            Segment(BROKER, 9007, flags=ACK | FIN, ack=1008),
        ]
    )
    assert stream(client) == b"abcdef"
    assert stream(broker) == b"answer"
    assert ends(client) == ["FIN", "FIN"]
    assert ends(broker) == ["FIN", "FIN"]


def test_rst_ends_both_sides_and_what_follows_is_counted() -> None:
    client, broker = one(
        [
            *opening(),
            Segment(CLIENT, 1001, b"abc"),
            Segment(CLIENT, 1010, b"lost before"),
            Segment(CLIENT, 1021, flags=RST),
            Segment(BROKER, 9001, b"in flight"),
        ]
    )
    assert stream(client)[:3] == b"abc"
    assert gaps(client) == [(3, 9)]
    assert ends(client) == ["RST"]
    assert stream(broker) == b""


@pytest.mark.parametrize("first", [9000, 8990])
def test_a_side_of_which_only_acknowledgements_were_seen_begins_with_its_first_data(first: int) -> None:
    sent = [Segment(CLIENT, 1000 + 4 * i, b"sent", ack=9000) for i in range(40)]
    heard = [Segment(BROKER, 9000, ack=1004 + 4 * i) for i in range(40)]
    taken_up = [each for pair in zip(sent, heard, strict=True) for each in pair]
    *answers, last = [Segment(BROKER, first + 4 * i, b"told", ack=1160) for i in range(40)]
    script = Script([Segment(BROKER, 9000, ack=1000), *taken_up, *answers[:-1], last, answers[-1]])
    (whole,) = script.run()
    sides = script.streams(whole)
    assert sorted(map(stream, sides)) == [b"sent" * 40, b"told" * 40]
    for borders in (range(200), range(0, 200, 13), (41,), (81,), (100,)):
        (cut,) = script.run(borders)
        assert script.streams(cut) == sides


def test_ports_used_again() -> None:
    script = Script(
        [
            *opening(1000, 9000),
            Segment(CLIENT, 1001, b"first"),
            *opening(500_000, 7_000_000),
            Segment(CLIENT, 500_001, b"second"),
            Segment(BROKER, 7_000_001, b"answer"),
            Segment(CLIENT, 500_007, flags=FIN | ACK),
            Segment(BROKER, 7_000_007, flags=FIN | ACK),
            *opening(1000, 9000),
            Segment(CLIENT, 1001, b"first", time=500 * SECOND),
        ]
    )
    for borders in ((), range(30), (5, 9)):
        connections = [script.streams(events) for events in script.run(borders)]
        assert [stream(sides[0]) for sides in connections][:2] == [b"first", b"second"]
        assert stream(connections[1][1]) == b"answer"
        assert ends(connections[0][0]) == ["a new connection on the same ports"]


def test_a_syn_sent_again_opens_nothing() -> None:
    client, _ = one([*opening()[:1], *opening(), Segment(CLIENT, 1001, b"abc")])
    assert stream(client) == b"abc"


def test_data_on_syn() -> None:
    client, _ = one([Segment(CLIENT, 1000, b"early", flags=SYN), *opening()[1:], Segment(CLIENT, 1006, b" bird")])
    assert stream(client) == b"early bird"


def test_a_capture_that_starts_in_the_middle() -> None:
    script = Script(
        [Segment(BROKER, 700, ack=50), Segment(CLIENT, 50, b"abc", ack=700), Segment(BROKER, 700, b"xyz", ack=53)]
    )
    (events,) = script.run()
    sides = script.streams(events)
    assert [stream(side) for side in sides] == [b"xyz", b"abc"]


def test_numbers_of_another_connection() -> None:
    script = Script(
        [Segment(CLIENT, 50, b"abc"), Segment(CLIENT, 3_000_000_000, b"xyz"), Segment(CLIENT, 3_000_000_003, b"!")]
    )
    found = [stream(script.streams(events)[0]) for events in script.run()]
    assert found == [b"abc", b"xyz!"]


def test_snap_length_and_comments() -> None:
    cut = [Segment(CLIENT, 1001, b"abcdef", stored=4, comment="cut"), Segment(CLIENT, 1007, b"gh", comment="whole")]
    client, _ = one([*opening(), *cut, *in_order(CLIENT, 1009, PIECES, stored=1)])
    assert client[0][:3] == (0, 6, b"abcd")
    assert [item[5] for item in client[:3]] == ["cut", "whole", None]


def test_a_flood_beyond_a_hole_is_bounded() -> None:
    rest = in_order(CLIENT, 1010, [b"x"] * 5000)
    client, _ = one([*opening(), *rest])
    assert gaps(client) == [(0, 9)]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[list[Segment], list[bytes], list[int]]:
    """Two streams cut into segments, some lost, repeated, cut differently or out of order; and ends of batches."""
    segments = opening()
    streams = []
    sent: list[list[Segment]] = []
    for way, seq in ((CLIENT, 1001), (BROKER, 9001)):
        data = bytes(draw(st.integers(0, 255)) for _ in range(4)) * 30
        streams.append(data)
        cuts = sorted({0, len(data), *draw(st.lists(st.integers(1, len(data) - 1), max_size=25))})
        sent.append([Segment(way, seq + a, data[a:b]) for a, b in pairwise(cuts)])
    queue = [segment for pair in zip(*sent, strict=False) for segment in pair]
    queue += sent[0][len(sent[1]) :] + sent[1][len(sent[0]) :]
    for _ in range(draw(st.integers(0, 6))):
        action = draw(st.sampled_from(["lose", "repeat", "swap", "other", "ack"]))
        i = draw(st.integers(0, len(queue) - 1))
        if action == "lose" and len(queue) > 1:
            del queue[i]
        elif action == "repeat":
            queue.insert(draw(st.integers(i, len(queue))), queue[i])
        elif action == "swap":
            j = min(len(queue) - 1, i + draw(st.integers(1, 4)))
            queue[i], queue[j] = queue[j], queue[i]
        elif action == "other":
            way, seq = queue[i].way, queue[i].seq
            start = max(1001 if way == CLIENT else 9001, seq - draw(st.integers(0, 5)))
            queue.insert(draw(st.integers(0, len(queue))), Segment(way, start, bytes(draw(st.integers(1, 12)))))
        else:
            other = 9001 if queue[i].way == CLIENT else 1001
            ack = other + draw(st.integers(0, 120))
            queue.insert(i, Segment(queue[i].way, queue[i].seq, b"", ack=ack))
    time = 0
    for k, segment in enumerate(queue):
        time += draw(st.sampled_from([MILLISECOND, MILLISECOND, MILLISECOND, SECOND]))
        queue[k] = Segment(segment.way, segment.seq, segment.data, ack=segment.ack, time=time)
    everything = [*segments, *queue]
    return everything, streams, draw(st.lists(st.integers(1, len(everything)), max_size=6))


@settings(max_examples=150, deadline=None)
@given(damaged())
def test_batches_do_not_matter_and_nothing_is_invented(case: tuple[list[Segment], list[bytes], list[int]]) -> None:
    segments, streams, borders = case
    script = Script(segments)
    (events,) = script.run(range(len(segments)))
    singly = script.streams(events)
    for cut in ((), borders):
        (events,) = script.run(cut)
        assert script.streams(events) == singly
    for way, (side, original) in enumerate(zip(singly, streams, strict=True)):
        first = 1001 if way == CLIENT else 9001
        seen = bytearray(len(original) + 40)
        for segment in reversed(segments):
            if segment.way == way and segment.data:
                at = segment.seq - first
                seen[at : at + len(segment.data)] = segment.data
        joined = stream(side)
        lost = gaps(side)
        for offset, byte in enumerate(joined):
            if not any(a <= offset < b for a, b in lost):
                holders = [
                    s for s in segments if s.way == way and s.seq - first <= offset < s.seq - first + len(s.data)
                ]
                assert byte in {s.data[offset - (s.seq - first)] for s in holders}
        if not overlaps(side):
            for offset, byte in enumerate(joined):
                if not any(a <= offset < b for a, b in lost):
                    assert byte == seen[offset]


@pytest.mark.parametrize("count", [11, 12, 13, 40])
def test_a_flag_in_the_middle_of_a_batch(count: int) -> None:
    segments = [*opening(), *in_order(CLIENT, 1001, [b"x"] * count), Segment(CLIENT, 1001 + count, flags=FIN | ACK)]
    client, _ = one([*segments, *in_order(BROKER, 9001, PIECES)])
    assert stream(client) == b"x" * count
    assert ends(client) == ["FIN", "end of capture"]


def test_many_connections_at_once() -> None:
    segments: list[Segment] = []
    for i in range(200):
        key = KEY[:3] + bytes([i]) + KEY[4:]
        segments += [
            Segment(segment.way, segment.seq, segment.data, segment.flags, segment.ack, key=key)
            for segment in (*opening(), *in_order(CLIENT, 1001, PIECES))
        ]
    interleaved = sorted(segments, key=lambda segment: segment.seq)
    script = Script(interleaved)
    for borders in ((), range(0, len(interleaved), 97)):
        found = script.run(borders)
        assert len(found) == 200
        assert {stream(script.streams(events)[0]) for events in found} == {WHOLE}


def flow_key(number: int) -> bytes:
    return KEY[:8] + (40_000 + number).to_bytes(2, "big") + KEY[10:]


def test_what_is_silent_after_missing_packets_has_ended() -> None:
    """Its FIN may be among the missing packets. A flow that sends in time goes on; one that sends later begins anew."""
    speaks, silent, late = (flow_key(number) for number in range(3))
    before = [
        Segment(CLIENT, 1000 + extra, data, flags, time=SECOND, key=key)
        for key in (speaks, silent, late)
        for extra, data, flags in ((0, b"", SYN), (1, b"one", ACK))
    ]
    after = [
        Segment(CLIENT, 1004, b"two", time=10 * SECOND, key=speaks),
        Segment(CLIENT, 1007, b"three", time=40 * SECOND, key=speaks),
        Segment(CLIENT, 1004, b"two", time=41 * SECOND, key=late),
        Segment(CLIENT, 1012, b"four", time=42 * SECOND, key=speaks),
    ]
    script = Script([*before, *after])

    def read(borders: list[int]) -> list[Any]:
        reassembler = Reassembler(script.same)
        seen: dict[TcpConnection, list[Any]] = {}
        for a, b in pairwise([0, len(before), *borders, len(script.segments)]):
            script._collect(reassembler.feed(script.packets.some(slice(a, b))), seen)
            if b == len(before):
                reassembler.missed()
        assert len(reassembler._flows) == 2, "nothing is left of the silent one"
        script._collect(reassembler.finish(len(script.memory)), seen)
        return [
            (stream(client), ends(client), connection.opened)
            for connection, events in seen.items()
            for client in script.streams(events)[:1]
        ]

    whole = read([])
    assert sorted(whole) == sorted(read([7, 8, 9]))
    assert sorted(whole) == [
        (b"one", [MISSED], True),
        (b"one", [MISSED], True),
        (b"onetwothreefour", ["end of capture"], True),
        (b"two", ["end of capture"], False),
    ]


def test_of_too_many_connections_those_that_were_silent_for_longest_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reassembly, "PARTS", 1)
    monkeypatch.setattr(reassembly, "MOST_OPEN", 5)
    segments = [Segment(CLIENT, 1000, b"x", key=flow_key(number % 20)) for number in range(40)]
    script = Script([*segments, Segment(CLIENT, 1001, b"y", key=flow_key(19))])
    reassembler = Reassembler(script.same)
    seen: dict[TcpConnection, list[Any]] = {}
    for a in range(len(script.segments)):
        script._collect(reassembler.feed(script.packets.some(slice(a, a + 1))), seen)
        assert len(reassembler._flows) <= 5
        assert len(reassembler._directions) <= 10
    script._collect(reassembler.finish(len(script.memory)), seen)
    found = [script.streams(events)[0] for events in seen.values()]
    assert len(found) == 40, "one that was given up begins again"
    assert sum(CROWDED in ends(side) for side in found) == 35
    assert stream(found[-1]) == b"xy"


def test_late_packets_of_no_connection_leave_nothing() -> None:
    script = Script([Segment(CLIENT, 1000, flags=RST, key=flow_key(number)) for number in range(100)])
    reassembler = Reassembler(script.same)
    assert reassembler.feed(script.packets) == []
    assert not reassembler._flows
    assert not reassembler._directions


@pytest.mark.parametrize("borders", [[], [1], [1, 2]])
def test_the_end_of_the_capture_ends_connections_in_the_order_in_which_they_began(borders: list[int]) -> None:
    other = bytes([10, 0, 0, 3]) + KEY[4:]
    script = Script([Segment(1, 900, flags=RST), Segment(0, 100, b"ab", key=other), Segment(0, 500, b"cd")])
    reassembler = Reassembler(script.same)
    for a, b in pairwise([0, *borders, 3]):
        reassembler.feed(script.packets.some(slice(a, b)))
    assert [connection.key for connection in reassembler.finish(1000)] == [other, KEY]


def test_clocks_that_leap_do_not_make_batches_matter() -> None:
    other = bytes([10, 0, 0, 3]) + KEY[4:]
    segments = [
        Segment(0, 100, b"ab", time=0),
        Segment(0, 102, flags=RST, time=1),
        Segment(0, 500, b"cd", key=other, time=3600 * 1000 * MILLISECOND),
        Segment(0, 102, b"ef", time=2),
    ]
    whole = Script(segments)
    found = sorted(map(str, whole.run()))
    assert found == sorted(map(str, whole.run(range(4))))
    assert len(found) == 3
