"""Describes captures as the user gave them; several of them may be read as one part of a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(slots=True)
class Given:
    """A capture as the user gave it, and what was counted in it.

    `name` is the user's name for the file, `size` its size in bytes, decompressed. `id` identifies the file
    (captures.keys.named); it is None if the beginning of the file could not be read. There are `segments` TCP segments;
    `first` and `last` are the times (ns) of the first and the last of them, None without segments. `unknown` are the
    link-layer types in the file that kproxy cannot read, in order.
    """

    name: str
    size: int
    id: str | None
    first: int | None = None
    last: int | None = None
    segments: int = 0
    unknown: list[int] = field(default_factory=list)
    base: int | None = None
    """If the file was merged with others: the first of the addresses that stand for it (captures.spark.plan.splits);
    None in a reading by one process.
    """

    def count(self, times: npt.NDArray[np.int64]) -> None:
        """Count further segments of the file, which have these times (ns), in capture order."""
        if len(times):
            self.first = int(times[0]) if self.first is None else self.first
            self.last = int(times[-1])
            self.segments += len(times)

    def note_unknown(self, links: Iterable[int]) -> None:
        """Note link-layer types that kproxy cannot read."""
        self.unknown = sorted({*self.unknown, *links})

    def extend(self, later: Given) -> None:
        """Add what was counted in a later stretch of the same file."""
        self.first = later.first if self.first is None else self.first
        self.last = self.last if later.last is None else later.last
        self.segments += later.segments
        self.note_unknown(later.unknown)


def only_id(files: Sequence[Given]) -> str | None:
    """The id of the file if there is only one; None if several were merged."""
    return files[0].id if len(files) == 1 else None
