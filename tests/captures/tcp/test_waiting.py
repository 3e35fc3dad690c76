"""Which of the packets that wait comes first, and for how long they wait."""

from __future__ import annotations

import pytest

from kproxy.captures.tcp.direction import Piece
from kproxy.captures.tcp.waiting import (
    LOOKS,
    MOST_OPENINGS,
    NEAR,
    PATIENCE,
    PATIENT_TIME,
    Arrival,
    Each,
    Waiting,
    distance,
    overdue,
)
from tests.captures.tcp.scripts import ACK, FIN, RST, SYN


def packet(
    way: int, seq: int, ack: int, flags: int = ACK, *, time: int = 0, which: int = 0, clock: int = 0, now: int = 0
) -> Arrival:
    return Arrival(way, seq, ack, flags, Piece(0, 10, 50, time, 4), clock, which, now)


def order(*packets: Arrival, later: tuple[int, ...] = ()) -> list[int]:
    """Which packets come one after the other; those whose numbers are `later` belong to a later connection."""
    waiting = Waiting()
    for number, one in enumerate(packets):
        one.which = number
        waiting.push(one, later=number in later)
    assert len(waiting) == len(packets)
    assert waiting.first.which == min(range(len(packets)), key=lambda number: waiting.heap[0][-1].which != number)
    return [waiting.pop().which for _ in packets]


def test_cause_comes_before_effect() -> None:
    asked, answered, asked_again = packet(0, 100, 500), packet(1, 500, 120), packet(0, 120, 540)
    assert order(asked_again, answered, asked) == [2, 1, 0]
    assert order(answered, asked_again, asked) == [2, 0, 1]


def test_sequence_numbers_wrap() -> None:
    assert order(packet(0, 5, 500), packet(0, 2**32 - 5, 500)) == [1, 0]


def test_only_with_the_flag_an_acknowledgement_counts() -> None:
    assert order(packet(0, 100, 500), packet(0, 110, 400, FIN), packet(0, 120, 520)) == [0, 1, 2]
    assert order(packet(0, 100, 500), packet(0, 110, 400), packet(0, 120, 520)) == [1, 0, 2]


def test_equals_are_in_the_order_of_their_times_then_as_they_came() -> None:
    assert order(packet(0, 100, 5, time=2), packet(0, 100, 5, time=1), packet(0, 100, 5, time=2)) == [1, 0, 2]


def test_openings_come_first_and_resets_last() -> None:
    assert order(packet(0, 100, 0, RST), packet(0, 900, 500), packet(0, 99, 0, SYN)) == [2, 1, 0]
    # What was sent after a reset comes after it.
    assert order(packet(0, 100, 0, RST, time=5), packet(0, 90, 0, time=6), packet(0, 95, 0, time=5)) == [2, 0, 1]


def test_packets_of_a_later_connection_come_after_all_others() -> None:
    assert order(packet(0, 90, 0), packet(0, 100, 0, RST), packet(0, 70, 0, SYN), later=(0, 2)) == [1, 2, 0]


def test_a_later_syn_says_where_its_direction_begins() -> None:
    waiting = Waiting()
    waiting.push(packet(1, 2**32 - 1, 40, SYN | ACK), later=True)
    waiting.push(packet(1, 10, 0, SYN | ACK), later=True)  # says nothing of the other direction
    waiting.push(packet(0, 70, 0, SYN), later=False)
    waiting.push(packet(0, 70, 0, ACK), later=True)
    assert waiting.openings == {(0, 40): 0, (1, 11): None}
    for _ in range(4):
        waiting.pop()
    waiting.push(packet(0, 70, 0, SYN), later=True)
    assert waiting.openings == {(0, 71): None}
    assert (waiting.reset, list(waiting.reference)) == (None, [None, None])


def test_only_so_many_later_connections_are_compared() -> None:
    waiting = Waiting()
    for number in range(20):
        waiting.push(packet(0, 100 * number, 0, SYN, which=number), later=True)
    assert len(waiting.openings) == MOST_OPENINGS


@pytest.mark.parametrize(
    ("found", "expected", "later"),
    [
        ((1000, 5000), (900, 4990), False),
        ((1000, 5000), (900 + NEAR + 101, 5000), True),
        ((1000, 5000), (1000 - NEAR - 1, 5000), True),
        # Both directions must be beyond the beginning of the later connection, and near it.
        ((2**20 + 5, 2**21 + 5), (3, 3), True),
        ((2**20 - 5, 2**21 + 5), (3, 3), False),
        ((2**20 + 5, 2**21 - 5), (3, 3), False),
        ((2**20 + 5, 2**21 + 5), (2**20 + 6, 2**21 + 6), False),
        ((2**20 + 5, None), (3, 3), True),
        ((None, 2**21 + 5), (3, None), False),
        ((None, None), (3, 3), False),
    ],
)
def test_a_packet_belongs_to_the_connection_whose_numbers_are_closer(found: Each, expected: Each, later: bool) -> None:
    waiting = Waiting()
    waiting.push(packet(0, 2**20 - 1, 0, SYN), later=True)
    waiting.push(packet(1, 2**21 - 1, 2**20, SYN | ACK), later=True)
    assert waiting.belongs_later(found, expected, NEAR) is later


@pytest.mark.parametrize(
    ("packets", "first", "expected"),
    [
        ([], 100, True),
        ([packet(0, 110, 500), packet(0, 100, 500)], 100, True),
        ([packet(0, 110, 500), packet(0, 100, 500)], 101, False),
        ([packet(0, 100, 500)], 99, True),
        ([packet(0, 2**24, 500)], 0, True),
        ([packet(0, 2**24 + 1, 500)], 0, False),
        ([packet(1, 500, 100)], 101, False),
        ([packet(1, 500, 0, 0)], 101, True),
        ([packet(0, 99, 500, SYN | ACK)], 100, True),
        # A connection that was closed did not begin afterwards, unless its whole capture is out of order.
        ([packet(0, 100 + 2**16, 500, FIN | ACK)], 99, False),
        ([packet(0, 100 + 2**16, 500, FIN | ACK)], 100, True),
        ([packet(0, 100 + 2**16, 500, FIN | ACK, time=1)], 99, True),
        ([packet(0, 100 + 2**16, 500), packet(1, 500, 100 + 2**16, RST | ACK)], 99, False),
        ([packet(0, 100, 500, FIN | ACK)], 100, True),
        ([packet(0, 100, 500), packet(0, 0, 0, RST | ACK)], 100, True),
    ],
)
def test_whether_the_packets_that_wait_may_follow_a_syn(packets: list[Arrival], first: int, expected: bool) -> None:
    waiting = Waiting()
    for one in packets:
        waiting.push(one, later=False)
    assert waiting.may_follow(0, first, 0) == expected
    waiting.forget()
    assert waiting.may_follow(0, first, 0)
    waiting.push(packet(0, 200, 500, FIN), later=True)
    assert waiting.may_follow(0, 199, 0), "packets of a later connection do not count"


def test_classifying_again() -> None:
    waiting = Waiting()
    for number in range(3):
        waiting.push(packet(0, 100 + number, 0, SYN if number == 1 else FIN, which=number), later=False)
    assert waiting.looks == 3 * LOOKS
    waiting.again(lambda one: one.which < 2)
    assert waiting.openings == {(0, 102): None}
    assert waiting.looks == 3 * LOOKS - 3
    assert [waiting.pop().which for _ in range(3)] == [2, 1, 0]


def test_packets_are_classified_again_only_so_often() -> None:
    waiting = Waiting()
    waiting.push(packet(0, 1, 0), later=False)
    waiting.push(packet(0, 2, 0), later=False)
    looked: list[int] = []

    def look(one: Arrival) -> bool:
        looked.append(one.which)
        return False

    waiting.looks = 5
    for _ in range(4):
        waiting.again(look)
    assert (len(looked), waiting.looks) == (4, 1)
    waiting.looks = 2
    waiting.again(look)
    assert (len(looked), waiting.looks) == (6, 0)


@pytest.mark.parametrize(
    ("start", "end", "far"),
    [(5, 7, 2), (7, 5, -2), (2**32 - 1, 1, 2), (1, 2**32 - 1, -2), (0, 2**31 - 1, 2**31 - 1), (0, 2**31, -(2**31))],
)
def test_distances(start: int, end: int, far: int) -> None:
    assert distance(start, end) == far


@pytest.mark.parametrize(
    ("packets", "waited", "longest", "expected"),
    [
        (PATIENCE + 1, PATIENT_TIME, PATIENT_TIME + 1, True),
        (PATIENCE, PATIENT_TIME, PATIENT_TIME + 1, False),
        (PATIENCE + 1, PATIENT_TIME - 1, PATIENT_TIME + 1, False),
        (0, 7, 7, True),
        (0, 6, 7, False),
    ],
)
def test_how_long_a_packet_waits(packets: int, waited: int, longest: int, expected: bool) -> None:
    assert (PATIENCE, PATIENT_TIME) == (128, 50_000_000)
    then, now = packet(0, 0, 0, which=9, clock=3), packet(0, 0, 0, which=9 + packets, clock=3 + waited)
    assert overdue(then, now, longest) == expected


def test_what_a_packet_says_of_itself() -> None:
    assert [packet(0, 0, 0, flags).asks_to_open for flags in (SYN, SYN | ACK, SYN | RST, SYN | FIN, ACK)] == [
        True, False, False, True, False,
    ]  # fmt: skip
    assert [packet(0, 0, 0, flags).synchronises for flags in (SYN, SYN | ACK, SYN | RST, ACK)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert [packet(0, 0, 0, flags).resets for flags in (RST, RST | ACK, ACK)] == [True, True, False]
    assert (packet(0, 0, 0).weight, packet(0, 0, 0).end, packet(0, 0, 0, now=60).end) == (644, 53, 60)
