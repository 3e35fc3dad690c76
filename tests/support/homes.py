"""Where kproxy keeps what is the user's."""

from __future__ import annotations

from pathlib import Path

NAMES = ("CACHE", "CONFIG", "STATE", "DATA")


def homes(directory: Path) -> dict[str, str]:
    """The environment that has all of it inside a directory."""
    return {f"XDG_{name}_HOME": str(directory / name.lower()) for name in NAMES}
