"""Where an option's value comes from, and what is said about keys that mean nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kproxy.cli import commands, settings
from kproxy.cli import main as cli
from kproxy.cli.exits import Exit


@click.command()
@click.option("--listen", default="default", help="Where.")
@click.option("--port-base", type=int, help="First port.")
@click.option("--upstream", multiple=True, help="Who.")
@click.option("--headless", is_flag=True, help="No UI.")
def show(listen: str, port_base: int | None, upstream: tuple[str, ...], headless: bool) -> None:
    current = settings.current()
    facts = {"listen": listen, "port": port_base, "upstream": upstream, "headless": headless, "json": current.json,
             "color": current.color, "verbose": current.verbose}  # fmt: skip
    click.echo(json.dumps(facts))


FILE = """
listen = "top"
upstream = ["a:1", "b:2"]
color = "never"
[show]
port-base = 7000
[profile.lab]
listen = "profile"
[profile.lab.show]
headless = true
[keymap]
anything = "x"
"""


@pytest.fixture(autouse=True)
def _commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(
        commands, "COMMANDS", {"show": commands.Entry("x:y", "Show."), "other": commands.Entry("x:y", "Other.")}
    )
    monkeypatch.setattr(commands, "load", lambda _: show)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "kproxy").mkdir()
    for name in ("KPROXY_LISTEN", "KPROXY_SHOW_LISTEN", "KPROXY_PROFILE", "KPROXY_UPSTREAM"):
        monkeypatch.delenv(name, raising=False)
    yield
    for handler in logging.getLogger().handlers[:]:
        if type(handler) in {logging.FileHandler, logging.StreamHandler}:
            logging.getLogger().removeHandler(handler)
            handler.close()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "kproxy" / "config.toml"
    path.write_text(FILE)
    return path


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.main, list(args))


def shown(*args: str) -> dict[str, object]:
    result = run(*args)
    assert result.exit_code == Exit.OK, result.stderr
    assert not result.stderr
    facts: dict[str, object] = json.loads(result.stdout)
    return facts


def test_defaults_hold_without_a_file() -> None:
    assert shown("show") == {
        "listen": "default", "port": None, "upstream": [], "headless": False,
        "json": False, "color": "auto", "verbose": 0,
    }  # fmt: skip


@pytest.mark.usefixtures("config")
def test_the_file() -> None:
    facts = shown("show")
    assert (facts["listen"], facts["port"], facts["upstream"], facts["color"]) == ("top", 7000, ["a:1", "b:2"], "never")


@pytest.mark.usefixtures("config")
def test_each_source_is_stronger_than_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown("show")["listen"] == "top"
    assert shown("--profile", "lab", "show")["listen"] == "profile"
    assert shown("show", "--profile", "lab")["headless"] is True
    monkeypatch.setenv("KPROXY_LISTEN", "environment")
    assert shown("show", "--profile", "lab")["listen"] == "environment"
    monkeypatch.setenv("KPROXY_SHOW_LISTEN", "own environment")
    assert shown("show", "--profile", "lab")["listen"] == "own environment"
    assert shown("-X", "listen=override", "show")["listen"] == "override"
    assert shown("-X", "listen=override", "show", "-X", "show.listen=own")["listen"] == "own"
    assert shown("-X", "listen=override", "show", "--listen", "flag")["listen"] == "flag"


def test_text_becomes_the_option_s_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROXY_UPSTREAM", "a:1 b:2")
    facts = shown("show", "-X", "port-base=9000", "-X", "headless=true")
    assert (facts["port"], facts["headless"], facts["upstream"]) == (9000, True, ["a:1", "b:2"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["show", "-X", "port-base=x"], "'x' is not a valid integer"),
        (["show", "--profile", "lib"], "no profile 'lib'"),
        (["--config", "/nowhere/c.toml", "show"], "/nowhere/c.toml: no such configuration file"),
    ],
)
def test_wrong_values_are_usage_errors(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code == Exit.USAGE
    assert message in result.stderr


def test_a_file_that_is_not_toml(config: Path) -> None:
    config.write_text("listen =")
    result = run("show")
    assert result.exit_code == Exit.USAGE
    assert f"{config}: not TOML" in result.stderr


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('lisen = "x"', "configuration: unknown key 'lisen'; did you mean listen?"),
        ("[shwo]\nlisten = 'x'", "configuration: unknown key 'shwo'; did you mean show?"),
        ("[show]\nport = 1", "configuration [show]: unknown key 'port'"),
        ("[profile.lab]\nheadles = true", "profile lab: unknown key 'headles'; did you mean headless?"),
    ],
)
def test_unknown_keys_are_warned_of_with_the_nearest_name(config: Path, text: str, warning: str) -> None:
    config.write_text(text)
    result = run("show")
    assert result.exit_code == Exit.OK
    assert result.stderr.startswith(f"kproxy: warning: {warning}")
    assert not run("-q", "show").stderr


def test_unknown_overrides_are_errors() -> None:
    for key, words in (
        ("lissten=1", "-X: unknown key 'lissten'; did you mean listen?"),
        ("shows.listen=1", "-X: unknown key 'shows'; did you mean show?"),
    ):
        result = run("show", "-X", key)
        assert result.exit_code == Exit.USAGE
        assert words in result.stderr
    assert not run("show", "-X", "other.listen=1").stderr


def test_global_options_come_from_everywhere(config: Path) -> None:
    config.write_text("verbose = 2\njson = true\nlog-format = 'json'")
    facts = shown("-X", "color=always", "show", "--log-file", str(config.parent / "log"))
    assert (facts["verbose"], facts["json"], facts["color"]) == (2, True, "always")


def test_the_log_is_json_when_asked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run("show", "-v", "--log-file", str(log), "--log-format", "json").exit_code == Exit.OK
    logging.getLogger("kproxy").info('a "quoted" %s', "word")
    line = json.loads(log.read_text().splitlines()[-1])
    assert (line["level"], line["message"]) == ("INFO", 'a "quoted" word')


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    result = run("show", "--log-file", str(tmp_path / "none" / "log"))
    assert result.exit_code == Exit.USAGE
    assert "No such file or directory" in result.stderr
