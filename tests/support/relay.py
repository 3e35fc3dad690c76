"""`kproxy run` in network namespaces."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support.namespaces import Machine
from tests.support.patience import SECONDS
from tests.support.proxy import environment

COMMAND = [sys.executable, "-c", "from kproxy.cli.main import main; main()", "run"]
GREETINGS = ("connections to port", "bootstrap.servers=")


def eventually(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class Relay:
    """A recording `kproxy run` on a machine; it is killed at the end of the `with` block."""

    def __init__(self, machine: Machine, directory: Path, *arguments: str, before: Sequence[str] = ()) -> None:
        """`before` is a command that starts kproxy, such as a wrapper."""
        directory.mkdir(exist_ok=True)
        self.machine = machine
        self.directory = directory
        self.recording = directory / "recording.pcapng"
        self.said = directory / "said"
        self._log = self.said.open("wb")
        self.process = subprocess.Popen(
            [*machine.enter, *before, *COMMAND, "--headless", "-w", str(self.recording), *arguments],
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._everybody: set[psutil.Process] = set()

    def __enter__(self) -> Self:
        eventually(lambda: any(word in self.text for word in GREETINGS) or self.process.poll() is not None, self.text)
        assert self.process.poll() is None, self.text
        self._everybody = set(psutil.Process(self.process.pid).children(recursive=True))
        return self

    @property
    def text(self) -> str:
        return self.said.read_text()

    def await_word(self, word: str) -> None:
        eventually(lambda: word in self.text, f"it says {word!r}")

    def member(self, module: str) -> psutil.Process:
        (found,) = (one for one in psutil.Process(self.process.pid).children(recursive=True) if module in one.cmdline())
        return found

    @property
    def relay(self) -> psutil.Process:
        return self.member("kproxy.relay.process")

    @property
    def guardian(self) -> psutil.Process:
        return self.member("kproxy.transparent.guardian")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        # 130 if the interrupt came before kproxy was ready to follow the recording
        assert self.process.wait(SECONDS) in {0, 130}, self.text

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self._everybody |= set(psutil.Process(self.process.pid).children(recursive=True))
        for one in self._everybody:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.kill()
        self.process.wait()
        self._log.close()
