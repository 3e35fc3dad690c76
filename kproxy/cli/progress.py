"""Whether a command shows how far it has come."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from captures.reader import Item, Reader

LEAST = 16 << 20
"""Bytes of captures below which nobody waits."""


def batches(reader: Reader, out: BinaryIO | None = None) -> Iterable[Sequence[Item]]:
    """The batches of a reading, with a bar where standard error is a terminal and `out` is none."""
    seen = sys.stderr is not None and sys.stderr.isatty()
    if reader.source.streams or not seen or reader.source.written() < LEAST or (out is not None and out.isatty()):
        return reader.batches()
    from tui.progress import shown

    return shown(reader.batches(), "reading", reader.source.written(), lambda: reader.position)
