"""A packet missing from a capture of real traffic costs the exchange that it carried, and no other."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from tests.support.golden import DATA

HEADER = 24
LOST = 25


def packets(data: bytes) -> list[bytes]:
    found = []
    at = HEADER
    while at < len(data):
        (stored,) = struct.unpack_from("<I", data, at + 8)
        found.append(data[at : at + 16 + stored])
        at += 16 + stored
    return found


def statuses(path: Path) -> Counter[tuple[str, int | None, int | None, str]]:
    return Counter(
        (item.connection.client, item.correlation_id, item.api_key, item.status.value)
        for item in read(path)
        if isinstance(item, Exchange)
    )


@pytest.mark.parametrize("name", ["kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka"])
def test_one_lost_packet_costs_one_exchange(name: str, tmp_path: Path) -> None:
    data = (DATA / "captures" / f"{name}.pcap").read_bytes()
    whole = statuses(DATA / "captures" / f"{name}.pcap")
    captured = packets(data)
    dice = random.Random(1)
    path = tmp_path / "lossy.pcap"
    for _ in range(LOST):
        lost = dice.randrange(len(captured))
        path.write_bytes(data[:HEADER] + b"".join(captured[:lost] + captured[lost + 1 :]))
        gone = whole - statuses(path)
        assert sum(gone.values()) <= 1, (lost, gone)
