"""What others make of slices: Wireshark of the packets, Kafka's classes of batches that were redacted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.captures.bodies import Bodies
from kproxy.captures.reader import read
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.decoders.batches.batch import parse
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.records.places import places
from tests.captures import traffic
from tests.support.java import broker_classpath

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

CAPTURES = (traffic.LIBRDKAFKA, traffic.KAFKA_0_8, traffic.KAFKA_1_1)
PORTS = {traffic.LIBRDKAFKA: "19092", traffic.KAFKA_0_8: "21001-21002", traffic.KAFKA_1_1: "23001-23002"}


def cut(capture: Path, out: Path, *arguments: str) -> Path:
    command = ["export", str(capture), "--format", "pcapng", "-o", str(out), "--force", *arguments]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == Exit.OK, result.stderr
    return out


def tshark(path: Path, *arguments: str) -> list[str]:
    command = ["tshark", "-r", str(path), "-o", "ip.check_checksum:TRUE", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return run.stdout.splitlines()


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("redact", [(), ("--redact", "payloads", "--redact", "hosts")], ids=["plain", "redacted"])
def test_tshark_has_no_complaint_about_packets(capture: Path, redact: tuple[str, ...], tmp_path: Path) -> None:
    path = cut(capture, tmp_path / "slice.pcapng", *redact)
    assert tshark(path, "-Y", "tcp.analysis.flags or ip.checksum.status == 0") == []
    assert len(tshark(path)) > 100


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_tshark_finds_the_same_messages(capture: Path, tmp_path: Path) -> None:
    decode = ["-d", f"tcp.port=={PORTS[capture]},kafka", "-T", "fields", "-e", "kafka.correlation_id"]
    before, after = (
        sorted(one for line in tshark(path, "-Y", "kafka", *decode) for one in line.split(",") if one)
        for path in (capture, cut(capture, tmp_path / "slice.pcapng", "--show-secrets"))
    )
    assert len(before) > 100
    assert before == after


def test_kafka_reads_redacted_batches(tmp_path: Path) -> None:
    """DumpLogSegments reads each batch that a slice carries, in every codec, and finds its CRC right."""
    segment = tmp_path / "00000000000000000000.log"
    count = 0
    with segment.open("wb") as out:
        for capture in (traffic.LIBRDKAFKA, traffic.KAFKA_1_1):
            for field in fields(cut(capture, tmp_path / "slice.pcapng", "--redact", "payloads")):
                for batch in parse(field).batches:
                    if batch.header["magic"] == 2:
                        out.write(bytes(field[batch.start : batch.end]))
                        count += batch.header["recordCount"]
    command = ["kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", str(segment)]
    run = subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", broker_classpath("3.9.2"), *command],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    lines = run.stdout.splitlines()
    assert not [line for line in lines if line.startswith("baseOffset:") and "isvalid: true" not in line]
    records = [line for line in lines if line.startswith("| offset:")]
    assert len(records) == count > 1000
    data = [line for line in records if " payload: " in line]
    assert data
    assert {character for line in data for character in line.partition(" payload: ")[2].partition(" ")[0]} <= {"x"}


def fields(capture: Path) -> Iterator[Buffer]:
    """The records fields of a capture's exchanges."""
    with closing(read([capture])) as reader:
        for item in reader:
            if isinstance(item, Exchange):
                bodies = Bodies(item, reader.source, reader.definitions)
                for place in places(item.api_key, bodies.asked, bodies.answered, Knowledge(), reader.definitions):
                    yield place.records
