"""Progress bar of a long command: on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

T = TypeVar("T")

INTERVAL: Final = 0.2
"""Seconds between repaints."""


def shown(items: Iterable[T], what: str, total: int, position: Callable[[], int]) -> Iterator[T]:
    """Yield the items and paint a bar: `position()` of `total` bytes have been read.

    The bar is painted when an item is taken, without a thread, because the consumer may fork.
    """
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        task = progress.add_task(what, total=total)
        painted = 0.0
        for item in items:
            now = time.monotonic()
            if now - painted >= INTERVAL:
                progress.update(task, completed=position(), refresh=True)
                painted = now
            yield item
