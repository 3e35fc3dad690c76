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


def exported(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, args)])


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["findings", *map(str, args)])


def objects(*args: str | Path) -> list[dict[str, Any]]:
    """What --json prints, warnings and errors only unless `args` say otherwise, without the health that ends it."""
    *lines, health = (json.loads(line) for line in run("--json", "--severity", "warn", *args).stdout.splitlines())
    assert health["schema"] == "kproxy.health/1"
    return lines


def test_one_line_each_then_the_evidence() -> None:
    result = run(OLD, "--severity", "warn")
    assert result.exit_code == Exit.OK
    lines = result.stdout.splitlines()
    assert lines[0].startswith("WARN  upgrade.cutoff  console-producer@127.0.0.1")
    assert lines[1].startswith("      cause: ")
    assert lines[2].startswith("      05:56:18.238 #12 ")
    assert lines[-1] == "12 findings, 10 not shown"


def test_objects_name_the_exchanges() -> None:
    first, second = objects(OLD)
    assert first["schema"] == "kproxy.finding/1"
    assert [one["exchange"] for one in first["evidence"]] == [12]
    assert {one["actors"][0]["client_id"] for one in (first, second)} == {"console-producer", "SimpleConsumerShell"}
    assert objects(OLD, "--format", "jsonl") == [first, second]


def test_the_most_costly_of_equal_severity_comes_first() -> None:
    assert [one["impact"]["value"] for one in objects(OLD)] == [38, 6]


def test_what_is_less_severe_is_counted() -> None:
    assert run(HEALTHY).stdout == "2 findings, 2 not shown\n"
    rules = [one["rule"] for one in objects(HEALTHY, "--severity", "info")]
    assert rules == ["group.rebalance_cause", "group.protocol_upgrade"]


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
    assert result.stdout.endswith("12 findings, 7 not shown\n"), "findings are shown in any case"


def test_thresholds() -> None:
    found = objects(OLD, "--severity", "note", "--limit", "upgrade.cutoff.probes=39")
    first = next(one for one in found if one["rule"] == "upgrade.cutoff")
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


def test_what_a_baseline_holds_is_left_out(tmp_path: Path) -> None:
    baseline = tmp_path / "known.jsonl"
    first, second = run("--json", OLD, "--severity", "warn").stdout.splitlines()[:2]
    baseline.write_text(f"{first}\n", encoding="utf-8")
    assert objects(OLD, "--baseline", baseline) == [json.loads(second)]
    assert run(OLD, "--baseline", baseline, "--fail-on", "warn").exit_code == Exit.CONDITION
    baseline.write_text(f"{first}\n{second}\n", encoding="utf-8")
    result = run(OLD, "--severity", "warn", "--baseline", baseline, "--fail-on", "warn")
    assert (result.stdout, result.exit_code) == ("12 findings, 12 not shown\n", Exit.OK)


def test_a_baseline_that_is_none_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"\xff")
    assert run(OLD, "--baseline", other).exit_code == Exit.USAGE
    other.write_text("{}", encoding="utf-8")
    assert "line 1 is not a line of `kproxy findings --json`" in run(OLD, "--baseline", other).stderr


@pytest.mark.parametrize(("form", "begin"), [("sarif", "{"), ("junit", "<?xml"), ("html", "<!doctype html>")])
def test_output_formats(form: str, begin: str) -> None:
    result = run(OLD, "--format", form)
    assert result.exit_code == Exit.OK
    assert result.stdout.startswith(begin)


def test_the_evidence_of_a_finding_is_exported(tmp_path: Path) -> None:
    first, second = objects(OLD)
    proven = {one["id"]: {proof["exchange"] for proof in one["evidence"]} for one in (first, second)}
    for name, wanted in (
        (first["id"][:8], proven[first["id"]]),
        ("upgrade.cutoff", proven[first["id"]] | proven[second["id"]]),
    ):
        lines = [json.loads(line) for line in exported(OLD, "--finding", name).stdout.splitlines()]
        assert {line["exchange"] for line in lines if line["schema"] == "kproxy.exchange/1"} == wanted
    slice_ = tmp_path / "evidence.pcapng"
    exported(OLD, "--finding", first["id"], "--format", "pcapng", "-o", slice_)
    (again,) = objects(slice_, "--severity", "note")
    assert again["scope"] == first["scope"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_exchanges_refer_to_their_findings(jobs: str) -> None:
    lines = [json.loads(line) for line in exported(OLD, "--findings", "--jobs", jobs).stdout.splitlines()]
    found = {line["exchange"]: line["findings"] for line in lines if line.get("findings")}
    assert {(number, one["id"]) for number, all_ in found.items() for one in all_} == {
        (proof["exchange"], one["id"])
        for one in objects(OLD, "--severity", "info")
        for proof in one["evidence"]
        if proof["exchange"]
    }


def test_what_no_finding_is_called() -> None:
    result = exported(OLD, "--finding", "nothing")
    assert result.exit_code == Exit.USAGE
    assert "no finding has the id or rule nothing" in result.stderr
