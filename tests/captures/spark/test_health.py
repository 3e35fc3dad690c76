"""Packets that no split can read are counted as one process counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from kproxy.captures.reader import read
from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import plan
from tests.captures import files

MAC: Any = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
WIREGUARD = bytes(Ether(**MAC) / IP() / UDP(dport=51820) / bytes(range(200)))
MACSEC = bytes(Ether(**MAC, type=0x88E5) / bytes(range(200)))
PLAIN = bytes(Ether(**MAC) / IP() / TCP(dport=9092) / bytes(range(200)))


@pytest.mark.parametrize("size", [900, 1 << 40])
def test_splits_count_what_a_reader_counts(size: int, tmp_path: Path) -> None:
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    paths[0].write_bytes(files.pcap([(10 + n, (WIREGUARD, PLAIN, MACSEC)[n % 3]) for n in range(20)]))
    paths[1].write_bytes(files.pcap([(20 + n, (WIREGUARD, PLAIN)[n % 2]) for n in range(20)]))
    expected: dict[str, int] = {}
    for path in paths:
        reader = read(path)
        reader.finish()
        for name, count in reader.health.unread.items():
            expected[name] = expected.get(name, 0) + count
    planned = plan(paths, size)
    assert (len(planned.splits) > 2) == (size == 900)
    _, _, order = local.ordered(planned, size)
    assert expected == {"WireGuard": 17, "MACsec": 6}
    assert order.health.unread == expected
