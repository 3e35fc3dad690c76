"""Runs a client's program in a process group of its own, with a time limit and bounded output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

TAIL: Final = 64 << 10
"""Bytes of output that are kept: the last ones of stdout and stderr together."""
POLL_SECONDS: Final = 0.05
_PIECE: Final = 1 << 14
_GRACE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. `code` is its exit code, negative for a signal; None if it was killed at the time limit."""

    code: int | None
    seconds: float
    output: str


class _Tail:
    """The last bytes of a pipe, which a thread reads until its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def _read(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(pipe.fileno(), _PIECE):
                self._kept += piece
                del self._kept[:-TAIL]

    def text(self) -> str:
        self._thread.join(_GRACE_SECONDS)  # a process that left the group may still hold the pipe
        return self._kept.decode(errors="replace")


def run(command: Sequence[str], env: Mapping[str, str], seconds: float, meanwhile: Callable[[], None]) -> Ended:
    """Runs `command` to its end, or kills its process group after `seconds`; calls `meanwhile` again and again.

    Raises OSError if the program cannot be started.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None  # noqa: S101 (a pipe was asked for)
    tail = _Tail(process.stdout)
    hung = False
    try:
        while process.poll() is None and not hung:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
            meanwhile()
            hung = time.monotonic() - started > seconds and process.poll() is None
        took = time.monotonic() - started
    finally:
        with contextlib.suppress(ProcessLookupError):  # Also ends children that the program left behind.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    text = tail.text()
    process.stdout.close()
    return Ended(None if hung else process.returncode, took, text)
