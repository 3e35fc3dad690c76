"""`kproxy run` as a process, for system tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests.support.brokers import free_ports
from tests.support.homes import homes
from tests.support.patience import SECONDS

KPROXY = Path(sys.executable).with_name("kproxy")


def environment(directory: Path) -> dict[str, str]:
    """The environment for kproxy: this process's, with kproxy's directories inside `directory`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
    return {**ours, **homes(directory)}


def kproxy(directory: Path, *arguments: str | Path, timeout: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a kproxy command to its end."""
    return subprocess.run(
        [KPROXY, *arguments],
        env=environment(directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def tcp_connections(pid: int) -> list[Any]:
    """TCP sockets of a process and its children; fewer if one of them ends meanwhile."""
    found: list[Any] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.extend(one.net_connections("tcp"))
    return found


class Proxy:
    """A proxy in front of `upstream` that records into `recording`; it is killed at the end of the `with` block.

    It listens on port `listen`, or on a free one.
    """

    def __init__(self, upstream: str, directory: Path, *options: str, listen: int | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.recording = directory / "recording.pcapng"
        self.port = free_ports(1)[0] if listen is None else listen
        self.bootstrap = f"127.0.0.1:{self.port}"
        arguments = ["--upstream", upstream, "--listen", self.bootstrap, "--headless", "-w", str(self.recording)]
        self.out = directory / "kproxy.out"
        self.err = directory / "kproxy.err"
        self._children: set[psutil.Process] = set()
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [KPROXY, "run", *arguments, *options],
                env=environment(directory),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def said(self) -> str:
        return f"stderr: {self.err.read_text()[-3000:]}\nstdout: {self.out.read_text()[-1000:]}"

    def listeners(self) -> set[int]:
        """Ports on which the proxy listens now."""
        return {
            socket.laddr.port for socket in tcp_connections(self.process.pid) if socket.status == psutil.CONN_LISTEN
        }

    def __enter__(self) -> Self:
        try:
            self._await_listening()
        except BaseException:
            self._kill()
            raise
        return self

    def _await_listening(self) -> None:
        deadline = time.monotonic() + SECONDS
        while self.port not in self.listeners():
            assert self.process.poll() is None, f"kproxy run ended with {self.process.returncode}: {self.said()}"
            assert time.monotonic() < deadline, f"kproxy run does not listen: {self.said()}"
            time.sleep(0.05)
        self._children = self._now()

    def stop(self, seconds: float = SECONDS) -> int:
        """Interrupt the proxy by SIGINT, as a user would, and wait for its end; returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"kproxy run does not end: {self.said()}") from None

    def _kill(self) -> None:
        """Kill the proxy and its children; a process group does not suffice, as the relay leads its own session."""
        for process in {*self._children, *self._now()}:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    def _now(self) -> set[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return set(psutil.Process(self.process.pid).children(recursive=True))
        return set()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._kill()


def export(recording: Path, directory: Path, timeout: float = SECONDS) -> list[dict[str, Any]]:
    """The exchanges that `kproxy export` writes for a recording."""
    out = directory / "exchanges.jsonl"
    run = kproxy(directory, "export", recording, "-o", out, "--force", timeout=timeout)
    assert run.returncode == 0, run.stderr
    with out.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
