"""Captures that hold only what one side of each connection sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet import TCP
from scapy.utils import PcapReader, PcapWriter

from kproxy.captures.ports import Ports
from kproxy.captures.reader import read
from kproxy.captures.spark import local
from kproxy.captures.spark.flows import Options
from kproxy.captures.tables.schema import TABLES
from kproxy.decoders.exchange import Exchange, Status
from tests.captures.spark.comparing import assert_same, counted, exported
from tests.support.golden import DATA

CAPTURES = {
    "kafka-0.8.2.2": (21001, 21002),
    "kafka-1.1.1": (23001, 23002),
    "kafka-4.4.0-librdkafka": (19092,),
}


def one_side(name: str, path: Path, *, broker: bool, syn: bool = True) -> Path:
    """A copy of a capture with the packets of one side, and without those that open connections unless `syn`."""
    with PcapReader(str(DATA / "captures" / f"{name}.pcap")) as packets, PcapWriter(str(path)) as kept:
        for packet in packets:
            port = packet[TCP].sport if broker else packet[TCP].dport
            if port in CAPTURES[name] and (syn or not packet[TCP].flags.S):
                kept.write(packet)
    return path


def exchanges(path: Path, ports: str | None = None) -> list[Exchange]:
    return [item for item in read(path, ports=ports) if isinstance(item, Exchange)]


def answers(found: list[Exchange]) -> Counter[tuple[str, int | None, int]]:
    return Counter(
        (one.connection.client, one.correlation_id, one.response.size)
        for one in found
        if one.response is not None and not one.response.missing
    )


def asked(found: list[Exchange]) -> Counter[tuple[str, int | None, int | None]]:
    return Counter((one.connection.client, one.api_key, one.correlation_id) for one in found)


@pytest.mark.parametrize("syn", [True, False], ids=["from the beginning", "from the middle"])
@pytest.mark.parametrize("name", CAPTURES)
def test_responses_alone_are_orphans_where_the_port_is_named(name: str, syn: bool, tmp_path: Path) -> None:
    whole = answers(exchanges(DATA / "captures" / f"{name}.pcap"))
    side = one_side(name, tmp_path / "broker.pcap", broker=True, syn=syn)
    found = exchanges(side, ",".join(map(str, CAPTURES[name])))
    assert {one.status for one in found} == {Status.ORPHAN_RESPONSE}
    got = answers(found)
    assert got == whole
    assert all(one.request is None for one in found)


def test_without_a_port_frames_that_follow_each_other_are_no_proof(tmp_path: Path) -> None:
    assert not exchanges(one_side("kafka-0.8.2.2", tmp_path / "broker.pcap", broker=True))


@pytest.mark.parametrize("name", CAPTURES)
def test_requests_alone_are_all_there(name: str, tmp_path: Path) -> None:
    whole = exchanges(DATA / "captures" / f"{name}.pcap")
    found = exchanges(one_side(name, tmp_path / "client.pcap", broker=False))
    keys = [
        Counter((one.connection.client, one.api_key, one.correlation_id) for one in some) for some in (whole, found)
    ]
    assert keys[0] == keys[1]
    assert {one.status for one in found} <= {Status.NO_RESPONSE, Status.NO_REPLY_EXPECTED}


@pytest.mark.parametrize("size", [1 << 14, 1 << 40])
def test_splits_find_the_same(size: int, tmp_path: Path) -> None:
    ports = ",".join(map(str, CAPTURES["kafka-1.1.1"]))
    side = one_side("kafka-1.1.1", tmp_path / "broker.pcap", broker=True)
    tables = local.tables([side], Options(tuple(TABLES), ports=Ports.parse(ports)), size=size)
    made = {name: counted(tables[name].to_pylist()) for name in TABLES}
    assert made["exchanges"].total() > 200
    assert_same(made, exported([side], "--port", ports))
