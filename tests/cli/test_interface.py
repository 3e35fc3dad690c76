from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kproxy.cli import interface, settings
from kproxy.tui.settings.keeping import SavedFilters
from kproxy.tui.settings.preferences import Preferences
from kproxy.tui.terminal.themes import THEMES

CONFIGURATION = """\
theme = "dark"

[replay]
theme = "light"

[filters]
slow = "latency > 1s"
odd = 3

[keymap]
"list.tail" = "t"
"""


def test_the_themes_are_those_of_the_interface() -> None:
    assert list(interface.THEMES) == list(THEMES)


@pytest.mark.parametrize(
    ("arguments", "theme", "plain", "mouse"),
    [
        ([], "light", False, True),
        (["--theme", "mono", "--plain", "--no-mouse"], "mono", True, False),
        (["-X", "theme=high-contrast"], "high-contrast", False, True),
    ],
)
def test_preferences_are_what_options_and_configuration_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], theme: str, plain: bool, mouse: bool
) -> None:
    from kproxy import tui
    from kproxy.cli.commands import replay
    from kproxy.cli.main import main

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config.toml").write_text(CONFIGURATION)
    found: list[Preferences] = []

    def run(*_: object, preferences: Preferences, **__: object) -> bool:
        found.append(preferences)
        return False

    monkeypatch.setattr(tui, "run", run)
    monkeypatch.setattr(replay, "can_paint", lambda **_: True)
    settings.reset()
    capture = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
    result = CliRunner().invoke(
        main, ["--config", str(tmp_path / "config.toml"), "replay", *arguments, str(capture)], standalone_mode=False
    )
    settings.reset()
    assert result.exception is None, result.exception
    assert found == [
        Preferences(
            filters={"slow": "latency > 1s"},
            keymap={"list.tail": "t"},
            theme=theme,
            plain=plain,
            mouse=mouse,
            looks_for_findings=True,
            state=tmp_path / "state" / "kproxy",
        )
    ]
    assert "[filters]: 'odd' is not a string" in result.stderr


def test_a_theme_that_is_none_is_refused() -> None:
    @click.command()
    @interface.painting
    def show() -> None:
        raise AssertionError

    result = CliRunner().invoke(show, ["--theme", "blue"])
    assert result.exit_code == 2
    assert "high-contrast" in result.stderr


def test_the_configuration_is_checked(tmp_path: Path) -> None:
    from kproxy.cli.main import main

    path = tmp_path / "config.toml"
    path.write_text('theme = "blue"\n[filters]\nslow = "latenzy > 1s"\n[keymap]\n"list.tail" = "enter"\n')
    settings.reset()
    result = CliRunner().invoke(main, ["--config", str(path), "config", "check"])
    settings.reset()
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert "kproxy: configuration [filters]: slow: unknown field 'latenzy'; did you mean latency?" in lines
    assert "kproxy: configuration [keymap]: list.tail: list.open already has that key" in lines
    assert any(line.startswith("kproxy: configuration: replay.theme: 'blue'") for line in lines)


def test_a_saved_filter_is_known_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kproxy.cli.main import main

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    capture = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
    path = tmp_path / "config.toml"
    path.write_text('[filters]\ncommits = "api == OffsetCommit"\n')
    SavedFilters({}, tmp_path / "state" / "kproxy" / "filters.json").save("hello", "api == ApiVersions")

    def lines(text: str) -> list[str]:
        settings.reset()
        result = CliRunner().invoke(main, ["--config", str(path), "export", "-Y", text, str(capture)])
        settings.reset()
        assert result.exit_code == 0, result.stderr
        return [line for line in result.stdout.splitlines() if "kproxy.exchange/1" in line]

    assert lines("$commits or $hello") == lines("api == OffsetCommit or api == ApiVersions")
    assert len(lines("$hello")) == 28
    settings.reset()
    refused = CliRunner().invoke(main, ["export", "-Y", "$helo", str(capture)])
    settings.reset()
    assert refused.exit_code == 2
    assert "no saved filter $helo; did you mean $hello?" in refused.stderr
