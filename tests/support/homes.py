"""Directories in which kproxy keeps the user's files."""

from __future__ import annotations

from pathlib import Path

NAMES = ("CACHE", "CONFIG", "STATE", "DATA")


def homes(directory: Path) -> dict[str, str]:
    """Environment variables that put all of them inside a directory: kproxy then sees no runs but the test's own.

    Without a runtime directory, kproxy keeps the state of runs in the state directory.
    """
    return {**{f"XDG_{name}_HOME": str(directory / name.lower()) for name in NAMES}, "XDG_RUNTIME_DIR": ""}
