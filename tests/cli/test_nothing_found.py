"""Where nothing is found, every command that reads says so, and what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic

CAPTURE = traffic.LIBRDKAFKA
NARROW = {
    "filter": ("-Y", "api == Vote"),
    "since": ("--since", "2040-01-01T00:00:00Z"),
    "until": ("--until", "1999-01-01T00:00:00Z"),
}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture(scope="module")
def there() -> str:
    """What is said of the capture."""
    said = run("stats", CAPTURE, "-Y", "api == Vote").stderr
    words = said.partition("that matches: ")[2].strip()
    assert words.startswith("the capture has 176 exchanges on TCP port")
    assert ", from 20" in words
    return words


@pytest.mark.parametrize("how", NARROW)
@pytest.mark.parametrize("command", ["export", "stats", "topics", "replay --headless", "export --format csv"])
def test_what_matches_nothing_is_said_with_what_there_is(command: str, how: str, there: str) -> None:
    result = run(*command.split(), CAPTURE, *NARROW[how])
    assert result.exit_code == Exit.OK
    assert f"no Kafka exchange that matches: {there}" in result.stderr
    asked = run(*command.split(), CAPTURE, *NARROW[how], "--fail-on", "empty")
    assert asked.exit_code == Exit.EMPTY
    assert f"no Kafka exchange that matches: {there}" in asked.stderr


@pytest.mark.parametrize("form", ["jsonl", "pcapng", "parquet"])
def test_a_port_without_traffic_tells_those_that_have_some(form: str, tmp_path: Path) -> None:
    found = run("export", CAPTURE, "--port", "9", "--format", form, "-o", tmp_path / "out", "--fail-on", "empty")
    assert found.exit_code == Exit.EMPTY
    assert "no Kafka exchange: the capture has TCP port" in found.stderr
    ports = {line.split(":")[-1] for line in _brokers()}
    assert all(port in found.stderr for port in ports)


def _brokers() -> set[str]:
    return {line["broker"] for line in traffic.exchanges(traffic.exported(CAPTURE))}


def test_an_exchange_that_is_not_there(there: str) -> None:
    result = run("export", CAPTURE, "--exchange", "99999", "--fail-on", "empty")
    assert result.exit_code == Exit.EMPTY
    assert f"there is no exchange 99999: {there}" in result.stderr
    kept = run("export", CAPTURE, "--exchange", "3", "-Y", "api == Vote")
    assert f"no Kafka exchange that matches: {there}" in kept.stderr


def test_captures_without_tcp_and_without_packets(tmp_path: Path) -> None:
    path = tmp_path / "udp.pcap"
    path.write_bytes(files.pcap([(1_700_000_000_000_000_000, bytes(Ether() / IP() / UDP() / b"x"))]))
    said = run("stats", path).stderr
    assert "no Kafka exchange: the capture has no TCP, from 2023-11-14T22:13:20Z to 2023-11-14T22:13:20Z" in said
    path.write_bytes(files.pcap([]))
    assert "no Kafka exchange: the capture has no packet" in run("stats", path).stderr


def test_what_finds_something_ends_well() -> None:
    assert run("stats", CAPTURE, "--fail-on", "empty").exit_code == Exit.OK
    assert run("export", CAPTURE, "-c", "0", "--fail-on", "empty").exit_code == Exit.OK


@pytest.mark.parametrize("key", ["prot=9092", "export.prot=9092", "exprot.port=9092"])
def test_keys_of_x_that_no_command_has_are_errors(key: str) -> None:
    result = run("export", CAPTURE, "-X", key)
    assert result.exit_code == Exit.USAGE
    assert "-X: unknown key" in result.stderr
    assert not result.stdout
    assert run("export", CAPTURE, "-c", "1", "-X", "export.count=2").exit_code == Exit.OK
