"""docs/stories.md shows what its commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli.exits import Exit
from kproxy.cli.main import main

ROOT = Path(__file__).parents[2]
SHOWN = re.findall(
    r"^    \$ kproxy (.*)\n((?:    .*\n)*)", (ROOT / "docs" / "stories.md").read_text(encoding="utf-8"), re.MULTILINE
)
"""(arguments, lines that follow) of each command."""


@pytest.mark.parametrize(("arguments", "lines"), SHOWN, ids=[arguments.split()[0] for arguments, _ in SHOWN])
def test_a_story_shows_what_its_command_prints(arguments: str, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(main, shlex.split(arguments), env={"TZ": "UTC", "COLUMNS": "200"})
    assert done.exit_code == Exit.OK, done.stderr
    printed = iter(done.stdout.splitlines())
    wanted = [line[4:] for line in lines.splitlines()]
    assert wanted
    for line in wanted:
        start = line.removesuffix("…").rstrip()
        assert any(one == line or (line.endswith("…") and one.startswith(start)) for one in printed), line


def test_there_are_stories() -> None:
    assert len(SHOWN) == 7
