from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
OLD, NEW = CAPTURES / "kafka-1.1.1.pcap", CAPTURES / "kafka-4.4.0-librdkafka.pcap"
COMMANDS = ("topics", "groups", "txns", "conns", "cluster")


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, args)])


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("topics", "keys fit murmur2"),
        ("groups", "generation 2: 2 members, led by c1-21b623b8"),
        ("conns", "stopped at"),
        ("cluster", "broker 1  127.0.0.1:23001"),
    ],
)
def test_text(command: str, line: str) -> None:
    result = run(command, OLD)
    assert result.exit_code == Exit.OK
    if command == "conns":
        assert line not in result.stdout  # every client of this capture came up
    else:
        assert line in result.stdout


def test_transactions() -> None:
    states = [word for word in run("txns", NEW).stdout.split() if word in {"committed", "aborted"}]
    assert states == ["committed", "aborted", "committed"]


@pytest.mark.parametrize("command", COMMANDS)
def test_json(command: str) -> None:
    result = run(command, "--json", NEW)
    assert result.exit_code == Exit.OK
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines
    assert all(line["schema"].startswith("kproxy.") for line in lines)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_filter_leaves_what_it_selects(command: str) -> None:
    result = run(command, NEW, "-Y", "client.id == nobody")
    assert result.exit_code == Exit.OK
    assert "no Kafka exchange that matches" in result.stderr


def test_a_capture_that_ends_early(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(NEW.read_bytes()[:30_000])
    result = run("topics", cut)
    assert result.exit_code in {Exit.OK, Exit.INPUT}
    assert "shop-orders" in result.stdout
