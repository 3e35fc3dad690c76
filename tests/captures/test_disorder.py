"""Captures whose packets are out of order, against the reading of the ordered ones."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from tests.captures import files, scoring, traffic
from tests.captures.files import Packet
from tests.captures.spark.test_damaged import assert_exported
from tests.captures.test_damage import CAPTURES, ids

WINDOW = 64


def displaced(packets: list[Packet], window: int, dice: random.Random, *, true: bool = True) -> list[Packet]:
    """Packets, each at most `window` places from its own, with their own times (`true`) or with ordered times."""
    order = sorted(range(len(packets)), key=lambda place: place + dice.uniform(0, window))
    return [(packets[place if true else now][0], packets[place][1]) for now, place in enumerate(order)]


def sent_twice(packets: list[Packet]) -> set[int]:
    """Positions of packets whose data begins where that of another begins: which one comes first is left to chance."""
    begins = [frame[26:42] if traffic.payload(frame) else None for _, frame in packets]
    counts = Counter(begins)
    return {place for place, begin in enumerate(begins) if begin is not None and counts[begin] > 1}


@pytest.mark.parametrize("window", [5, 50, WINDOW])
@pytest.mark.parametrize("path", CAPTURES, ids=ids)
def test_packets_within_the_window_give_the_same_exchanges(path: Path, window: int, tmp_path: Path) -> None:
    packets = traffic.packets(path)
    whole, _ = scoring.reading(packets, tmp_path / "ordered.pcap")
    again = sent_twice(packets)
    for seed in range(3):
        found, health = scoring.reading(displaced(packets, window, random.Random(seed)), tmp_path / "other.pcap")
        assert found.keys() == whole.keys()
        for name, one in whole.items():
            times = not one.packets & again
            assert scoring.said(found[name].line, times=times) == scoring.said(one.line, times=times)
            assert found[name].line["problems"] == one.line["problems"]
        assert (health["gaps"], health["lost"]) == (0, 0)


@pytest.mark.parametrize("path", CAPTURES, ids=ids)
def test_a_disordered_capture_that_begins_within_connections(path: Path, tmp_path: Path) -> None:
    """All exchanges whose bytes are in the capture are found."""
    packets = traffic.packets(path)
    whole, _ = scoring.reading(packets, tmp_path / "whole.pcap")
    for begin in range(1, len(packets), len(packets) // 8):
        other = displaced(packets[begin:], WINDOW, random.Random(begin))
        found = [(*name[:4], one.line) for name, one in scoring.reading(other, tmp_path / "other.pcap")[0].items()]
        for name, one in whole.items():
            if one.whole and min(one.packets) >= begin:
                said = [scoring.said(line, times=False) for *four, line in found if tuple(four) == name[:4]]
                assert scoring.said(one.line, times=False) in said, (begin, name)


@pytest.mark.parametrize("true", [True, False], ids=["true times", "times of arrival"])
def test_every_order_of_a_short_connection(tmp_path: Path, *, true: bool) -> None:
    """The connection is a handshake, a request and a response."""
    packets = traffic.packets(traffic.KAFKA_1_1)
    client = next(frame for _, frame in packets if traffic.payload(frame))[26:38]
    broker = client[4:8] + client[:4] + client[10:] + client[8:10]
    flow = [one for one in packets if one[1][26:38] in {client, broker}]
    short = flow[:3] + [one for one in flow if traffic.payload(one[1])][:2]
    assert [traffic.payload(frame) > 0 for _, frame in short] == [False, False, False, True, True]
    (expected,) = scoring.reading(short, tmp_path / "ordered.pcap")[0].values()
    for order in permutations(range(5)):
        other = [(short[place if true else now][0], short[place][1]) for now, place in enumerate(order)]
        (found,) = scoring.reading(other, tmp_path / "other.pcap")[0].values()
        assert scoring.said(found.line, times=true) == scoring.said(expected.line, times=true), order
        assert found.line["problems"] == [], order


@pytest.mark.parametrize("path", CAPTURES[1:], ids=ids[1:])
def test_splits_of_a_disordered_capture_are_read_as_the_whole(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pcap"
    other.write_bytes(files.pcap(displaced(traffic.packets(path), WINDOW, random.Random(1))))
    assert_exported(other)
