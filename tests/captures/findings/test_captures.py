"""Findings of captures of real brokers and clients: only what an expert would call wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.captures.findings.model import Finding, Severity, finding_json
from kproxy.captures.findings.reading import Findings
from kproxy.captures.reader import Reader, read
from tests.support.facts import told

DATA = Path(__file__).parents[2] / "data"


def findings(reader: Reader) -> list[Finding]:
    found = Findings(reader.source, reader.definitions, reader.health)
    for batch in reader.batches():
        found.add(batch, reader.closings)
    return found.finish()


@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        # Clients of 0.8 use what Kafka 4 removed, and never ask for versions.
        (
            "captures/kafka-0.8.2.2.pcap",
            [
                "WARN upgrade.cutoff console-producer@127.0.0.1",
                "WARN upgrade.cutoff SimpleConsumerShell@127.0.0.1",
            ],
        ),
        # Clients ask for versions here, and use the newest that this broker offers.
        ("captures/kafka-1.1.1.pcap", ["INFO group.rebalance_cause grp"]),
        ("captures/kafka-4.4.0-librdkafka.pcap", ["INFO group.rebalance_cause shop-consumer"]),
        ("captures/bench-base.pcap.xz", []),
        ("golden/golden-3.9.2.pcap", []),
        ("golden/golden-4.4.0.pcap", []),
    ],
)
def test_healthy_traffic_gets_no_warning_that_is_false(capture: str, expected: list[str]) -> None:
    assert told(findings(read(DATA / capture))) == expected


@pytest.mark.parametrize("size", [7, 64, 100_000])
def test_findings_do_not_depend_on_the_batches_of_a_reading(size: int) -> None:
    """Nor on the process: ids, numbers and evidence are the same."""
    capture = DATA / "captures" / "kafka-1.1.1.pcap"
    whole = read(capture)
    reader = Reader(read(capture).source, whole.definitions, batch=size)
    assert [finding_json(one) for one in findings(reader)] == [finding_json(one) for one in findings(whole)]


def test_a_capture_that_began_later_raises_no_alarm(tmp_path: Path) -> None:
    """Without its first packets connections have no beginning, groups no first generation."""
    data = (DATA / "captures" / "kafka-4.4.0-librdkafka.pcap").read_bytes()
    place, offsets = 24, [24]
    while place < len(data):
        place += 16 + int.from_bytes(data[place + 8 : place + 12], "little")
        offsets.append(place)
    for share in (0.2, 0.4, 0.6, 0.8):
        late = tmp_path / f"{share}.pcap"
        late.write_bytes(data[:24] + data[offsets[int(share * (len(offsets) - 1))] :])
        loud = [one for one in findings(read(late)) if one.severity >= Severity.WARN]
        assert told(loud) == []


@pytest.mark.parametrize("name", ["kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka"])
def test_lost_packets_blame_the_capture_and_nobody_else(name: str, tmp_path: Path) -> None:
    data = (DATA / "captures" / f"{name}.pcap").read_bytes()
    place, number, kept = 24, 0, [data[:24]]
    while place < len(data):
        size = 16 + int.from_bytes(data[place + 8 : place + 12], "little")
        if number % 50 != 49:
            kept.append(data[place : place + size])
        place, number = place + size, number + 1
    lossy = tmp_path / "lossy.pcap"
    lossy.write_bytes(b"".join(kept))
    found = {one.rule for one in findings(read(lossy)) if one.severity >= Severity.NOTE}
    assert "capture.health" in found
    assert found <= {"capture.health", "upgrade.cutoff"}
