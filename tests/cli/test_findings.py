"""`kproxy findings`: output, filters, exit codes, and the explanation of rules."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kproxy.captures.findings.table import RULES
from kproxy.cli.exits import Exit
from kproxy.cli.main import main

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
OLD = CAPTURES / "kafka-0.8.2.2.pcap"
HEALTHY = CAPTURES / "kafka-4.4.0-librdkafka.pcap"


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["findings", *map(str, args)])


def objects(*args: str | Path) -> list[dict[str, Any]]:
    """What --json prints, without the health that ends it."""
    *lines, health = (json.loads(line) for line in run("--json", *args).stdout.splitlines())
    assert health["schema"] == "kproxy.health/1"
    return lines


def test_one_line_each_then_the_evidence() -> None:
    result = run(OLD)
    assert result.exit_code == Exit.OK
    lines = result.stdout.splitlines()
    assert lines[0].startswith("WARN  upgrade.cutoff  console-producer@127.0.0.1")
    assert lines[1].startswith("      cause: ")
    assert lines[2].startswith("      05:56:18.238 #12 ")
    assert lines[-1] == "2 findings"


def test_objects_name_the_exchanges() -> None:
    first, second = objects(OLD)
    assert first["schema"] == "kproxy.finding/1"
    assert [one["exchange"] for one in first["evidence"]] == [12]
    assert {one["actors"][0]["client_id"] for one in (first, second)} == {"console-producer", "SimpleConsumerShell"}
    assert objects(OLD, "--format", "jsonl") == [first, second]


def test_the_most_costly_of_equal_severity_comes_first() -> None:
    assert [one["impact"]["value"] for one in objects(OLD)] == [38, 6]


def test_what_is_less_severe_is_counted() -> None:
    assert run(HEALTHY).stdout == "1 finding, 1 below the severity that is shown\n"
    assert [one["rule"] for one in objects(HEALTHY, "--severity", "info")] == ["group.rebalance_cause"]


def test_only_one_group() -> None:
    shown = ("--severity", "info", "--group")
    assert [one["scope"] for one in objects(HEALTHY, *shown, "shop-consumer")] == [
        {"kind": "group", "name": "shop-consumer"}
    ]
    assert objects(HEALTHY, *shown, "another") == []


def test_only_exchanges_that_match() -> None:
    assert [one["numbers"]["client"] for one in objects(OLD, "-Y", "client.id == SimpleConsumerShell")] == [
        "SimpleConsumerShell@127.0.0.1"
    ]


@pytest.mark.parametrize(
    ("severity", "code"), [("error", Exit.OK), ("warn", Exit.CONDITION), ("info", Exit.CONDITION), ("empty", Exit.OK)]
)
def test_fail_on(severity: str, code: Exit) -> None:
    result = run(OLD, "--fail-on", severity)
    assert result.exit_code == code
    assert result.stdout.endswith("2 findings\n"), "findings are shown in any case"


def test_thresholds() -> None:
    (first, *_) = objects(OLD, "--limit", "upgrade.cutoff.probes=39")
    assert first["severity"] == "note"
    assert first["limits"] == {"probes": 39}


@pytest.mark.parametrize("limit", ["upgrade.cutoff.nothing=1", "upgrade.cutoff.probes=many", "x"])
def test_a_wrong_threshold_is_refused(limit: str) -> None:
    assert run(OLD, "--limit", limit).exit_code == Exit.USAGE


@pytest.mark.parametrize("name", [*RULES, "2", "#13"])
def test_every_rule_explains_itself(name: str) -> None:
    result = run("--explain", name)
    assert result.exit_code == Exit.OK
    row = RULES.get(name) or next(row for row in RULES.values() if str(row.number) == name.lstrip("#"))
    assert result.stdout.startswith(f"{row.id} (#{row.number}): {row.title}")
    assert all(guard in result.stdout for guard in row.guards)


def test_all_rules_are_listed() -> None:
    assert [line.split()[0] for line in run("--explain", "all").stdout.splitlines()] == list(RULES)


def test_an_unknown_rule() -> None:
    assert run("--explain", "none").exit_code == Exit.USAGE


def test_text_from_the_wire_is_escaped(tmp_path: Path) -> None:
    """A client id that would clear the screen, put into an old capture at equal length."""
    data = OLD.read_bytes().replace(b"SimpleConsumerShell", b"Simple\x1b[2J\rmerShel\n")
    hostile = tmp_path / "hostile.pcap"
    hostile.write_bytes(data)
    assert struct.unpack_from("<I", data)[0] == 0xA1B2C3D4
    shown = run(hostile).stdout
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert r"Simple\x1b[2J\rmerShel\n@127.0.0.1" in shown
