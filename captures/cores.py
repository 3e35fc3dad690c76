"""The number of cores that this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The number of cores that this process may use; 1 where a process cannot be forked safely."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
