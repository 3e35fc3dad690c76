"""Findings of captures of real brokers and clients: only what an expert would call wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from kproxy.captures.findings.model import Finding, Severity, finding_json
from kproxy.captures.findings.reading import Findings
from kproxy.captures.reader import Reader, read
from tests.captures import files, traffic
from tests.captures.test_disorder import displaced
from tests.support.facts import told

DATA = Path(__file__).parents[2] / "data"
OLD = "INFO deprecated.use {0}@127.0.0.1;INFO client.outdated {0}@127.0.0.1"
"""What is told, below that it is cut off, of a client that knows first versions only and never asks for others."""


def findings(reader: Reader) -> list[Finding]:
    found = Findings(reader.source, reader.definitions, reader.health)
    for batch in reader.batches():
        found.add(batch, reader.closings)
    return found.finish()


@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        # Clients of 0.8 use what Kafka 4 removed, and never ask for versions. The brokers are in ZooKeeper mode.
        (
            "captures/kafka-0.8.2.2.pcap",
            [
                "WARN upgrade.cutoff console-producer@127.0.0.1",
                *OLD.format("console-producer").split(";"),
                "WARN upgrade.cutoff SimpleConsumerShell@127.0.0.1",
                *OLD.format("SimpleConsumerShell").split(";"),
                "NOTE deprecated.use id_1-host_127.0.0.1-port_21001@127.0.0.1",
                "NOTE deprecated.use @127.0.0.1",
                "NOTE deprecated.use id_2-host_127.0.0.1-port_21002@127.0.0.1",
                "INFO deprecated.use GetOffsetShell@127.0.0.1",
                "INFO controller.failover controller",
                # clients that try a broker that starts
                "INFO tcp.pressure 127.0.0.1",
            ],
        ),
        # Clients ask for versions here, and use the newest that this broker offers.
        # The brokers are in ZooKeeper mode, and kafka-python is told the release of its brokers.
        (
            "captures/kafka-1.1.1.pcap",
            [
                *[f"NOTE deprecated.use {node}@127.0.0.1" for node in (2, 1)],
                "INFO group.rebalance_cause grp",
                *[f"INFO deprecated.use {name}@127.0.0.1" for name in ("adm", "c1")],
                *[f"INFO topic.lifecycle {name}" for name in ("t-none", "t-gzip", "t-snappy", "t-lz4")],
                "INFO topic.lifecycle __consumer_offsets",
                "INFO deprecated.use c2@127.0.0.1",
                "INFO topic.lifecycle adm-t",
                "INFO admin.destructive adm@127.0.0.1",
                "INFO topic.lifecycle adm-t",
                "INFO tcp.pressure 127.0.0.1",
                *[f"INFO client.outdated kp-{codec}@127.0.0.1" for codec in ("None", "gzip", "snappy", "lz4")],
                *[f"INFO client.outdated {name}@127.0.0.1" for name in ("c1", "c2")],
            ],
        ),
        # One of the groups uses the classic protocol, and the broker offers the newer one.
        (
            "captures/kafka-4.4.0-librdkafka.pcap",
            ["INFO group.rebalance_cause shop-consumer", "INFO group.protocol_upgrade shop-classic"],
        ),
        (
            "captures/bench-base.pcap.xz",
            [
                *[f"NOTE producer.weak_acks bench-b-{name}@10.99.0.2" for name in ("small", "plain", "gzip")],
                # Megabytes of text without compression.
                "NOTE producer.uncompressed bench-b-plain@10.99.0.2",
                "INFO deprecated.use bench-c@10.99.0.2",
                *[f"INFO client.outdated bench-b-{name}@10.99.0.2" for name in ("plain", "gzip", "small")],
                "INFO client.outdated bench-c@10.99.0.2",
            ],
        ),
        # Random values, throttle times, topics and replicas among them, over a connection for each version.
        (
            "golden/golden-3.9.2.pcap",
            [
                *["NOTE deprecated.use probe@10.0.0.1", "NOTE deprecated.use @10.0.0.1"],
                "NOTE client.conn_pool probe@10.0.0.1",
                *["NOTE sec.cleartext probe@10.0.0.1"] * 2,
                *["INFO latency.throttled probe@10.0.0.1"] * 3,
                *["INFO admin.destructive probe@10.0.0.1"] * 8,
                "INFO topic.lifecycle SQRrvfXAFBqjPsXpd_Jb",
            ],
        ),
        (
            "golden/golden-4.4.0.pcap",
            [
                "NOTE deprecated.use probe@10.0.0.1",
                "NOTE client.conn_pool probe@10.0.0.1",
                *["NOTE sec.cleartext probe@10.0.0.1"] * 2,
                *["INFO latency.throttled probe@10.0.0.1"] * 3,
                *["INFO admin.destructive probe@10.0.0.1"] * 8,
                "INFO partition.reassign RjG6C",
            ],
        ),
    ],
)
def test_healthy_traffic_gets_no_warning_that_is_false(capture: str, expected: list[str]) -> None:
    assert told(findings(read(DATA / capture))) == expected


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(("captures/kafka-1.1.1.pcap", size) for size in (7, 64, 100_000)),
        # The ends of both directions of a connection with a request without response are in two batches.
        ("findings/upgrade.refused.pcap.xz", 1),
    ],
)
def test_findings_do_not_depend_on_the_batches_of_a_reading(name: str, size: int) -> None:
    """Nor on the process: ids, numbers and evidence are the same."""
    capture = DATA / name
    whole = read(capture)
    reader = Reader(read(capture).source, whole.definitions, batch=size)
    assert [finding_json(one) for one in findings(reader)] == [finding_json(one) for one in findings(whole)]


def test_refused_connections_of_one_moment_are_in_the_order_of_time() -> None:
    """Their packets have no bytes, so that their ends have one address."""
    (pressure,) = (one for one in findings(read(traffic.KAFKA_1_1)) if one.rule == "tcp.pressure")
    assert pressure.summary.endswith("5 connections in a row were refused, over 0 s")


def test_a_capture_that_began_later_raises_no_alarm(tmp_path: Path) -> None:
    """Without its first packets connections have no beginning, groups no first generation."""
    packets = traffic.packets(traffic.LIBRDKAFKA)
    for share in (0.2, 0.4, 0.6, 0.8):
        late = files.write(tmp_path / f"{share}.pcap", files.pcap(packets[int(share * len(packets)) :]))
        loud = [one for one in findings(read(late)) if one.severity >= Severity.WARN]
        assert told(loud) == []


@pytest.mark.parametrize("name", ["kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka"])
def test_lost_packets_blame_the_capture_and_nobody_else(name: str, tmp_path: Path) -> None:
    packets = traffic.packets(DATA / "captures" / f"{name}.pcap")
    kept = [packet for number, packet in enumerate(packets) if number % 50 != 49]
    lossy = files.write(tmp_path / "lossy.pcap", files.pcap(kept))
    found = {one.rule for one in findings(read(lossy)) if one.severity >= Severity.NOTE}
    assert "capture.health" in found
    assert found <= {"capture.health", "upgrade.cutoff", "deprecated.use"}


def test_bytes_of_other_protocols_on_a_port_of_kafka(tmp_path: Path) -> None:
    """HTTP, and TLS that the broker refuses, beside the clients of a real capture."""
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether

    packets = traffic.packets(traffic.LIBRDKAFKA)
    time = packets[-1][0]
    hello = bytes.fromhex("1603010005 0100000100".replace(" ", "")) + bytes(200)
    for number, first in enumerate((b"GET / HTTP/1.1\r\n\r\n", hello, b"GET / HTTP/1.1\r\n\r\n")):
        stranger, port = f"10.9.9.{number % 2 + 1}", 50_000 + number
        there = IP(src=stranger, dst="127.0.0.1"), port, 19092
        back = IP(src="127.0.0.1", dst=stranger), 19092, port
        end = 101 + len(first)
        for (ip, source, target), flags, seq, ack, data in (
            (there, "S", 100, 0, b""),
            (back, "SA", 900, 101, b""),
            (there, "PA", 101, 901, first),
            (back, "FA", 901, end, b""),
            (there, "FA", end, 902, b""),
        ):
            time += 1_000_000
            packets.append(
                (time, bytes(Ether() / ip / TCP(sport=source, dport=target, flags=flags, seq=seq, ack=ack) / data))
            )
    found = findings(read(files.write(tmp_path / "strangers.pcap", files.pcap(packets))))
    loud = [one for one in found if one.severity >= Severity.WARN]
    assert told(loud) == ["ERROR conn.wrong_protocol 10.9.9.1", "ERROR conn.wrong_protocol 10.9.9.2"]
    assert [one.numbers["what"] for one in loud] == ["HTTP", "TLS"]
    assert loud[0].occurrences == 2
    assert "a request of 1195725856 bytes" in loud[0].evidence[0].note


CAPTURES = (traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA)


def loud(packets: Sequence[files.Packet], path: Path, *, snap: int = 262_144) -> list[str]:
    """What is told of packets as WARN or worse, without what is said of the capture itself."""
    reader = read(files.write(path, files.pcap(packets, snap=snap)))
    return told([one for one in findings(reader) if one.severity >= Severity.WARN and one.rule != "capture.health"])


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_neither_disorder_nor_copies_change_what_is_loud(path: Path, tmp_path: Path) -> None:
    packets = traffic.packets(path)
    expected = loud(packets, tmp_path / "whole.pcap")
    for seed in range(6):
        dice = random.Random(seed)
        twice = [(time + late, frame) for time, frame in packets for late in (0, dice.randrange(1000, 100_000))]
        for other in (displaced(packets, 64, dice), twice, displaced(twice, 64, dice)):
            assert loud(other, tmp_path / "other.pcap") == expected


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_cut_and_lost_packets_raise_no_alarm(path: Path, tmp_path: Path) -> None:
    packets = traffic.packets(path)
    expected = loud(packets, tmp_path / "whole.pcap")
    for snap in (80, 96, 128, 200, 256, 600):
        assert set(loud(packets, tmp_path / "cut.pcap", snap=snap)) <= set(expected)
    for seed in range(20, 26):
        dice = random.Random(seed)
        for share in (0.01, 0.1):
            fewer = [one for one in packets if dice.random() > share]
            assert set(loud(fewer, tmp_path / "fewer.pcap")) <= set(expected)
