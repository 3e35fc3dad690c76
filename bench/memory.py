"""Measures the memory of a command: the sum over all its processes, without mapped files."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

EVERY_SECONDS = 0.05
SHARE = 20
"""Sampling uses at most 1/SHARE of a core: each sample costs time, because the kernel counts pages."""
PRIVATE = ("Pss_Anon:", "Pss_Shmem:")


def private(pid: int) -> int:
    """Bytes of a process's memory that are not backed by a file; 0 if the process has ended.

    A page that n processes share after a fork counts 1/n in each, so that the sum over all counts it once.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(PRIVATE))


class Peak:
    """A context that samples a process and its descendants; `bytes` is the highest sum of their `private`."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self.processes = 0
        """Number of processes at the sample with the highest sum."""
        self._root = psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            begin = time.thread_time()
            try:
                pids = [self._root.pid, *(child.pid for child in self._root.children(recursive=True))]
            except psutil.NoSuchProcess:
                return
            total = sum(map(private, pids))
            if total > self.bytes:
                self.bytes, self.processes = total, len(pids)
            pause = max(EVERY_SECONDS, SHARE * (time.thread_time() - begin))
