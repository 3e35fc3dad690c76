"""Names kproxy's processes for `top` and `ps`, so that users can tell them apart."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

MOST = 15
"""Maximum length of a process name in Linux."""


def name_process(name: str) -> None:
    """Name this process `kproxy-NAME`, on systems that support process names."""
    with suppress(OSError):
        Path("/proc/self/comm").write_bytes(f"kproxy-{name}".encode()[:MOST])


def kill(pid: int) -> None:
    """Kill a child process and collect its exit code, so that no zombie remains."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
