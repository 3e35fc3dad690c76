"""Connections in turn on the same ports, against the reading of each of them alone.

The connections are real ones with other hosts, ports and initial sequence numbers. If the capture lacks parts of their
beginnings and ends, and holds packets up to 64 places from their own, the exchanges are those of each connection alone.
"""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.captures import files, scoring, traffic
from tests.captures.tcp.scripts import ACK, FIN, RST, SYN
from tests.captures.test_disorder import displaced

WHOLE = 1 << 32
HOSTS = (b"\x0a\0\0\1", b"\x0a\0\0\2")
PORTS = (40000, 9092)
SOURCES = (traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA)
FEWEST, MOST = 8, 100
"""Numbers of packets of the connections that are used."""


@dataclass(slots=True)
class Sent:
    """A TCP packet of side `way`, with numbers counted from the initial sequence number of each side."""

    time: int
    way: int
    seq: int
    ack: int
    flags: int
    data: bytes

    def frame(self, initial: tuple[int, int]) -> bytes:
        seq = (initial[self.way] + self.seq) % WHOLE
        ack = (initial[1 - self.way] + self.ack) % WHOLE if self.flags & ACK else 0
        ports = PORTS[self.way], PORTS[1 - self.way]
        tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 0x50, self.flags, 512, 0, 0) + self.data
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + HOSTS[self.way] + HOSTS[1 - self.way]
        return bytes(12) + b"\x08\0" + ip + tcp


def connections() -> list[list[Sent]]:
    """The connections of the real captures that are whole and have no retransmissions; their times begin at 0."""
    flows: dict[frozenset[bytes], list[tuple[int, bytes, bytes]]] = {}
    for path in SOURCES:
        for time, frame in traffic.packets(path):
            if frame[12:14] == b"\x08\0" and frame[23] == 6:
                at = 14 + (frame[14] & 15) * 4
                source, other = frame[26:30] + frame[at : at + 2], frame[30:34] + frame[at + 2 : at + 4]
                flows.setdefault(frozenset((source, other)), []).append((time, source, frame))
    return [found for flow in flows.values() if (found := _connection(flow))]


def _connection(flow: list[tuple[int, bytes, bytes]]) -> list[Sent]:
    """The packets of a flow; none if it is not one whole connection of FEWEST to MOST packets."""
    start, client, _ = flow[0]
    initial: list[int | None] = [None, None]
    found = []
    for time, source, frame in flow:
        at = 14 + (frame[14] & 15) * 4
        way, flags = int(source != client), frame[at + 13]
        seq, ack = struct.unpack_from(">II", frame, at + 4)
        if flags & SYN and initial[way] is None:
            initial[way] = seq
        if initial[way] is None:
            return []
        begin = at + (frame[at + 12] >> 4) * 4
        first, other = initial[way] or 0, initial[1 - way] or 0
        data = frame[begin : 14 + int.from_bytes(frame[16:18], "big")]
        found.append(Sent(time - start, way, (seq - first) % WHOLE, (ack - other) % WHOLE, flags, data))
    sent = Counter((one.way, one.seq) for one in found if one.data)
    whole = FEWEST <= len(found) <= MOST and any(one.flags & (FIN | RST) for one in found)
    return found if whole and max(sent.values(), default=2) == 1 else []


def beyond(taken: list[Sent], way: int) -> int:
    """The number of sequence numbers that a side used."""
    mine = [one for one in taken if one.way == way and not one.flags & RST]
    return max((one.seq + len(one.data) + bool(one.flags & (SYN | FIN)) for one in mine), default=0)


def damaged(taken: list[Sent], what: str) -> list[Sent]:
    """A connection without some of its packets, or with its SYN twice."""
    if what == "middle":
        return taken[4:]
    if what == "SYN lost":
        return [one for one in taken if one.flags & (SYN | ACK) != SYN]
    if what == "SYN-ACK lost":
        return [one for one in taken if one.flags & (SYN | ACK) != SYN | ACK]
    if what == "SYN twice":
        return [taken[0], replace(taken[0], time=taken[0].time + 1000), *taken[1:]]
    if what == "open":
        return [one for one in taken if one.data or not one.flags & (FIN | RST)]
    return taken


def said(packets: list[files.Packet], path: Path) -> Counter[str]:
    """What the reading of these packets says of each exchange."""
    lines = [one.line for one in scoring.reading(packets, path)[0].values()]
    return Counter(
        json.dumps([line["api_key"], line["correlation_id"], scoring.said(line), sorted(scoring.codes(line))])
        for line in lines
    )


NEAR = (65_537, 1 << 20, 5 << 20, 1 << 23)
FAR = (1 << 26, 1 << 29, 1 << 30, -(1 << 26), -(1 << 30))


@pytest.mark.parametrize("later", ["whole", "SYN-ACK lost", "SYN twice"])
@pytest.mark.parametrize("first", ["whole", "middle", "SYN lost", "SYN-ACK lost", "open"])
@pytest.mark.parametrize("window", [0, 5, 64])
def test_connections_in_turn_on_the_same_ports(window: int, first: str, later: str, tmp_path: Path) -> None:
    dice = random.Random(f"{first} {later}")
    pool = connections()
    assert len(pool) > 30
    for _ in range(6):
        time, initial = 1_700_000_000_000_000_000, (dice.randrange(WHOLE), dice.randrange(WHOLE))
        packets: list[files.Packet] = []
        expected: Counter[str] = Counter()
        for what in (first, later, later):
            taken = dice.choice(pool)
            here = [(time + one.time, one.frame(initial)) for one in damaged(taken, what)]
            expected += said(here, tmp_path / "one.pcap")
            packets += here
            time = packets[-1][0] + 10_000_000
            further = [dice.choice(NEAR if what == "open" else NEAR + FAR) for _ in (0, 1)]
            initial = (
                (initial[0] + beyond(taken, 0) + further[0]) % WHOLE,
                (initial[1] + beyond(taken, 1) + further[1]) % WHOLE,
            )
        found = said(displaced(packets, window, dice) if window else packets, tmp_path / "other.pcap")
        assert found == expected


def test_a_connection_whose_syn_is_lost_after_the_end_of_another(tmp_path: Path) -> None:
    """Its bytes are those of a connection begun in the middle, not late ones of the connection that ended."""
    dice = random.Random(1)
    pool = connections()
    for further in (*NEAR, *FAR):
        one, two = dice.choice(pool), damaged(dice.choice(pool), "middle")
        initial = (1000 + beyond(one, 0) + further) % WHOLE, (9000 + beyond(one, 1) + further) % WHOLE
        before = [(10**18 + each.time, each.frame((1000, 9000))) for each in one]
        after = [(before[-1][0] + 10**9 + each.time, each.frame(initial)) for each in two]
        expected = said(before, tmp_path / "a.pcap") + said(after, tmp_path / "b.pcap")
        assert said([*before, *after], tmp_path / "both.pcap") == expected
