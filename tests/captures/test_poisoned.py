"""What packets with wrong bytes cost that come before the packets with the right ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

from tests.captures import files, scoring, traffic
from tests.captures.files import Packet
from tests.captures.scoring import Name, Read
from tests.captures.spark.test_damaged import assert_exported
from tests.captures.test_damage import CAPTURES, ids
from tests.captures.test_reader import reading
from tests.support.thinned import thinned

Garbage = Callable[[bytes, random.Random], bytes]
GARBAGE: dict[str, Garbage] = {
    "random": lambda sent, dice: dice.randbytes(len(sent)),
    "zeros": lambda sent, _: bytes(len(sent)),
    "text": lambda sent, _: b"A" * len(sent),
    "a length of megabytes": lambda sent, dice: (b"\0\x30" + dice.randbytes(len(sent)))[: len(sent)],
    "one wrong bit": lambda sent, _: bytes([sent[0] ^ 1]) + sent[1:],
    "shuffled": lambda sent, dice: bytes(dice.sample(sent, len(sent))),
}
FOOLED = {"zeros", "shuffled"}
"""Garbage with length fields so small that frames are found in it, so that the starts of real frames are missed."""


@lru_cache(maxsize=3)
def _whole(path: Path) -> tuple[list[Packet], dict[Name, Read]]:
    packets = traffic.packets(path)
    return packets, scoring.read_scored(path, scoring.starts(packets))[0]


def poisoned(packets: list[Packet], garbage: Garbage, dice: random.Random) -> tuple[list[Packet], set[int]]:
    """Packets with a garbage copy before one in twenty of those with data; and the positions of these."""
    found: list[Packet] = []
    places = set()
    for place, (time, frame) in enumerate(packets):
        size = traffic.payload(frame)
        if size and dice.random() < 0.05:
            places.add(place)
            found.append((time, frame[:-size] + garbage(frame[-size:], dice)))
        found.append((time, frame))
    return found, places


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize("path", thinned(CAPTURES, 1), ids=ids)
def test_a_poisoned_segment_costs_one_exchange_at_most(path: Path, kind: str, tmp_path: Path) -> None:
    packets, whole = _whole(path)
    poison = lost = 0
    for seed in range(2):
        damaged, places = poisoned(packets, GARBAGE[kind], random.Random(seed))
        found, _ = scoring.reading(damaged, tmp_path / "poisoned.pcap")
        same = {
            name
            for name, one in whole.items()
            if name in found and scoring.said(found[name].line, times=False) == scoring.said(one.line, times=False)
        }
        poison += len(places)
        lost += len(whole) - len(same)
        if kind not in FOOLED:
            assert all(whole[name].packets & places for name in whole.keys() - same)
    assert lost <= poison


@pytest.mark.parametrize("kind", GARBAGE)
def test_batches_do_not_matter(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "poisoned.pcap"
    damaged, _ = poisoned(traffic.packets(traffic.KAFKA_0_8), GARBAGE[kind], random.Random(1))
    path.write_bytes(files.pcap(damaged))
    assert traffic.lines(reading(path, batch=1)) == traffic.exported(path)


@pytest.mark.parametrize("kind", ["random", "one wrong bit"])
def test_splits_are_read_as_the_whole(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "poisoned.pcap"
    damaged, _ = poisoned(traffic.packets(traffic.KAFKA_1_1), GARBAGE[kind], random.Random(2))
    path.write_bytes(files.pcap(damaged))
    assert_exported(path)
