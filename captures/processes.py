"""Names of kproxy's processes in `top` and `ps`, so that a person can tell whose CPU and memory it is."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

MOST = 15
"""Characters of a process's name that Linux keeps."""


def name_process(name: str) -> None:
    """Call this process `kproxy-NAME`, where the system has names for processes."""
    with suppress(OSError):
        Path("/proc/self/comm").write_bytes(f"kproxy-{name}".encode()[:MOST])


def kill(pid: int) -> None:
    """Kill a child process, even if it is busy, and take its exit code from the system."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
