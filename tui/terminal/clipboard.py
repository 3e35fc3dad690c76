"""Copies to the clipboard of the user's terminal, over ssh and within tmux too."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from typing import Final

MOST_OSC52: Final = 48 * 1024
"""Maximum number of bytes that terminals accept by OSC 52: 64 KiB as base64. Longer text goes into a file."""
TMUX_SECONDS: Final = 2.0


def copy(text: str, osc52: Callable[[str], None]) -> str:
    """Copy a text; returns what was done, in words. `osc52` sends it to the terminal. Raises OSError if all ways fail.

    Unless configured otherwise, tmux ignores OSC 52 from programs inside it, but passes its own buffers on.
    """
    size = len(text.encode(errors="replace"))
    what = f"copied {size:,} B"
    if _to_tmux(text):
        return f"{what} (tmux)"
    if size <= MOST_OSC52:
        osc52(text)
        return what
    descriptor, path = tempfile.mkstemp(prefix="kproxy-copied-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return f"too long for the terminal, so written to {path}"


def _to_tmux(text: str) -> bool:
    """Load the text into a buffer of tmux; False without tmux, or if that fails."""
    program = shutil.which("tmux") if os.environ.get("TMUX") else None
    if program is None:
        return False
    try:
        done = subprocess.run(
            [program, "load-buffer", "-w", "-"],
            input=text.encode(errors="replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TMUX_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
