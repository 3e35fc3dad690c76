"""`kproxy schema`, for somebody who writes a client."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.decoders.schema import definitions
from tests.decoders.support import every_message


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["schema", *args])


def out(*args: str) -> str:
    result = run(*args)
    assert result.exit_code == Exit.OK, result.output
    return result.stdout


def lines(*args: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out(*args, "--json").splitlines()]


def test_list() -> None:
    text = out("list")
    rows = {row.split()[1]: row.split() for row in text.splitlines()[1:] if row[:1].isdecimal()}
    assert len(rows) == len(definitions().apis)
    assert rows["Fetch"] == ["1", "Fetch", "core", "4-18", "0.8.0"]
    assert rows["LeaderAndIsr"] == ["4", "LeaderAndIsr", "control", "-", "0.8.0", "until", "3.9"]
    assert "ConsumerProtocolSubscription" in text[text.index("Messages without API") :]
    assert "0-17" in next(line for line in out("list", "--release", "3.9").splitlines() if " Fetch " in line)
    apis = lines("list")
    assert apis[2]["older_names"] == ["Offset", "Offsets", "ListOffset"]
    assert apis[4]["versions"] is None


def test_every_message_at_every_version() -> None:
    """All in one process: what each version shows is there, and no line is empty."""
    for message, version in every_message():
        table = out("show", message.name, str(version))
        assert re.search(rf"^\w+ v{version}: ", table, re.MULTILINE)
        grammar = out("show", message.name, str(version), "--format", "bnf").splitlines()
        assert f"(Version: {version}) =>" in grammar[0]
        assert all(line.strip() for line in grammar)


@pytest.mark.parametrize("name", ["Fetch", "fetch", "FETCH", "1", "FetchKey"])
def test_names(name: str) -> None:
    text = out("show", name)
    assert "FetchRequest: versions 0-18, flexible 12+" in text
    assert "FetchResponse: " in text
    assert "spoken by 4.4.0: 4-18; 3.9.2: 0-17" in text


def test_names_of_one_side_and_of_messages() -> None:
    assert "FetchRequest" not in out("show", "FetchResponse")
    assert "FetchResponse" not in out("show", "Fetch", "--request")
    assert out("show", "Offsets").startswith("ListOffsets, API key 2, core, since 0.8.0, was Offset")
    assert out("show", "requestheader").startswith("RequestHeader: versions 0-2")
    assert "userData" in out("show", "ConsumerProtocolSubscription")
    assert "type 1 in __consumer_offsets" in out("show", "OffsetCommitValue")
    assert lines("show", "TopicRecord")[0]["topic"] == "__cluster_metadata"


def test_fields_of_a_version() -> None:
    text = out("show", "Fetch", "13", "--request")
    assert "FetchRequest v13: flexible, header v2" in text
    fields = {line.split()[0]: line.split()[1:] for line in text.splitlines()[4:]}
    assert fields["clusterId"] == ["string", "12+", "tag", "0,", "nullable,", "default", "null"]
    assert fields["replicaId"] == ["int32", "0-14", "default", "-1"]
    assert fields["rackId"] == ["string", "11+", "default", '""']
    assert "replicaState" not in fields
    (shown,) = lines("show", "Fetch", "13", "--request")
    assert shown["versions"] == [13]
    assert {"path": "topics[].topicId", "type": "uuid", "versions": "13+", "ignorable": True} in shown["fields"]


def test_a_layout_that_only_an_older_release_has() -> None:
    assert "another layout in 3.9.2" in "".join(
        out("show", message.name, str(version)) for message, version in every_message() if message.release == "3.9.2"
    )


def test_diff() -> None:
    result = run("diff", "Fetch", "12", "13", "--request")
    assert result.exit_code == Exit.CONDITION
    assert [line.split() for line in result.stdout.splitlines()[1:3]] == [
        ["-", "topics[].topic", "string"],
        ["+", "topics[].topicId", "uuid"],
    ]
    same = run("diff", "Fetch", "13", "13")
    assert same.exit_code == Exit.OK
    assert "no field differs" in same.stdout
    flexible = run("diff", "Heartbeat", "3", "4", "--request", "--json")
    (line,) = map(json.loads, flexible.stdout.splitlines())
    assert line["changes"] == [{"change": "changed", "path": "", "before": "not flexible", "after": "flexible"}]


def test_coverage() -> None:
    fetch = out("coverage").splitlines()[2].split()
    assert fetch == ["1", "Fetch", "4-18", "0-17", "0-18", "0.8.0", "to", "now"]
    for line in lines("coverage"):
        for spoken in filter(None, line["spoken"].values()):
            assert line["decoded"][0] <= spoken[0] <= spoken[1] <= line["decoded"][1]


def test_errors() -> None:
    assert len(out("errors").splitlines()) == 1 + len(lines("errors"))
    for name in ("6", "NOT_LEADER_OR_FOLLOWER", "NotLeaderForPartition", "NotLeaderOrFollowerException"):
        (error,) = lines("errors", name)
        assert (error["code"], error["retriable"]) == (6, True)
    assert out("errors", "-1").startswith("code")
    detail = out("errors", "6")
    assert "NOT_LEADER_FOR_PARTITION" in detail
    assert "Ask for metadata and go to the new leader" in " ".join(detail.split())
    assert max(map(len, detail.splitlines())) <= 80


def test_what_fields_are_for() -> None:
    plain, explained = (out("show", "Fetch", "13", "--request", *more) for more in ((), ("--explain",)))
    assert set(plain.splitlines()) < set(explained.splitlines())
    assert max(map(len, explained.splitlines())) <= 80


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["show", "Fetsh"], "no API and no message is called 'Fetsh'; did you mean Fetch?"),
        (["show", "zzzzzz"], "(kproxy schema list shows all)"),
        (["show", "Fetch", "19"], "FetchRequest has versions 0-18, not 19"),
        (["show", "RequestHeader", "--response"], "--response: RequestHeader is not a response"),
        (["diff", "Fetch", "12", "99"], "FetchRequest has versions 0-18, not 99"),
        (["errors", "NOT_LEADER_OR_FOLOWER"], "did you mean NOT_LEADER_OR_FOLLOWER?"),
        (["errors", "9999"], "no error '9999'"),
        (["list", "--release", "1.0"], "no definitions of Kafka 1.0"),
    ],
)
def test_a_wrong_command_line(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code == Exit.USAGE
    assert message in result.stderr
    assert not result.stdout


@pytest.mark.parametrize(
    ("args", "incomplete", "expected"),
    [
        (["schema", "show"], "Heart", ["Heartbeat"]),
        (["schema", "show", "SaslHandshake"], "", ["0", "1"]),
        (["schema", "errors"], "not_l", ["NOT_LEADER_OR_FOLLOWER"]),
        (["decode", "--api"], "consumerprotocols", ["ConsumerProtocolSubscription"]),
        (["decode", "--api", "SaslHandshake", "--version"], "", ["0", "1"]),
    ],
)
def test_completion(args: list[str], incomplete: str, expected: list[str]) -> None:
    shell = ShellComplete(main, {}, "kproxy", "_KPROXY_COMPLETE")
    assert [item.value for item in shell.get_completions(args, incomplete)] == expected


def test_options_come_from_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROXY_SCHEMA_RELEASE", "3.9")
    assert "3.9.2" in out("list").splitlines()[0]
    assert lines("list")[0]["release"] == "3.9.2"
    assert "schema.release" in CliRunner().invoke(main, ["config", "show"]).stdout
    monkeypatch.setenv("KPROXY_JSON", "1")
    assert json.loads(out("coverage").splitlines()[0])["api"] == "Produce"


def test_a_misspelt_key_of_a_group_is_told() -> None:
    result = CliRunner().invoke(main, ["-X", "schema.relase=3.9", "schema", "list"])
    assert "unknown key 'relase'; did you mean release?" in result.stderr
