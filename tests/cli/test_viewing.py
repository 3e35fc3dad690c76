"""--view, --schemas and --registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import traffic

CAPTURE = str(traffic.LIBRDKAFKA)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def records(*arguments: str) -> list[dict[str, object]]:
    result = run("export", CAPTURE, "--format", "records", *arguments)
    assert result.exit_code == Exit.OK, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_rule_shows_values_of_its_topics_by_its_viewer() -> None:
    plain = records()
    shown = records("--view", "*.value=hex")
    compared = 0
    for before, after in zip(plain, shown, strict=True):
        value = after["value"]
        if isinstance(value, dict) and "format" in value and isinstance(before["value"], str):
            assert value["decoded"] == before["value"].encode().hex()
            compared += 1
        assert after["key"] == before["key"] or isinstance(after["key"], dict)
    assert compared > 100


def test_json_of_replay_is_that_of_export(tmp_path: Path) -> None:
    (tmp_path / "a-value.avsc").write_text('"int"')
    options = ("--view", "*=hex", "--schemas", str(tmp_path))
    exported = run("export", CAPTURE, *options)
    assert exported.stdout == run("replay", CAPTURE, "--json", *options).stdout
    assert exported.stdout != run("export", CAPTURE).stdout
    assert '"format":"hex"' in exported.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--view", "orders=xml"), "no viewer 'xml': there are avro, cbor, hex"),
        (("--view", "orders"), "'orders' is not TOPIC"),
        (("--registry", "http://ann:geheim@host"), "a registry's address must not contain a user or password"),
        (("--registry", "host:8081"), "a registry's address begins with http"),
        (("--schemas", "no such folder"), "does not exist"),
    ],
)
@pytest.mark.parametrize("command", ["export", "replay"])
def test_what_they_do_not_take(command: str, arguments: tuple[str, ...], said: str) -> None:
    result = run(command, CAPTURE, "--json", *arguments)
    assert result.exit_code == Exit.USAGE
    assert said in result.stderr
    assert "geheim" not in result.output


def test_a_proxy_does_not_start_with_a_rule_that_means_nothing() -> None:
    result = run("run", "--upstream", "127.0.0.1:1", "--listen", "0", "--json", "--view", "orders=xml")
    assert result.exit_code == Exit.USAGE
    assert "no viewer 'xml'" in result.stderr


def test_a_bad_file_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "a-value.avsc").write_text("{")
    result = run("export", CAPTURE, "-c", "1", "--schemas", str(tmp_path))
    assert result.exit_code == Exit.OK
    assert f"{tmp_path / 'a-value.avsc'}: a bad schema" in result.stderr


def test_a_registry_s_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROXY_REGISTRY", "http://ann:geheim@host")
    shown = run("config", "show")
    assert "export.registry = 'http://***@host'" in shown.stdout
    checked = run("config", "check")
    assert checked.exit_code == Exit.USAGE
    assert "geheim" not in shown.output + checked.output
