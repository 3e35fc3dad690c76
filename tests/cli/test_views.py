from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.captures.reader import read
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.decoders.exchange import Exchange
from tests.captures import files

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
OLD, NEW = CAPTURES / "kafka-1.1.1.pcap", CAPTURES / "kafka-4.4.0-librdkafka.pcap"
DRAFT = CAPTURES.parent / "dialects" / "coordinator-draft-1.pcap"
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


@pytest.mark.parametrize("command", [*COMMANDS, "stats"])
def test_what_the_capture_lacks_is_said(command: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(OLD.read_bytes()[:100_000])
    result = run(command, cut)
    assert result.exit_code == Exit.INPUT
    assert "kproxy: warning: 1 frame cut" in result.stderr.splitlines()
    result = run(command, "--json", cut)
    assert result.exit_code == Exit.INPUT
    health = json.loads(result.stdout.splitlines()[-1])
    assert (health["schema"], health["cut"]) == ("kproxy.health/1", 1)
    assert "frames cut" not in result.stderr


@pytest.mark.parametrize(
    ("capture", "api", "options"), [(NEW, 3, ()), (DRAFT, 20001, ("--dialect", "coordinator-draft-1"))]
)
@pytest.mark.parametrize("command", ["topics", "stats"])
def test_frames_that_no_definition_reads_are_counted(
    command: str, capture: Path, api: int, options: tuple[str, ...], tmp_path: Path
) -> None:
    data = bytearray(capture.read_bytes())
    for at, size in bodies(capture, api, options[1:]):
        data[at : at + size] = b"\x7f" * size
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(data)
    exported = json.loads(run("export", bad, *options).stdout.splitlines()[-1])
    told = json.loads(run(command, "--json", bad, *options).stdout.splitlines()[-1])
    assert told["undecoded"] == exported["undecoded"] > 0


def bodies(path: Path, api: int, given: Sequence[str]) -> list[tuple[int, int]]:
    """Where the bodies of some responses lie in the file."""
    reader = read(path, user_definitions=given)
    found = []
    for item in reader:
        if isinstance(item, Exchange) and item.api_key == api and item.response is not None:
            ((at, size),) = item.response.spans
            found.append((at + 16, size - 16))
    reader.close()
    return found[:3]


@pytest.mark.parametrize(("command", "what"), [("groups", "group"), ("txns", "transaction")])
def test_where_there_is_none_that_is_said(command: str, what: str) -> None:
    result = run(command, CAPTURES / "kafka-0.8.2.2.pcap")
    assert result.exit_code == Exit.OK
    assert result.stdout == ""
    assert result.stderr == f"kproxy: warning: no exchange mentions a {what}\n"
    assert "no exchange tells" not in run(command, NEW).stderr


@pytest.mark.parametrize("command", [*COMMANDS, "stats", "replay"])
def test_a_capture_without_packets(command: str, tmp_path: Path) -> None:
    empty = files.write(tmp_path / "empty.pcapng", files.section() + files.interface())
    result = run(command, empty)
    assert result.exit_code == Exit.OK
    assert result.stderr == "kproxy: warning: no Kafka exchange: the capture has no packet\n"
