"""Divides the rows of a table among tasks that each read the whole capture.

A task of a data source gets nothing from other tasks, but the rows of an exchange depend on all connections: on their
numbers, topics and nodes. So each task runs stages 1 and 2 on the whole file, which read only headers, and stage 3,
which decodes bodies and makes rows, only on items of its own range of addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Final

from kproxy.captures.spark.plan.files import is_url
from kproxy.captures.spark.plan.splits import Plan, plan
from kproxy.captures.spark.read import flows
from kproxy.captures.tables.schema import FLOWS

WHOLE: Final = 1 << 62
"""A size of splits with which no file is cut."""
DIVISIBLE: Final = tuple(name for name in flows.MADE if name != FLOWS.name)
"""The tables whose rows are divided among tasks.

The others are made without stage 3: flows and captures by the first two stages, findings by one task from all items.
"""
_ENDLESS: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Share:
    """A task's share of the rows of a file: the items of `ranges` (captures.spark.read.flows.Options).

    `plan` reads the whole file; its stamp makes a task fail if the file was changed since. Both are None if one task
    reads the file.
    """

    path: str
    plan: Plan | None = None
    ranges: range | None = None


def divided(paths: Sequence[str], size: int, tasks: int) -> Iterator[Share]:
    """The shares of files, in order: about `tasks` in all, and no more of a file than pieces of `size` bytes.

    A file is one share if it is at a URL, a folder, or cannot be read by address (captures.spark.read.addressed).
    Raises CaptureError if a file cannot be opened.
    """
    sizes = [_size(path) for path in paths]
    for path, count in zip(paths, counts(sizes, size, tasks), strict=True):
        yield from _shares(path, count) if count > 1 else [Share(path)]


def counts(sizes: Sequence[int], size: int, tasks: int) -> list[int]:
    """The number of shares of each file: about `tasks` in all, and no more of a file than pieces of `size` bytes.

    `sizes` are those of the files in bytes. There are no more shares than tasks that run at once, because each further
    share reads all headers of its file again.
    """
    total = sum(sizes) or 1
    return [max(1, min(-(-each // max(size, 1)), round(tasks * each / total))) for each in sizes]


def _size(path: str) -> int:
    """The size of a local file in bytes; 0 for what cannot be divided."""
    if is_url(path):
        return 0
    try:
        status = Path(path).stat()
    except OSError:  # whoever reads the file reports it
        return 0
    return status.st_size if S_ISREG(status.st_mode) else 0


def _shares(path: str, count: int) -> Iterator[Share]:
    planned = plan([path], WHOLE)
    (split,) = planned.splits
    if split.stamp is None:
        yield Share(path)
        return
    last = (split.base + split.end - 1) >> flows.GRANULE
    first = split.base >> flows.GRANULE
    borders = sorted({first + (last + 1 - first) * i // count for i in range(1, count)} - {first})
    for begin, end in zip([0, *borders], [*borders, _ENDLESS], strict=True):
        yield Share(path, planned, range(begin, end))
