"""The runs of this user (relays and sniffers): their state files, and how to find, query and end them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kproxy.captures import private
from kproxy.runs import scratch
from kproxy.runs.settings import Settings

RUN_FILE = "run.json"
CONTROL = "control.sock"
POLL_SECONDS = 0.05
ASKING_SECONDS = 5.0
LONGEST_COMMAND = 8 << 20
LONGEST_SOCKET_PATH = 100

EXIT_USAGE, EXIT_CONNECT, EXIT_PERMISSION = 2, 4, 5
"""Exit codes of a run that could not start."""

Answer = dict[str, Any]
Commands = Mapping[str, Callable[[Answer], Answer]]
"""Handlers by command name; each is called with the whole request and returns the answer."""


# --- in the process of a run -----------------------------------------------------------------------------------------


def save(run_dir: Path, settings: Settings, started: float, **more: Any) -> None:
    """Writes run.json for this process; `more` holds the fields of a relay or sniffer. Ignores OSError."""
    state = {
        "format": 1,
        "pid": os.getpid(),
        "name": settings.run_name,
        "launcher": os.getppid(),
        "started": started,
        "device": settings.device,
        "bpf": settings.bpf,
        "scratch": settings.scratch_dir,
        **more,
    }
    beside = run_dir / f"{RUN_FILE}.new"
    with contextlib.suppress(OSError):
        beside.write_text(json.dumps(state))
        beside.replace(run_dir / RUN_FILE)


def control_socket(run_dir: Path) -> socket.socket:
    """A Unix socket that listens for commands; only this user can connect to it. Raises OSError."""
    path = run_dir / CONTROL
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen()
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(old)
    return listener


def answer(line: bytes, commands: Commands) -> bytes:
    """The line of JSON that answers a line with a command."""
    try:
        request = json.loads(line)
        asked = request.get("command")
    except (ValueError, AttributeError):
        said: Answer = {"error": "a command is a JSON object"}
    else:
        command = commands.get(asked) if isinstance(asked, str) else None
        said = {"error": f"unknown command {asked!r}"} if command is None else command(request)
    return json.dumps(said).encode() + b"\n"


def answer_in_thread(listener: socket.socket, commands: Commands) -> None:
    """Answers commands in a thread until the process ends; for processes without an event loop."""

    def serve() -> None:
        while True:
            asking, _ = listener.accept()
            with contextlib.suppress(OSError), asking:
                asking.settimeout(ASKING_SECONDS)
                with asking.makefile("rb") as lines:
                    asking.sendall(answer(lines.readline(LONGEST_COMMAND), commands))

    threading.Thread(target=serve, name="control", daemon=True).start()


# --- in other processes ----------------------------------------------------------------------------------------------


class NoRunError(Exception):
    """No run matches, or more than one matches; the text lists the existing runs."""


@dataclass(frozen=True, slots=True)
class Run:
    """A relay or sniffer that another process started; `state` is the content of its run.json.

    A run can be followed like a relay of this process (`kproxy.runs.following`), but goes on when following ends.
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
        """Whether the run still exists: its process lives and run.json is there. A run removes run.json at its end."""
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
        """The run's counters; None if the run does not answer."""
        try:
            return ask(self.run_dir, "status")
        except (OSError, ValueError):
            return None

    def end(self, seconds: float) -> bool:
        """Asks the run to drain and end; returns whether it ended within `seconds`.

        Raises OSError if it does not answer.
        """
        ask(self.run_dir, "stop")
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def stop(self) -> None:
        """Called when following ends; does nothing, because the run continues."""


def runs() -> Iterator[Run]:
    """The running relays and sniffers of this user, oldest first."""
    found = []
    for parent in (scratch.runs_dir(), scratch.temporary()):
        for state in parent.glob(f"{scratch.PREFIX}*/{RUN_FILE}") if parent.is_dir() else ():
            with contextlib.suppress(OSError, ValueError):
                if private.is_mine(state.parent) and scratch.is_live(state.parent):
                    run = Run(state.parent, json.loads(state.read_text()))
                    if run.alive:
                        found.append(run)
    yield from sorted(found, key=lambda run: (run.state["started"], run.pid))


def find(wanted: str | None) -> Run:
    """The run with this name or process id; with None, the only run there is. Raises NoRunError."""
    there = list(runs())
    named = "; ".join(f"{run.pid} {run.name}".rstrip() for run in there)
    if wanted is None:
        if len(there) == 1:
            return there[0]
        raise NoRunError(f"several runs exist, name one of them: {named}" if there else "nothing is running")
    for run in there:
        if wanted in {run.name, str(run.pid)}:
            return run
    raise NoRunError(f"no run {wanted!r}" + (f"; there are {named}" if there else "; nothing is running"))


def ask(run_dir: Path, command: str, seconds: float = ASKING_SECONDS, **more: Any) -> Answer:
    """Sends a command, with further fields `more`, to a run's control socket; returns the answer. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        control.settimeout(seconds)
        control.connect(str(run_dir / CONTROL))
        control.sendall(json.dumps({"command": command, **more}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = control.recv(1 << 16)
            if not piece:
                raise ConnectionError("the control socket was closed")
            answer += piece
    event: Answer = json.loads(answer)
    return event


class Refused(ValueError):  # noqa: N818 (an answer, not an error of the program)
    """A run refuses a command; the message is the run's."""


def ask_rules(run_dir: Path, op: str, **more: Any) -> Answer:
    """Sends a command about rules, such as "add"; returns the answer. Raises Refused, OSError."""
    answer = ask(run_dir, "faults", op=op, **more)
    if "error" in answer:
        raise Refused(str(answer["error"]))
    return answer
