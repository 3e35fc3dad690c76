"""`kproxy addons reload`: an actor that has failed acts again, as its file is by now."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kproxy.test_run import running
from tests.support.homes import homes

pytestmark = pytest.mark.timeout(60)

ACTOR = """
from pathlib import Path
from kproxy.addons import Actor

class Notes(Actor):
    apis = ("Heartbeat",)

    def request(self, frame):
        with Path({calls!r}).open("a") as file:
            file.write({said!r})
        {then}
"""


NAME = f"reload-{os.getpid()}"
"""Of the run: others may run at the same time."""


def reload(directory: Path, *arguments: str, **more: str) -> tuple[str, int]:
    """(standard error, exit code)"""
    command = [
        sys.executable,
        "-c",
        "from kproxy.cli.main import main; main()",
        "addons",
        "reload",
        "--run",
        NAME,
        *arguments,
    ]
    env = {**os.environ, **homes(directory), **more}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    return done.stderr, done.returncode


def test_an_actor_that_has_failed_acts_again(tmp_path: Path) -> None:
    calls, path = tmp_path / "calls", tmp_path / "notes.py"
    path.write_text(ACTOR.format(calls=str(calls), said="old ", then="raise ValueError"))
    with running(tmp_path, "--name", NAME, "--addon", str(path), "--headless") as run:
        for _ in range(2):
            run.exchange(12, 0)
        assert calls.read_text() == "old "
        path.write_text(ACTOR.format(calls=str(calls), said="mended ", then="return None"))
        os.utime(path, (1, 1))  # a cache of what was compiled must not count
        said, code = reload(tmp_path, "Nobody")
        assert "there is no actor 'Nobody'" in said
        assert code == 2
        assert reload(tmp_path, "Notes") == ("reloaded: Notes\n", 0)
        run.exchange(12, 0)
        assert calls.read_text() == "old mended "
        path.write_text("syntax error")
        said, code = reload(tmp_path)
        assert "SyntaxError" in said
        assert code == 2
        run.exchange(12, 0)
        assert calls.read_text() == "old mended mended ", "what cannot be loaded changes nothing"


def test_without_actors_or_a_run_it_says_so(tmp_path: Path) -> None:
    nothing = f"kproxy: no run {NAME!r}; nothing is running\n"
    assert reload(tmp_path, TMPDIR=str(tmp_path)) == (nothing, 2)
    with running(tmp_path, "--name", NAME, "--headless"):
        assert reload(tmp_path) == ("kproxy: this proxy has no actors (--addon)\n", 2)
