"""`kproxy run --control` as a process, and calls of its HTTP interface."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.homes import homes
from tests.support.patience import SECONDS

COMMAND = [sys.executable, "-c", "from kproxy.cli.main import main; main()"]
TOKEN = "a-token-of-the-tests"


def environment(directory: Path, **more: str) -> dict[str, str]:
    """This process's environment without options for kproxy, with kproxy's directories inside `directory`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
    return {**ours, **homes(directory), **more}


def kproxy(env: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a kproxy command to its end."""
    words = [*COMMAND, *map(str, arguments)]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)


class Controlled:
    """A running `kproxy run --control`: `lines` is what it has printed, `url` its HTTP interface."""

    def __init__(self, process: subprocess.Popen[str], token: str) -> None:
        self.process = process
        self.lines: list[str] = []
        self.token = token
        self.url = self.bootstrap = ""
        assert process.stderr is not None
        for line in process.stderr:
            self.lines.append(line)
            if found := re.fullmatch(r"bootstrap\.servers=(\S+)\n", line):
                self.bootstrap = found[1]
            if found := re.fullmatch(r"control: (http://\S+)\n", line):
                self.url = found[1]
                break
        assert self.url, self.lines
        if not token:
            self.lines.append(process.stderr.readline())
            self.token = self.lines[-1].removeprefix("control token: ").strip()

    def call(
        self, method: str, path: str, body: str | None = None, kind: str = "text/plain", token: str | None = None
    ) -> tuple[int, Any]:
        """(status, body); `token` None is the right one."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}", "Content-Type": kind}
        data = None if body is None else body.encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@contextlib.contextmanager
def controlled(
    upstream: str, env: dict[str, str], *arguments: str, token: str = "", control: str = "0"
) -> Iterator[Controlled]:
    """Runs the proxy; `token` is the one that it is given, "" if it prints one."""
    process = subprocess.Popen(
        [*COMMAND, "run", "--upstream", upstream, "--listen", "0", "--headless", "--control", control, *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Controlled(process, token)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=SECONDS)
        finally:
            process.kill()
