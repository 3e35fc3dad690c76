"""The runs of this user: which there are, what they say of themselves, and how they are told to end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kproxy import scratch

RUN_FILE = "run.json"
CONTROL = "control.sock"
POLL_SECONDS = 0.05

Answer = dict[str, Any]


class NoRunError(Exception):
    """No run is meant, or not exactly one."""


@dataclass(frozen=True, slots=True)
class Run:
    """A relay that was started by somebody; `state` is its run.json.

    It can be followed like a relay of our own (`kproxy.following`), only that this does not end it.
    """

    run_dir: Path
    state: Answer

    @property
    def pid(self) -> int:
        return int(self.state["pid"])

    @property
    def name(self) -> str:
        return str(self.state.get("name", ""))

    @property
    def recording(self) -> Path | None:
        found = self.state["recording"]
        return None if found is None else Path(found)

    @property
    def alive(self) -> bool:
        """Whether the relay is there; one that has ended properly has taken its run.json away."""
        if not (self.run_dir / RUN_FILE).exists():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def status(self) -> Answer | None:
        """The relay's counters; None where it does not answer."""
        try:
            return ask(self.run_dir, "status")
        except (OSError, ValueError):
            return None

    def end(self, seconds: float) -> bool:
        """Has the relay drain and end; whether it did so in time. Raises OSError where it does not answer."""
        ask(self.run_dir, "stop")
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def stop(self) -> None:
        """Following has ended; the relay goes on."""


def runs() -> Iterator[Run]:
    """Living runs of this user, oldest first."""
    found = []
    for parent in (scratch.runs_dir(), scratch.temporary()):
        for state in parent.glob(f"{scratch.PREFIX}*/{RUN_FILE}") if parent.is_dir() else ():
            with contextlib.suppress(OSError, ValueError):
                if state.stat().st_uid == os.getuid() and scratch.is_live(state.parent):
                    run = Run(state.parent, json.loads(state.read_text()))
                    if run.alive:
                        found.append(run)
    yield from sorted(found, key=lambda run: (run.state["started"], run.pid))


def find(wanted: str | None) -> Run:
    """The run with this name or process id; without one the only run. Raises NoRunError."""
    there = list(runs())
    named = "; ".join(f"{run.pid} {run.name}".rstrip() for run in there)
    if wanted is None:
        if len(there) == 1:
            return there[0]
        raise NoRunError(f"which of these: {named}" if there else "nothing is running")
    for run in there:
        if wanted in {run.name, str(run.pid)}:
            return run
    raise NoRunError(f"no run {wanted!r}" + (f"; there are {named}" if there else "; nothing is running"))


def ask(run_dir: Path, command: str, seconds: float = 5.0) -> Answer:
    """One command to the control socket of a run. Raises OSError where nobody answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        control.settimeout(seconds)
        control.connect(str(run_dir / CONTROL))
        control.sendall(json.dumps({"command": command}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = control.recv(1 << 16)
            if not piece:
                raise ConnectionError("the relay closed the control socket")
            answer += piece
    event: Answer = json.loads(answer)
    return event
