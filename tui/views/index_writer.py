"""Checks whether the process that writes an index still works, and if not, why it ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kproxy.captures.text import size_text

LOOK_SECONDS: Final = 1.0
"""Seconds between checks of the process and of the captures."""
WORKING: Final = frozenset({"indexing", "following"})
"""States of an index that has a writer."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Why the index gets no more rows: `cause` in words, `remedy` says what to do, `time` when it was noticed (ns)."""

    cause: str
    remedy: str
    time: int


class Writer:
    """Checks the writer of an index, at most once in LOOK_SECONDS."""

    def __init__(self, live: Callable[[], int | None] | None = None) -> None:
        """`live` returns the exit code of a live run's indexer once it is no longer restarted, None before."""
        self._live = live
        self._sizes: dict[Path, int] = {}
        """The greatest size seen of each capture."""
        self._looked = 0.0
        self._ended: Ended | None = None

    def ended(self, meta: dict[str, Any]) -> Ended | None:
        """Why the index gets no more rows; None while the writer works or if it has finished."""
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
        shrunk = self._shrunk(meta)
        if shrunk:
            return shrunk, "open the capture again: the file has changed"
        pid = meta.get("pid")
        how = end_of(pid) if pid else None
        if how is None:
            return None
        if self._live is None:
            return f"the indexer (process {pid}) {how}", "open the capture again to read it whole"
        code = self._live()
        how = how if code is None else _in_words(code)
        again = "traffic and recording go on: leave, and kproxy attach reads the recording again"
        return f"the indexer (process {pid}) {how}", again

    def _shrunk(self, meta: dict[str, Any]) -> str:
        """A message about a capture file that has become shorter, or is shorter than the part read; "" if none is."""
        if any(meta.get("spools") or ()):
            return ""
        paths = [Path(source) for source in meta.get("sources", ())]
        read = meta.get("bytes_read") or 0
        for path in paths:
            try:
                size = path.stat().st_size if path.is_file() else None
            except OSError:
                size = None
            if size is None:
                continue
            had = max(self._sizes.get(path, 0), read if len(paths) == 1 else 0)
            if size < had:
                return f"{path.name} was truncated: {size_text(size)}B are left of the {size_text(had)}B that it had"
            self._sizes[path] = size
        return ""


def end_of(pid: int) -> str | None:
    """How process `pid` has ended, in words; None while it exists. A child that has ended can still be waited for."""
    try:
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        pass  # not a child of this process
    else:
        if end is None:
            return None
        return _in_words(end.si_status if end.si_code == os.CLD_EXITED else -end.si_status)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "has ended"
    except OSError:
        pass  # it exists and belongs to another user
    return None


def _in_words(code: int) -> str:
    """An exit code, or a signal's number negated, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
