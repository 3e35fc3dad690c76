"""Names of kproxy's processes in `top` and `ps`, so that a person can tell whose CPU and memory it is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MOST = 15
"""Characters of a process's name that Linux keeps."""


def name_process(name: str) -> None:
    """Call this process `kproxy-NAME`, where the system has names for processes."""
    with suppress(OSError):
        Path("/proc/self/comm").write_bytes(f"kproxy-{name}".encode()[:MOST])
