"""One direction on its own: what comes out of which segment, and with what facts."""

from __future__ import annotations

import pytest

from kproxy.captures.tcp import direction
from kproxy.captures.tcp.direction import HALF, UNRELATED, WHOLE, Direction, Piece
from kproxy.captures.tcp.recent import REMEMBERED, SLACK
from kproxy.decoders.stream import Copy, End, Event, Gap, Run, Side

MEMORY = bytes(range(256)) * 8


def same(a: int, b: int, length: int) -> bool:
    """Addresses from 1000 on hold what the ones before them hold, but for a changed byte at 1005 and one at 1007."""
    first, second = (changed(address, length) for address in (a, b))
    return first == second


def changed(address: int, length: int) -> bytes:
    data = bytearray(MEMORY[:1000] + MEMORY[:1000])
    data[1005] ^= 0xFF
    data[1007] ^= 0xFF
    return bytes(data[address : address + length])


def begun(next_: int = 0, acked: int = 0) -> Direction:
    side = Direction(Side.CLIENT, next=next_, acked=acked)
    side.begin(100)
    return side


def taken(side: Direction, *pieces: tuple[int, int, int, int], now: int = 0) -> list[Event]:
    """Events of pieces (start, end, address, time), all of them captured whole."""
    out: list[Event] = []
    for start, end, at, time in pieces:
        side.take(Piece(start, end, at, time, end - start), max(now, at), same, out)
    return out


@pytest.mark.parametrize(
    ("next_", "seq", "offset"),
    [
        (0, 100, 0),
        (0, 101, 1),
        (0, 99, -1),
        (0, 100 + HALF - 1, HALF - 1),
        (0, 100 + HALF, -HALF),
        (5 * WHOLE, 100, 5 * WHOLE),
        (5 * WHOLE + 7, 99, 5 * WHOLE - 1),
    ],
)
def test_the_offset_of_a_sequence_number(next_: int, seq: int, offset: int) -> None:
    side = begun(next_)
    assert side.offset(seq % WHOLE) == offset


@pytest.mark.parametrize(
    ("acked", "next_", "ack", "expected"),
    [
        (0, 0, 101, 1),
        (0, 0, 100, 0),
        (5, 0, 103, 5),  # an older one
        (5, 10, 106, 6),
        (5, 10, 105, 5),
        (0, 0, 100 + UNRELATED, UNRELATED),
        (0, 0, 101 + UNRELATED, 0),  # another connection's
        (3, 4, 100 + HALF + 4, 3),
        (WHOLE, WHOLE, 107, WHOLE + 7),
    ],
)
def test_what_is_acknowledged(acked: int, next_: int, ack: int, expected: int) -> None:
    side = begun(next_, acked)
    side.acknowledge(ack % WHOLE)
    assert side.acked == expected


def test_acknowledgements_of_a_side_without_a_beginning_mean_nothing() -> None:
    side = Direction(Side.BROKER)
    side.acknowledge(101)
    assert side.acked == 0


def test_the_first_data_starts_a_side_that_only_acknowledged() -> None:
    side = Direction(Side.BROKER)
    assert side.settle(500) == 0
    assert (side.base, side.soft) == (500, False)
    side = Direction(Side.BROKER)
    side.begin(500, soft=True)
    side.acknowledge(530)
    assert side.settle(520) == 0
    assert (side.base, side.soft, side.acked) == (520, False, 10)
    assert side.settle(530) == 10


def test_what_follows_is_one_run() -> None:
    side = begun()
    (run,) = taken(side, (0, 10, 50, 1), (10, 14, 70, 2), (14, 15, 90, 3))
    assert isinstance(run, Run)
    assert (run.side, run.start, run.ends, run.at, run.times) == (Side.CLIENT, 0, [10, 14, 15], [50, 70, 90], [1, 2, 3])
    assert (run.stored, run.comments, run.released, run.overlaps) == (None, {}, 0, ())
    assert (side.next, side.held, side.pending) == (15, 15, [])


def test_a_run_ends_where_one_piece_does_not_follow_the_other() -> None:
    side = begun()
    out = taken(side, (0, 10, 50, 1))
    side.flush(60, 1, out)
    out += taken(side, (12, 14, 70, 2))
    side.flush(75, 9, out)
    first, gap, second = out
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    assert (first.ends, second.start, second.ends, second.released) == ([10], 12, [14], 75)
    assert gap == Gap(Side.CLIENT, 10, 12, 75, 9)
    assert side.next == 14


def test_what_waits_is_released_by_what_fills_the_hole() -> None:
    side = begun()
    out = taken(side, (20, 30, 50, 1), (10, 20, 70, 2))
    assert out == []
    assert (side.pending_bytes, side.held, side.hole_time) == (20, 20, 1)
    out = taken(side, (0, 10, 90, 5))
    run, late = out
    assert isinstance(run, Run)
    assert isinstance(late, Run)
    assert (run.start, run.ends, run.at, run.released) == (0, [10], [90], 0)
    assert (late.start, late.ends, late.at, late.times, late.released) == (10, [20, 30], [70, 50], [2, 1], 90)
    assert (side.next, side.pending, side.pending_bytes, side.hole_time) == (30, [], 0, 5)


def test_what_was_not_captured_of_a_piece() -> None:
    side = begun()
    out = taken(side, (0, 10, 50, 1), (10, 16, 70, 2))
    side.take(Piece(16, 20, 90, 3, 1, "cut"), 90, same, out)
    side.take(Piece(20, 22, 100, 4, 9), 100, same, out)
    (run,) = out
    assert isinstance(run, Run)
    assert (run.stored, run.comments) == ([10, 6, 1, 2], {16: "cut"})
    # Of what is delivered already, only the rest; of what the capture holds of it, what is left.
    side = begun()
    out = taken(side, (0, 10, 50, 1))
    side.take(Piece(5, 20, 311, 3, 8), 311, same, out)  # of the same bytes
    side.take(Piece(15, 30, 400, 3, 2), 400, same, out)
    run = out[0]
    assert isinstance(run, Run)
    assert (run.ends, run.at, run.stored) == ([10, 20, 30], [50, 316, 402], [10, 3, 0])


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([(10, 20), (10, 20)], [(10, 20)]),
        ([(10, 20), (5, 25)], [(5, 10), (10, 20), (20, 25)]),
        ([(10, 20), (30, 40), (15, 35)], [(10, 20), (20, 30), (30, 40)]),
        ([(10, 20), (30, 40), (8, 45)], [(8, 10), (10, 20), (20, 30), (30, 40), (40, 45)]),
        ([(10, 20), (20, 22), (12, 14)], [(10, 20), (20, 22)]),
        ([(10, 20), (5, 10)], [(5, 10), (10, 20)]),
        ([(10, 20), (5, 12)], [(5, 10), (10, 20)]),
        ([(10, 20), (18, 30)], [(10, 20), (20, 30)]),
    ],
)
def test_pieces_that_wait_do_not_overlap(pieces: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    side = begun()
    assert taken(side, *((start, end, start + 100, 1) for start, end in pieces)) == []
    assert [(one.start, one.end) for one in side.pending] == expected
    assert [one.at for one in side.pending] == [start + 100 for start, _ in expected]
    assert [one.stored for one in side.pending] == [end - start for start, end in expected]
    assert side.pending_bytes == sum(end - start for start, end in expected)


def test_a_copy_of_delivered_bytes_that_differs() -> None:
    side = begun()
    (run, report) = taken(side, (0, 20, 0, 1), (0, 20, 1000, 2), now=7)
    assert isinstance(report, Run)
    assert (report.side, report.start, report.ends, report.times) == (Side.CLIENT, 20, [], [2])
    assert (report.overlaps, report.copies) == ([(5, 8)], [Copy(0, 20, 1000, 2)])
    assert report.released == 1000
    # What comes after the report is a run of its own.
    (after,) = taken(side, (20, 21, 30, 3))
    assert after is not run
    assert isinstance(after, Run)
    assert after.start == 20


@pytest.mark.parametrize(
    ("first", "copy", "overlaps"),
    [
        ((0, 20, 0), (0, 20, 1000, 20), [(5, 8)]),
        ((0, 20, 0), (0, 20, 1000, 6), [(5, 6)]),  # of which six bytes were captured
        ((0, 20, 0), (0, 20, 1000, 5), []),
        ((0, 20, 0), (6, 20, 1006, 14), [(7, 8)]),
        ((0, 20, 0), (8, 20, 1008, 12), []),
        ((0, 6, 0), (0, 20, 1000, 20), [(5, 6)]),
        ((0, 20, 0), (0, 20, 0, 20), []),
    ],
)
def test_which_bytes_differ(
    first: tuple[int, int, int], copy: tuple[int, int, int, int], overlaps: list[tuple[int, int]]
) -> None:
    def found(side: Direction, out: list[Event]) -> list[tuple[int, int]]:
        side.flush(0, 0, out)
        return [overlap for one in out if isinstance(one, Run) for overlap in one.overlaps]

    start, end, at = first
    side = begun()
    out = taken(side, (start, end, at, 1))
    side.take(Piece(copy[0], copy[1], copy[2], 2, copy[3]), 5000, same, out)
    assert found(side, out) == overlaps
    # The same where both wait for a hole before them.
    side = begun()
    side.base = 90
    out = taken(side, (10 + start, 10 + end, at, 1))
    side.take(Piece(10 + copy[0], 10 + copy[1], copy[2], 2, copy[3]), 5000, same, out)
    assert found(side, out) == [(10 + low, 10 + high) for low, high in overlaps]


def test_copies_go_out_with_the_bytes_that_they_are_of(monkeypatch: pytest.MonkeyPatch) -> None:
    side = begun()
    taken(side, (30, 40, 0, 1), (50, 60, 0, 1), (30, 40, 1000, 2), (50, 60, 1000, 3))
    assert side.copies == [Copy(30, 40, 1000, 2), Copy(50, 60, 1000, 3)]
    assert side.overlaps == [(35, 38), (55, 58)]
    out: list[Event] = []
    side.look_for_loss(0, 0, out)
    assert out == []
    side.acknowledge(130)
    side.look_for_loss(70, 4, out)
    gap, run = out
    assert gap == Gap(Side.CLIENT, 0, 30, 70, 4)
    assert isinstance(run, Run)
    assert (list(run.overlaps), list(run.copies)) == ([(35, 38)], [Copy(30, 40, 1000, 2)])
    assert (side.overlaps, side.copies) == ([(55, 58)], [Copy(50, 60, 1000, 3)])
    monkeypatch.setattr(direction, "MOST_COPIES", 1)
    taken(side, (70, 80, 0, 1), (70, 80, 1000, 2))
    assert len(side.copies) == 1
    assert side.overlaps == [(55, 58), (75, 78)]


def test_a_keep_alive_is_compared_with_nothing() -> None:
    side = begun()
    taken(side, (0, 6, 0, 1))
    assert taken(side, (5, 6, 1005, 2)) == []
    (report,) = taken(side, (4, 6, 1004, 2))
    assert isinstance(report, Run)
    assert report.overlaps == [(5, 6)]
    taken(side, (6, 20, 6, 1))
    (report,) = taken(side, (5, 6, 1005, 2))  # not the last byte
    assert isinstance(report, Run)
    assert report.overlaps == [(5, 6)]


def test_only_the_last_segments_are_compared_with() -> None:
    side = begun()
    taken(side, (0, 6, 0, 1))
    taken(side, *((number, number + 1, 6, 1) for number in range(6, 6 + REMEMBERED - 1)))
    assert len(taken(side, (0, 6, 1000, 2))) == 1
    taken(side, (6 + REMEMBERED - 1, 6 + REMEMBERED, 6, 1))
    assert taken(side, (0, 6, 1000, 2)) == []
    taken(side, *((number, number + 1, 6, 1) for number in range(side.next, side.next + 3 * REMEMBERED)))
    assert REMEMBERED <= len(side.recent) <= REMEMBERED + SLACK
    side.recent.keep(0)
    assert len(side.recent) == 0


@pytest.mark.parametrize(
    ("name", "value", "lost"),
    [("MOST_BYTES", 10, False), ("MOST_BYTES", 9, True), ("MOST_SEGMENTS", 1, False), ("MOST_SEGMENTS", 0, True),
     ("OLDEST", 8, True), ("OLDEST", 9, False)],
)  # fmt: skip
def test_when_a_hole_is_given_up(monkeypatch: pytest.MonkeyPatch, name: str, value: int, lost: bool) -> None:
    monkeypatch.setattr(direction, name, value)
    side = begun()
    taken(side, (5, 15, 50, 1))
    out: list[Event] = []
    side.look_for_loss(60, 9, out)
    assert [type(one) for one in out] == ([Gap, Run] if lost else [])


def test_a_hole_that_was_acknowledged_is_given_up() -> None:
    side = begun()
    taken(side, (5, 15, 50, 1))
    out: list[Event] = []
    side.acknowledge(104)
    side.look_for_loss(60, 2, out)
    assert out == []
    side.acknowledge(105)
    side.look_for_loss(60, 2, out)
    assert out[0] == Gap(Side.CLIENT, 0, 5, 60, 2)


@pytest.mark.parametrize(("acked", "end"), [(10, None), (11, None), (12, 12)])
def test_what_was_acknowledged_and_never_came(acked: int, end: int | None) -> None:
    """One byte more may be a FIN's."""
    side = begun()
    out = taken(side, (0, 10, 50, 1))
    side.acknowledge(100 + acked)
    side.flush(60, 7, out)
    assert out[1:] == ([] if end is None else [Gap(Side.CLIENT, 10, end, 60, 7)])
    assert side.next == (end or 10)


def test_a_direction_ends_when_all_before_its_fin_is_there() -> None:
    side = begun()
    out = taken(side, (0, 10, 50, 1))
    side.finish(60, 2, 2, out)
    side.fin = 12
    side.finish(60, 2, 2, out)
    assert len(out) == 1
    taken(side, (10, 12, 70, 3))
    side.finish(80, 4, 5, out)
    side.finish(90, 5, 6, out)
    assert out[1:] == [End(Side.CLIENT, 80, 4, "FIN", last_time=5)]
