"""The commands of docs/first-steps.md, one after the other, as a newcomer types them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.cli.exits import Exit
from tests.support.homes import homes
from tests.support.patience import SECONDS

PAGE = Path(__file__).parents[2] / "docs" / "first-steps.md"
INTERACTIVE = {"kproxy demo", "kproxy replay demo.pcapng"}
"""What the page shows in a terminal; without one, these print the same exchanges as they pass."""
SEEN = {
    "demo": ["planted problems:", "leader.stale", "group.poll_gap", "latency.throttled"],
    "findings": ["group.poll_gap", "verify"],
    "topics": ["orders", "stock"],
    "groups": ["mailer", "mailer-2"],
    "stats": ["Produce"],
    "export": ["orders"],
}
"""Words in the output of a command."""


def commands() -> Iterator[str]:
    return (line for line in re.findall(r"^    \$ (.*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.system
def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    tried = [command for command in commands() if command not in INTERACTIVE]
    assert len(tried) > 8
    for command in tried:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=tmp_path,
            env={**os.environ, **homes(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS + 30,
        )
        assert done.returncode == Exit.OK, (command, done.stderr)
        name = command.split()[1]
        assert all(word in done.stdout for word in SEEN[name]) or "--by" in command, (command, done.stdout[-2000:])
    planted = re.findall(r"^      found +\S+ .*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(planted) == 3
