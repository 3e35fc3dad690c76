"""Whether the process that writes an index still works, and why it ended where it does not."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kproxy.captures.export.text import size_text

LOOK_SECONDS: Final = 1.0
"""Between two looks at the process and at the captures."""
WORKING: Final = frozenset({"indexing", "following"})
"""States of an index that has a writer."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Why no further rows come: `cause` in words, `remedy` says what to do, `time` is when it was seen (ns)."""

    cause: str
    remedy: str
    time: int


class Writer:
    """Looks after the writer of an index, once in LOOK_SECONDS."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._looked = 0.0
        self._ended: Ended | None = None

    def ended(self, meta: dict[str, Any]) -> Ended | None:
        """Why no further rows come, None while its writer works or where it has done all that it should."""
        if meta.get("state") not in WORKING:
            return None
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            found = self._found(meta)
            if found is None:
                self._ended = None
            elif self._ended is None:
                self._ended = Ended(*found, time.time_ns())
        return self._ended

    def _found(self, meta: dict[str, Any]) -> tuple[str, str] | None:
        shrunk = _shrunk(meta)
        if shrunk:
            return shrunk, "open the capture again: what is there now is another"
        pid = meta.get("pid")
        how = end_of(pid) if pid else None
        if how is None:
            return None
        again = "traffic and recording go on: leave, and kproxy attach reads the recording again"
        return f"the indexer (process {pid}) {how}", again if self._live else "open the capture again to read it whole"


def end_of(pid: int) -> str | None:
    """How a process has ended, be it one of ours that nobody has waited for; None while it is there."""
    try:
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        pass  # not ours
    else:
        if end is None:
            return None
        if end.si_code == os.CLD_EXITED:
            return f"ended with exit code {end.si_status}"
        try:
            return f"was ended by {signal.Signals(end.si_status).name}"
        except ValueError:
            return f"was ended by signal {end.si_status}"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "has ended"
    except OSError:
        pass  # somebody else's
    return None


def _shrunk(meta: dict[str, Any]) -> str:
    """Says that a capture became shorter than what was read of it; "" where it did not."""
    paths = [Path(source) for source in meta.get("sources", ())]
    read = meta.get("bytes_read") or 0
    if len(paths) != 1 or any(meta.get("spools") or ()):
        return ""
    try:
        size = paths[0].stat().st_size if paths[0].is_file() else read
    except OSError:
        return ""
    if size >= read:
        return ""
    return f"{paths[0].name} was truncated: {size_text(size)}B are left of the {size_text(read)}B that were read"
