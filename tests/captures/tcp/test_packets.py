"""Columns of packets: cut, joined, and whose they are."""

from __future__ import annotations

import numpy as np
import pytest

from kproxy.captures.tcp.packets import (
    ACK,
    COLUMNS,
    FIN,
    RST,
    SYN,
    Packets,
    endpoints,
    joined,
    nothing,
    numbered,
    ports,
    together,
    turned,
)
from kproxy.captures.tcp.packets import where as positions

A, B = b"\1\1\1\1\2\2\2\2\0\1\0\2", b"\2\2\2\2\1\1\1\1\0\2\0\1"


def batch(keys: list[bytes], first: int, comments: dict[int, str] | None = None) -> Packets:
    row = np.arange(len(keys), dtype=np.int64) + first
    time, seq, ack, flags, at, length, stored = (row + 100 * column for column in range(len(COLUMNS)))
    return Packets(*numbered(keys), time, seq, ack, flags, at, length, stored, comments or {})


def test_directions_are_numbered_as_they_come() -> None:
    keys, numbers = numbered([B, A, B])
    assert (keys, numbers.tolist()) == ([B, A], [0, 1, 0])
    assert batch([B, A, B], 0).keys == [B, A, B]


def test_the_first_segment_of_each_direction() -> None:
    packets = batch([B, A, B, A], 0)
    assert packets.first == [0, 1]
    assert packets.some(slice(2, 4)).first == [0, 1]
    assert packets.some(np.array([1, 3])).first == [2, 0]


def test_some() -> None:
    some = batch([A, B, A, B], 7, {1: "one", 3: "three"}).some(np.array([0, 3]))
    assert (some.keys, some.comments, len(some)) == ([A, B], {1: "three"}, 2)
    assert [getattr(some, name).tolist() for name in COLUMNS] == [[7 + 100 * n, 10 + 100 * n] for n in range(7)]
    assert batch([A, B, A], 0, {2: "x"}).some(slice(1, 3)).comments == {1: "x"}


def test_joined() -> None:
    whole = joined([batch([A], 0, {0: "a"}), nothing(), batch([B, A], 10, {1: "b"}), batch([B], 20)])
    assert (whole.directions, whole.keys, whole.comments) == ([A, B], [A, B, A, B], {0: "a", 2: "b"})
    assert [getattr(whole, name).tolist() for name in COLUMNS] == [
        [first + 100 * column for first in (0, 10, 11, 20)] for column in range(7)
    ]


def test_where() -> None:
    assert positions(np.array([True, True])) == slice(None)
    some = positions(np.array([False, True, True]))
    assert isinstance(some, np.ndarray)
    assert some.tolist() == [1, 2]


@pytest.mark.parametrize("count", [3, (1 << 16), (1 << 16) + 1])
def test_equal_numbers_come_together_in_their_order(count: int) -> None:
    high = count - 1
    assert together(np.array([high, 0, high, 1, 0]), count).tolist() == [1, 4, 3, 0, 2]


def test_endpoints() -> None:
    assert endpoints(A) == ("1.1.1.1:1", "2.2.2.2:2")
    six = bytes(15) + b"\1" + bytes(10) + b"\xff\xff\x0a\0\0\1" + b"\x23\x84\1\0"
    assert endpoints(six) == ("[::1]:9092", "10.0.0.1:256")
    assert (turned(A), turned(turned(six))) == (B, six)
    assert endpoints(turned(six)) == ("10.0.0.1:256", "[::1]:9092")
    assert ports(six) == (9092, 256)


def test_flags_are_those_of_rfc_9293() -> None:
    assert (FIN, SYN, RST, ACK) == (0b1, 0b10, 0b100, 0b10000)
