"""Damaged captures against the undamaged reading: only exchanges that lost bytes are missing, and none is wrong."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import pytest

from tests.captures import files, scoring, traffic
from tests.captures.scoring import Name, Read
from tests.support.thinned import thinned

CAPTURES = (traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA)
ids = [path.stem for path in CAPTURES]
RESYNCHRONISATION = 0.1
"""Exchanges, per lost data packet, that may be lost beside those that it carried."""


@lru_cache(maxsize=8)
def _packets(path: Path) -> list[files.Packet]:
    return traffic.packets(path)


@lru_cache(maxsize=8)
def _undamaged(path: Path) -> dict[Name, Read]:
    return scoring.read_scored(path, scoring.starts(_packets(path)))[0]


@pytest.fixture(params=CAPTURES, ids=ids)
def capture(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.mark.parametrize("rate", thinned([0.01, 0.001, 0.05], 1))
def test_lost_packets(capture: Path, rate: float, tmp_path: Path) -> None:
    packets, whole = _packets(capture), _undamaged(capture)
    spoiled = data = 0
    for seed in range(12):
        dice = random.Random(seed)
        lost = {place for place in range(len(packets)) if dice.random() < rate}
        kept = [packet for place, packet in enumerate(packets) if place not in lost]
        found, _ = scoring.reading(kept, tmp_path / "lossy.pcap")
        score = scoring.score(whole, found, lost)
        assert score.wrong == [], seed
        spoiled += len(score.spoiled)
        data += sum(1 for place in lost if traffic.payload(packets[place][1]))
    assert spoiled <= RESYNCHRONISATION * data


@pytest.mark.parametrize("seed", thinned(range(4), 1))
def test_reordering(capture: Path, seed: int, tmp_path: Path) -> None:
    """Packets of one direction swap places with their times; retransmissions stay behind the original."""
    dice = random.Random(seed)
    packets = list(_packets(capture))
    for place in range(len(packets) - 1):
        one, other = packets[place][1], packets[place + 1][1]
        if one[26:38] == other[26:38] and one[38:42] != other[38:42] and dice.random() < 0.5:
            packets[place], packets[place + 1] = packets[place + 1], packets[place]
    found, _ = scoring.reading(packets, tmp_path / "shuffled.pcap")
    score = scoring.score(_undamaged(capture), found, set())
    assert (score.wrong, score.spoiled) == ([], [])


@pytest.mark.parametrize("seed", thinned(range(4), 1))
def test_duplication(capture: Path, seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    packets: list[files.Packet] = []
    for place, packet in enumerate(_packets(capture)):
        packets.append(packet)
        if dice.random() < 0.2:
            packets.append(packet)
        if dice.random() < 0.05:
            packets.append((packet[0], packets[max(0, len(packets) - dice.randint(1, min(place + 1, 9)))][1]))
    found, _ = scoring.reading(packets, tmp_path / "twice.pcap")
    score = scoring.score(_undamaged(capture), found, set())
    assert (score.wrong, score.spoiled) == ([], [])


def test_overlap_with_other_bytes(capture: Path, tmp_path: Path) -> None:
    """The first bytes seen win, and a problem says so: of the exchange, or of the stream if that was complete."""
    dice = random.Random(1)
    packets: list[files.Packet] = []
    other = 0
    for packet in _packets(capture):
        packets.append(packet)
        size = traffic.payload(packet[1])
        if size > 20 and dice.random() < 0.1:
            frame = bytearray(packet[1])
            frame[-1] ^= 0xFF
            packets.append((packet[0], bytes(frame)))
            other += 1
    path = tmp_path / "overlap.pcap"
    found, _ = scoring.reading(packets, path)
    whole = _undamaged(capture)
    complete = [line for line in traffic.problems(traffic.exported(path)) if line["code"] == "overlap"]
    # requests sent again at once cannot have been answered yet
    assert {line["where"] for line in complete} == {"broker"}
    told = len(complete)
    assert set(found) == set(whole)
    for name, one in found.items():
        assert scoring.said(one.line) == scoring.said(whole[name].line)
        told += [problem["code"] for problem in one.line["problems"]].count("overlap")
    assert told == other


@pytest.mark.parametrize("snap", thinned([96, 128, 200], 1))
def test_snap_length(capture: Path, snap: int, tmp_path: Path) -> None:
    """Headers, pairs and times are complete; bodies are whole or marked as cut."""
    found, _ = scoring.reading(_packets(capture), tmp_path / "snap.pcap", snap=snap)
    whole = _undamaged(capture)
    score = scoring.score(whole, found, set())
    assert score.wrong == []
    assert set(found) == set(whole)
    for name, one in found.items():
        original = whole[name].line
        for key in ("api", "api_version", "latency_ms"):
            assert one.line[key] == original[key], name
        if one.line["client_id"] is not None:
            assert one.line["client_id"] == original["client_id"]
        for side in ("request", "response"):
            if original[side] is not None:
                assert {key: one.line[side][key] for key in ("timestamp", "size")} == {
                    key: original[side][key] for key in ("timestamp", "size")
                }
        assert one.whole or not whole[name].whole or "cut_by_snaplen" in scoring.codes(one.line)


def test_start_anywhere(capture: Path, tmp_path: Path) -> None:
    packets, whole = _packets(capture), _undamaged(capture)
    for start in range(13, len(packets), max(1, len(packets) // 20)):
        found, _ = scoring.reading(packets[start:], tmp_path / "late.pcap")
        score = scoring.score(whole, found, set(range(start)))
        assert score.wrong == [], start
        assert score.spoiled == [], start


def test_cut_anywhere(capture: Path, tmp_path: Path) -> None:
    data, whole = capture.read_bytes(), _undamaged(capture)
    dice = random.Random(3)
    path = tmp_path / "cut.pcap"
    starts = scoring.starts(_packets(capture))
    for _ in range(30):
        end = dice.randrange(25, len(data))
        path.write_bytes(data[:end])
        found = scoring.read_scored(path, starts)[0]
        gone = {place for place, (_, frame) in enumerate(_packets(capture)) if starts[place] + 16 + len(frame) > end}
        score = scoring.score(whole, found, gone)
        assert score.wrong == [], end
        assert score.spoiled == [], end


def test_sequence_numbers_that_wrap(capture: Path, tmp_path: Path) -> None:
    """The sequence numbers of each direction are shifted so that they wrap within its bytes."""
    first: dict[bytes, int] = {}
    sent: dict[bytes, int] = {}
    for _, frame in _packets(capture):
        flow = frame[26:38]
        first.setdefault(flow, int.from_bytes(frame[38:42], "big"))
        sent[flow] = sent.get(flow, 0) + traffic.payload(frame)
    moved = {flow: -number - sent[flow] // 2 for flow, number in first.items()}
    packets = []
    for time, frame in _packets(capture):
        changed = bytearray(frame)
        flow = frame[26:38]
        back = frame[30:34] + frame[26:30] + frame[36:38] + frame[34:36]
        for at, of in ((38, flow), (42, back)):
            number = int.from_bytes(frame[at : at + 4], "big") + moved.get(of, 0)
            if at == 38 or frame[47] & 0x10:
                changed[at : at + 4] = (number % 2**32).to_bytes(4, "big")
        packets.append((time, bytes(changed)))
    found, _ = scoring.reading(packets, tmp_path / "wrap.pcap")
    score = scoring.score(_undamaged(capture), found, set())
    assert (score.wrong, score.spoiled) == ([], [])


def test_ports_used_again(capture: Path, tmp_path: Path) -> None:
    """The same traffic again an hour later, on the same ports with other initial sequence numbers."""
    packets = list(_packets(capture))
    again = []
    for time, frame in packets:
        changed = bytearray(frame)
        for at in (38, 42):
            number = int.from_bytes(frame[at : at + 4], "big") + 0x1234_5678
            changed[at : at + 4] = (number % 2**32).to_bytes(4, "big")
        again.append((time + 3_600_000_000_000, bytes(changed)))
    found, health = scoring.reading([*packets, *again], tmp_path / "again.pcap")
    whole = _undamaged(capture)
    assert (health["gaps"], health["lost"]) == (0, 0)
    assert len(found) == 2 * len(whole)
    score = scoring.score(whole, {name: one for name, one in found.items() if name in whole}, set())
    assert (score.wrong, score.spoiled) == ([], [])
