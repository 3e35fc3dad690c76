"""Measures the CPU time of a process and all its descendants."""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

import psutil

_EVERY: Final = 0.2
"""Seconds between samples; CPU time that a process uses after its last sample is not counted."""


class Spent:
    """A context; `seconds` is the CPU time that a process and its descendants used inside it."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._seen: dict[tuple[int, float], float] = {}
        self._before = 0.0
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> float:
        return sum(self._seen.values()) - self._before

    def __enter__(self) -> Self:
        self._look()
        self._before = sum(self._seen.values())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        found = []
        with suppress(psutil.Error):
            found = [self._process, *self._process.children(recursive=True)]
        for one in found:
            with suppress(psutil.Error):
                times = one.cpu_times()
                self._seen[one.pid, one.create_time()] = times.user + times.system
