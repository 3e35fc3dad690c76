"""Reassembly in sequence space: what damage costs, and that batches do not matter."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.tcp import reassembly, shares
from kproxy.captures.tcp.connections import TcpConnection
from kproxy.captures.tcp.reassembly import CROWDED, MISSED, MOST_WAITING, ROOM, Reassembler
from kproxy.captures.tcp.shares import part_of
from kproxy.captures.tcp.waiting import LONGEST_TIME, OVERHEAD
from kproxy.decoders.stream import End, Gap, Run
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
OTHER = bytes([10, 0, 0, 1, 10, 0, 0, 2]) + (51235).to_bytes(2, "big") + (9092).to_bytes(2, "big")
"""The key of another connection."""


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


@pytest.mark.parametrize(
    ("seq", "flags", "over"),
    [
        (1004, RST | ACK, True), (1005, RST | ACK, True), (1000, RST | ACK, False), (1010, RST | ACK, False),
        (1004, RST, False),
    ],
)  # fmt: skip
def test_an_rst_after_disorder_ends_at_once_if_nothing_is_missing(seq: int, flags: int, over: bool) -> None:
    """No packet may follow it, for which one without a reliable sequence number, or acknowledgement, would wait."""
    script = Script(
        [
            *opening(),
            Segment(BROKER, 9001, b"answer", ack=1004),
            Segment(CLIENT, 1001, b"abc", ack=9001),
            Segment(CLIENT, seq, flags=flags, ack=9007),
        ]
    )
    (connection,) = Reassembler(script.same).feed(script.packets)
    assert connection.over == over


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


def test_the_first_bytes_after_a_lost_syn_ack_are_missed() -> None:
    """The handshake's last packet says where they begin."""
    shaken = [opening()[0], opening()[2]]
    asked = Segment(CLIENT, 1001, b"ask", ack=9001)
    _, broker = one([*shaken, asked, Segment(BROKER, 9005, b"next", ack=1004)])
    assert gaps(broker) == [(0, 4)]
    _, broker = one([*shaken, asked, Segment(BROKER, 9001, ack=1004), Segment(BROKER, 9005, b"next", ack=1004)])
    assert gaps(broker) == [(0, 4)]
    _, broker = one([*shaken, asked, Segment(BROKER, 9001, b"told", ack=1004)])
    assert (gaps(broker), stream(broker)) == ([], b"told")


def test_missing_bytes_at_the_end_of_the_capture_have_the_time_of_their_connection() -> None:
    lost = Segment(BROKER, 9001, b"told", ack=1041, time=2 * SECOND)
    other = Segment(CLIENT, 1, b"x", time=9 * SECOND, key=OTHER)
    script = Script([*opening(), lost, Segment(BROKER, 9005, ack=1041, time=3 * SECOND), other])
    _, connections, _ = read(script, [])
    (found,) = (event for event in script.run()[0] if isinstance(event, Gap))
    assert (len(connections), found.end, found.time) == (2, 40, 3 * SECOND)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_who_closed_first_does_not_depend_on_the_order_of_the_capture(order: tuple[int, ...]) -> None:
    ending = [
        Segment(CLIENT, 1041, flags=FIN | ACK, ack=9041, time=SECOND),
        Segment(BROKER, 9041, flags=FIN | ACK, ack=1042, time=2 * SECOND),
        Segment(CLIENT, 1042, ack=9042, time=3 * SECOND),
    ]
    script = Script([*conversation(10), *(ending[place] for place in order)])
    for borders in ([], list(range(len(script.segments)))):
        _, (connection,), _ = read(script, borders)
        assert (connection.closer, connection.left) == (CLIENT, SECOND)


def test_a_lost_fin_came_before_the_fin_that_acknowledges_it() -> None:
    _, (connection,), _ = read(Script([*conversation(10), Segment(BROKER, 9041, flags=FIN | ACK, ack=1042)]), [])
    assert connection.closer == CLIENT
    _, (connection,), _ = read(Script([*conversation(10), Segment(BROKER, 9041, flags=FIN | ACK, ack=1041)]), [])
    assert connection.closer == BROKER


def test_a_displaced_copy_is_no_timeout() -> None:
    copied = [Segment(CLIENT, 1001 + 4 * turn, b"ask%d" % turn, ack=9041, time=0) for turn in range(10)]
    other = Segment(CLIENT, 1, b"x", time=SECOND, key=OTHER)
    _, connections, _ = read(Script([*conversation(10), other, *copied]), [])
    disorder = next(one for one in connections if one.opened).disorder
    assert (disorder.repeated, disorder.retransmitted) == (10, 0)
    late = [replace(one, time=SECOND) for one in copied[:1]]
    _, connections, _ = read(Script([*conversation(10), other, *late]), [])
    assert next(one for one in connections if one.opened).disorder.retransmitted == 1


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


@settings(max_examples=37, deadline=None)
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
    monkeypatch.setattr(shares, "PARTS", 1)
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


def read(script: Script, borders: list[int]) -> tuple[Reassembler, list[TcpConnection], list[list[list[Any]]]]:
    """The reassembler before the capture's end, its connections, and the streams of each."""
    reassembler = Reassembler(script.same)
    seen: dict[TcpConnection, list[Any]] = {}
    cuts = sorted({0, len(script.segments), *borders})
    for a, b in pairwise(cuts):
        script._collect(reassembler.feed(script.packets.some(slice(a, b))), seen)
    script._collect(reassembler.finish(len(script.memory)), seen)
    return reassembler, list(seen), [script.streams(events) for events in seen.values()]


def conversation(turns: int, client: int = 1000, broker: int = 9000) -> list[Segment]:
    """Each side acknowledges what the other has said: "ask0" of 4 bytes, "told" of 4."""
    segments = opening(client, broker)
    for turn in range(turns):
        at = 1 + 4 * turn
        segments.append(Segment(CLIENT, client + at, b"ask%d" % (turn % 10), ack=broker + at))
        segments.append(Segment(BROKER, broker + at, b"told", ack=client + at + 4))
    return segments


@pytest.mark.parametrize("start", [1000, 2**32 - 50, 2**31 - 50, 2**32 - 1])
def test_a_long_conversation_is_few_runs(start: int) -> None:
    """The first packets of a flow are taken one by one, all others at once."""
    segments = conversation(40, start, start + 77)
    script = Script(segments)
    (events,) = script.run()
    runs = [event for event in events if not isinstance(event, End)]
    assert [(run.side, run.start, run.ends[-1], len(run.ends), run.times[-1]) for run in runs] == [
        (CLIENT, 0, 44, 11, 23 * MILLISECOND),
        (BROKER, 0, 40, 10, 22 * MILLISECOND),
        (CLIENT, 44, 160, 29, 81 * MILLISECOND),
        (BROKER, 40, 160, 30, 82 * MILLISECOND),
    ]
    assert {run.stored for run in runs} == {None}, "all of them were captured whole"
    assert events[-1].unheard is None
    client, broker = one(segments)
    assert stream(client) == b"".join(b"ask%d" % (turn % 10) for turn in range(40))
    assert stream(broker) == b"told" * 40


@pytest.mark.parametrize("lost", [3, 4, 20, 21, 50, 51, 81, 82])
def test_a_packet_that_is_lost_in_a_long_conversation(lost: int) -> None:
    """The other side has acknowledged it: it is lost where the next packet of its side stands."""
    segments = conversation(40)
    gone = segments.pop(lost)
    client, broker = one(segments)
    sides = {CLIENT: client, BROKER: broker}
    first = {CLIENT: 1001, BROKER: 9001}[gone.way]
    at = gone.seq - first
    last = lost == 82  # nobody acknowledged it
    assert gaps(sides[gone.way]) == ([] if last else [(at, at + 4)])
    assert gaps(sides[1 - gone.way]) == []
    assert len(stream(sides[gone.way])) == (156 if last else 160)


def test_packets_handled_late_come_before_any_packet_captured_next() -> None:
    """Whatever batch or split that one is in; and before what the end of the capture completes."""
    segments = conversation(60)
    segments.insert(100, segments.pop(5))
    script = Script(segments)
    (events,) = script.run()
    released = sorted({event.released for event in events if isinstance(event, Run)} - {0})
    late = int(script.packets.at[100] + script.packets.length[100]) - 1
    assert len(released) > ROOM // 2
    assert late < released[0] < released[-1] <= late + ROOM
    assert released[-1] < events[-1].at


def test_numbers_of_a_connection() -> None:
    segments = [
        *conversation(20),
        Segment(CLIENT, 1001, b"ask0", ack=9001),  # again
        Segment(CLIENT, 1080, b"9", ack=9081),  # a keep-alive
        Segment(CLIENT, 1085, b"late", ack=9081),
        Segment(CLIENT, 1081, b"hole", ack=9081),
        Segment(CLIENT, 1089, flags=FIN | ACK, ack=9081),
        Segment(BROKER, 9081, flags=FIN | ACK, ack=1090),
        Segment(CLIENT, 1090, b"stray", ack=9082),
    ]
    script = Script(segments)
    for borders in ([], list(range(60)), [25]):
        reassembler, (connection,), ((client, broker),) = read(script, borders)
        assert (connection.opened, connection.first_time, connection.over) == (True, 0, True)
        assert connection.endpoints == ("10.0.0.1:51234", "10.0.0.2:9092")
        assert connection.first_at == script.packets.at[0]
        assert (connection.disorder.repeated, connection.disorder.filled) == (1, 1)
        assert (reassembler.repeated, reassembler.stray) == (1, 5)
        assert stream(client)[80:] == b"holelate"
        assert (ends(client), ends(broker)) == (["FIN", "FIN"], ["FIN", "FIN"])


@pytest.mark.parametrize(
    ("first", "opened", "client_first"),
    [
        # The client's SYN was not captured, or comes behind its answer.
        (opening()[1:], True, 0),
        ([opening()[1], opening()[0], opening()[2]], True, 0),
        (opening()[2:], False, 0),
        # Both ends open at once (RFC 9293, 3.5).
        ([Segment(CLIENT, 1000, flags=SYN), Segment(BROKER, 9000, flags=SYN)], True, 0),
        ([Segment(BROKER, 9000, flags=SYN), Segment(CLIENT, 1000, flags=SYN)], True, 1),
    ],
)
def test_how_connections_begin(first: list[Segment], opened: bool, client_first: int) -> None:
    segments = [*first, *conversation(20)[3:]]
    script = Script(segments)
    for borders in ([], list(range(50)), [1], [2], [3]):
        _, (connection,), (sides,) = read(script, borders)
        assert connection.opened is opened
        assert [stream(sides[client_first])[:8], stream(sides[1 - client_first])[:8]] == [b"ask0ask1", b"toldtold"]
        assert gaps(sides[0]) == gaps(sides[1]) == []


def test_ports_that_are_quiet_for_long_are_another_connection_s() -> None:
    ended = [*opening(), Segment(CLIENT, 1001, b"one"), Segment(CLIENT, 1004, flags=RST, time=SECOND)]
    for pause, found in ((120 * SECOND, [b"one"]), (120 * SECOND + 1, [b"one", b"two"])):
        late = Segment(CLIENT, 1004, b"two", time=SECOND + pause)
        script = Script([*ended, late])
        for borders in ([], [4]):
            reassembler, connections, sides = read(script, borders)
            assert [stream(client) for client, _ in sides] == found
            assert reassembler.stray == (3 if len(found) == 1 else 0)
            assert [one.opened for one in connections] == [True, False][: len(found)]


@pytest.mark.parametrize(("pause", "nothing_left"), [(240 * SECOND, False), (240 * SECOND + 1, True)])
def test_whether_anything_is_left_that_packets_may_belong_to(pause: int, nothing_left: bool) -> None:
    script = Script([*opening(), Segment(CLIENT, 1001, flags=RST, time=SECOND)])
    reassembler = Reassembler(script.same)
    assert reassembler.forgets_all(0)
    reassembler.feed(script.packets.some(slice(0, 3)))
    assert not reassembler.forgets_all(SECOND + pause)
    reassembler.feed(script.packets.some(slice(3, 4)))
    assert reassembler.forgets_all(SECOND + pause) == nothing_left


def test_connections_of_other_parts_are_forgotten() -> None:
    keys = [flow_key(number) for number in range(100)]
    script = Script([Segment(CLIENT, 1000, b"x", key=key) for key in keys])
    reassembler = Reassembler(script.same)
    reassembler.feed(script.packets)
    reassembler.keep([0, 5])
    kept = [key for key in keys if part_of(key) in {0, 5}]
    assert 0 < len(kept) < 100
    assert {connection.key for connection in reassembler.finish(10_000)} == set(kept)
    assert {part_of(key) for key in keys} == set(range(12))


@pytest.mark.parametrize("beyond", [1 << 28, (1 << 28) + 1])
def test_numbers_far_from_those_expected_are_another_connection_s(beyond: int) -> None:
    far = Segment(CLIENT, 1004 + beyond, b"xyz")
    script = Script([*opening(), Segment(CLIENT, 1001, b"abc"), far])
    _, connections, sides = read(script, [4])
    assert [len(connections), ends(sides[0][0])[0]] == (
        [1, "end of capture"] if beyond == 1 << 28 else [2, "sequence numbers of another connection"]
    )


def test_comments_and_cut_packets_of_a_long_conversation() -> None:
    segments = conversation(20)
    segments[9].comment = "ten"
    segments[20].comment = "twenty-one"
    segments[21].stored = 2
    client, broker = one(segments)
    assert [(item[0], item[5]) for item in client if item[0] != "end" and item[5]] == [(12, "ten")]
    assert [(item[0], item[5]) for item in broker if item[0] != "end" and item[5]] == [(32, "twenty-one")]
    assert [item[:3] for item in client if item[0] == 36] == [(36, 40, b"as")]


@pytest.mark.parametrize(("pause", "left"), [(240 * SECOND, 2), (240 * SECOND + 1, 1)])
def test_connections_that_ended_are_forgotten_in_the_end(pause: int, left: int) -> None:
    ended = [*opening(), Segment(CLIENT, 1001, flags=RST, time=SECOND)]
    script = Script([*ended, Segment(CLIENT, 1, b"x", time=SECOND + pause, key=flow_key(1))])
    reassembler = Reassembler(script.same)
    reassembler.feed(script.packets.some(slice(0, 4)))
    reassembler.feed(script.packets.some(slice(4, 5)))
    assert len(reassembler._flows) == left
    assert len(reassembler._directions) == 2 * left
    assert sum(reassembler._held) == left


def test_of_connections_that_ended_only_the_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassembly, "MOST_OVER", 3)
    monkeypatch.setattr(reassembly, "PARTS", 1)
    monkeypatch.setattr(shares, "PARTS", 1)
    keys = [flow_key(number) for number in range(10)]
    segments = [replace(one, key=key) for key in keys for one in (*opening(), Segment(CLIENT, 1001, flags=RST))]
    late = [Segment(CLIENT, 1001, b"late", ack=9001, key=key) for key in keys]
    script = Script([*segments, *late])
    reassembler = Reassembler(script.same)
    for at in range(40):
        reassembler.feed(script.packets.some(slice(at, at + 1)))
        assert len(reassembler._flows) <= 4
    assert [flow.key for flow in reassembler._flows.values()] == keys[-3:]
    reassembler.feed(script.packets.some(slice(40, 50)))
    assert reassembler.stray == 3 * len(b"late")
    assert [connection.key for connection in reassembler.finish(10_000)] == keys[:7]


def test_a_connection_that_begins_again_is_not_forgotten_with_the_one_before() -> None:
    first = [*opening(), Segment(CLIENT, 1001, flags=RST, time=SECOND)]
    second = [Segment(CLIENT, 77_000, flags=SYN, time=2 * SECOND), Segment(CLIENT, 77_001, b"x", time=2 * SECOND)]
    much_later = Segment(CLIENT, 1, b"y", time=300 * SECOND, key=flow_key(1))
    script = Script([*first, *second, much_later, Segment(CLIENT, 77_002, b"z", time=300 * SECOND)])
    for borders in ([4, 6, 7], [4, 5, 6, 7], [6, 7], [7]):
        reassembler, _, sides = read(script, borders)
        assert [stream(client) for client, _ in sides] == [b"", b"xz", b"y"]
        assert reassembler.stray == 0


@pytest.mark.parametrize(("silence", "ended"), [(30 * SECOND, False), (30 * SECOND + 1, True)])
def test_how_long_a_connection_may_be_silent_after_missing_packets(silence: int, ended: bool) -> None:
    first = [replace(one, key=key, time=SECOND) for key in (KEY, flow_key(1)) for one in opening()]
    there = Segment(CLIENT, 1001, b"y", time=2 * SECOND, key=flow_key(1))
    later = Segment(CLIENT, 1002, b"y", time=2 * SECOND + silence, key=flow_key(1))
    script = Script([*first, there, later])
    reassembler = Reassembler(script.same)
    reassembler.feed(script.packets.some(slice(0, 6)))
    reassembler.missed()
    reassembler.feed(script.packets.some(slice(6, 7)))
    assert len(reassembler._flows) == 2
    reassembler.feed(script.packets.some(slice(7, 8)))
    assert len(reassembler._flows) == (1 if ended else 2)


@pytest.mark.parametrize("swapped", [None, 4, 9, 33, 51])
def test_a_long_conversation_of_segments_of_every_size(swapped: int | None) -> None:
    """One may come before the one that it follows."""
    sizes = [1 + number * 7 % 13 for number in range(40)]
    said = [bytes([65 + number % 26]) * size for number, size in enumerate(sizes)]
    client, broker = 1001, 9001
    segments = opening()
    for number, data in enumerate(said):
        segments.append(Segment(CLIENT, client, data, ack=broker))
        client += len(data)
        if number % 3 == 0:
            segments.append(Segment(BROKER, broker, data * 2, ack=client))
            broker += 2 * len(data)
    if swapped is not None:
        segments[swapped : swapped + 2] = segments[swapped + 1], segments[swapped]
    asked, answered = one(segments)
    assert stream(asked) == b"".join(said)
    assert stream(answered) == b"".join(data * 2 for data in said[::3])
    assert gaps(asked) == gaps(answered) == overlaps(asked) == overlaps(answered) == []


def test_a_syn_that_comes_before_the_last_data_of_the_connection_before_waits() -> None:
    again = opening(500_000, 7_000_000)
    late = Segment(CLIENT, 1001, b"late", ack=9001)
    script = Script([*opening(), again[0], late, *again[1:], Segment(CLIENT, 500_001, b"new", ack=7_000_001)])
    for borders in ([], list(range(9))):
        reassembler, connections, sides = read(script, borders)
        assert [stream(client) for client, _ in sides] == [b"late", b"new"]
        assert [connection.opened for connection in connections] == [True, True]
        assert reassembler.stray == 0


@pytest.mark.parametrize("broker", [1, 1 << 23, 1 << 26, 1 << 30, -(1 << 26), -(1 << 30)])
@pytest.mark.parametrize("client", [1, 1 << 23, 1 << 26, 1 << 30, -(1 << 23), -(1 << 26), -(1 << 30)])
@pytest.mark.parametrize("closing", ["FIN", "RST"])
def test_a_connection_follows_one_whose_beginning_is_not_captured_on_the_same_ports(
    closing: str, client: int, broker: int
) -> None:
    """Packets wait if no SYN was captured, so those of both connections wait together; initial numbers are random."""
    before = conversation(10)[3:]
    if closing == "FIN":
        before += [Segment(CLIENT, 1041, flags=FIN | ACK, ack=9041), Segment(BROKER, 9041, flags=FIN | ACK, ack=1042)]
    else:
        before += [Segment(CLIENT, 1041, flags=RST | ACK, ack=9041)]
    script = Script([*before, *conversation(11, (1041 + client) % 2**32, (9041 + broker) % 2**32)])
    for borders in ([], list(range(len(script.segments)))):
        reassembler, connections, sides = read(script, borders)
        assert [[len(stream(side)) for side in both] for both in sides] == [[40, 40], [44, 44]]
        assert [connection.opened for connection in connections] == [False, True]
        assert reassembler.stray == 0


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("sent", [None, 1000])
@pytest.mark.parametrize("start", [1000, 1 << 27, 1 << 30, 1 << 31, 3 << 30, (1 << 32) - (1 << 27)])
def test_acknowledgements_that_programs_leave_out_say_nothing(start: int, sent: int | None, *, opened: bool) -> None:
    """They are 0, or with `sent` that of the SYN-ACK is the number of the SYN itself."""
    segments = [replace(one, ack=0) for one in conversation(40, start, (start + 7777) % 2**32)]
    if sent is not None:
        segments[1].ack = start
    client, broker = one(segments if opened else segments[3:])
    assert [len(stream(side)) for side in (client, broker)] == [160, 160]
    assert gaps(client) == gaps(broker) == []
    released = [item[3] for side in (client, broker) for item in side if isinstance(item[0], int)]
    assert not opened or len(set(released)) == 80, "no packet waits"


@pytest.mark.parametrize("client", [1, 1 << 26, 1 << 30, -(1 << 26), -(1 << 30)])
def test_a_connection_follows_one_of_which_neither_beginning_nor_end_is_captured(client: int) -> None:
    script = Script([*conversation(10)[3:], *conversation(11, (1041 + client) % 2**32, 9041 + (1 << 20))])
    _, connections, sides = read(script, [])
    assert [[len(stream(side)) for side in both] for both in sides] == [[40, 40], [44, 44]]
    assert [connection.opened for connection in connections] == [False, True]


def test_of_a_capture_of_one_side_only_the_first_packets_wait() -> None:
    """They acknowledge what the capture does not hold."""
    asked = [Segment(CLIENT, 1001 + 4 * i, b"ask.", ack=9001 + 50 * i, time=i * MILLISECOND) for i in range(200)]
    script = Script([Segment(CLIENT, 1000, flags=SYN, time=0), *asked])
    reassembler = Reassembler(script.same)
    waiting = []
    for at in range(201):
        reassembler.feed(script.packets.some(slice(at, at + 1)))
        (flow,) = reassembler._flows.values()
        waiting.append(len(flow.waiting))
    assert max(waiting) > 100
    assert waiting[-1] == 0
    (connection,) = reassembler.finish(len(script.memory))
    assert connection.sides[0].next == 800


def test_an_end_names_the_side_of_which_nothing_was_heard() -> None:
    for segments, unheard in (
        ([Segment(CLIENT, 1000, flags=SYN), Segment(CLIENT, 1001, b"x")], BROKER),
        ([Segment(BROKER, 1000, b"x"), Segment(BROKER, 1001, b"y")], BROKER),  # the first that is seen is side 0
        (opening(), None),
    ):
        (events,) = Script(segments).run()
        assert events[-1].unheard == unheard


@pytest.mark.parametrize(("flags", "waits"), [(ACK, 1), (0, 0), (FIN, 0), (FIN | ACK, 1)])
def test_only_what_acknowledges_waits_for_what_it_acknowledges(flags: int, waits: int) -> None:
    ahead = Segment(CLIENT, 1001, b"x", flags, ack=9051)
    script = Script([*opening(), ahead])
    reassembler = Reassembler(script.same)
    reassembler.feed(script.packets)
    (flow,) = reassembler._flows.values()
    assert len(flow.waiting) == waits


@pytest.mark.parametrize(
    ("late", "waits"),
    [
        (Segment(CLIENT, 1001, b"late"), 0),
        (Segment(CLIENT, 500_000_000, b"next"), 1),  # of a connection whose SYN may still come
        (Segment(CLIENT, 500_000_000), 0),
        (Segment(CLIENT, 500_000_000, b"next", flags=RST), 0),
        (Segment(CLIENT, 500_000_000, flags=SYN), 0),
        (Segment(CLIENT, 500_000_000, flags=SYN | ACK), 1),
    ],
)
def test_what_waits_behind_the_end_of_a_connection(late: Segment, waits: int) -> None:
    script = Script([*opening(), Segment(CLIENT, 1001, flags=RST), late])
    reassembler = Reassembler(script.same)
    reassembler.feed(script.packets)
    (flow,) = reassembler._flows.values()
    assert len(flow.waiting) == waits
