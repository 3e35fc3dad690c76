"""What the interface has done by the command that shows it: exchanges are exported, other captures opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Exporter:
    """How `kproxy export` is called for what is shown; its own process reads the captures again."""

    program: tuple[str, ...]
    """What runs it: a program and its first arguments; it takes the option --tell DESCRIPTOR."""
    options: tuple[str, ...] = ()
    """How the captures are read: ports, definitions, schemas."""
    captures: tuple[str, ...] = ()
    """What is read; the sources of the index where there are none, as for standard input."""


@dataclass(frozen=True, slots=True)
class OtherCapture:
    """Captures that were opened beside what is shown."""

    index_dir: Path
    exporter: Exporter


class UnopenedError(Exception):
    """Captures cannot be opened; the text says why."""


Opener = Callable[[Sequence[Path]], AbstractContextManager[OtherCapture]]
"""Has captures indexed, which are read as one, as long as its block lasts; entering it may take a second, in a thread.

Raises UnopenedError. What leaves the block may be another thread.
"""
