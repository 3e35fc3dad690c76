"""--definitions and --dialect on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.decoders.schema.test_kafkajson import GOOD, RESPONSE
from tests.support.coordinator import DATA

DRAFT = DATA / "coordinator-draft-1.pcap"


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, args)))


def test_export_prints_the_worked_example() -> None:
    result = run("export", DRAFT, "--dialect", "coordinator-draft-1")
    assert result.exit_code == Exit.OK
    assert result.stdout == (DATA / "coordinator-draft-1.jsonl").read_text()


def test_a_filter_knows_what_is_defined_wherever_it_stands() -> None:
    result = run("export", "-Y", "api == Register", DRAFT, "--definitions", "coordinator-draft-1")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["api"] for line in lines if "api" in line] == ["Register"] * 3


def test_replay_says_who_asked() -> None:
    result = run("replay", "--headless", DRAFT, "--dialect", "coordinator-draft-1")
    lines = result.stdout.splitlines()
    assert "10.0.0.1:40002        < 10.0.0.3:9500         Ping v0" in lines[6]
    assert "shop                  > 10.0.0.2:9092         Consult v0" in lines[2]


def test_stats_name_a_dialects_requests() -> None:
    result = run("stats", "--json", DRAFT, "--dialect", "coordinator-draft-1")
    *lines, _health = map(json.loads, result.stdout.splitlines())
    assert {line["api"] for line in lines} == {
        "Metadata", "Consult", "Register", "Ping", "Stop", "Start",
    }  # fmt: skip


@pytest.mark.parametrize(
    "command", [("export", DRAFT), ("stats", DRAFT), ("replay", DRAFT), ("run", "--upstream", "a")]
)
def test_a_wrong_file_is_refused_with_file_line_and_reason(command: tuple[str | Path, ...], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(GOOD.replace('"type": "int32"', '"type": "int31"'))
    result = run(*command, "--definitions", wrong)
    assert result.exit_code == Exit.USAGE
    assert f"{wrong}:12: unknown type 'int31'" in result.stderr.replace("\n", " ")


def test_files_are_read_together(tmp_path: Path) -> None:
    """A request and its response may be given one by one."""
    (tmp_path / "a.json").write_text(GOOD)
    (tmp_path / "b.json").write_text(RESPONSE)
    one = ("--definitions", tmp_path / "a.json")
    assert run("stats", DRAFT, *one, "--definitions", tmp_path / "b.json").exit_code == Exit.OK
    result = run("stats", DRAFT, *one)
    assert result.exit_code == Exit.USAGE
    assert "a.json:3: VendorThingRequest has no response" in result.stderr.replace("\n", " ")


def test_schema_and_decode_know_what_is_given(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(GOOD)
    (tmp_path / "b.json").write_text(RESPONSE)
    given = ("--definitions", tmp_path)
    for name in ("VendorThing", "vendor_thing", "10000", "VendorThingRequest"):
        shown = run("schema", "show", name, "2", *given)
        assert shown.exit_code == Exit.OK, shown.stderr
        assert "VendorThingRequest v2: flexible, header v2\n" in shown.stdout
        assert "tenantId" in shown.stdout
    assert "VendorThingRequest v0 to v1" in run("schema", "diff", "VendorThing", "0", "1", *given).stdout
    api = [json.loads(line) for line in run("schema", "list", "--json", *given).stdout.splitlines()][-1]
    assert (api["key"], api["name"], api["class"], api["first_release"]) == (10000, "VendorThing", "given", None)
    assert "VendorThing" in run("schema", "list", *given).stdout
    request = "00000014 2710 0000 00000007 ffff 0002 6162 00000000"
    line = json.loads(run("decode", "--json", request, *given).stdout.splitlines()[0])
    assert (line["message"], line["api"]) == ("VendorThingRequest", "VendorThing")
    assert line["body"]["tenantId"] == "ab"
    unknown = run("schema", "show", "VendorThing")
    assert unknown.exit_code == Exit.USAGE
    assert "no API and no message is called 'VendorThing'" in unknown.stderr.replace("\n", " ")
