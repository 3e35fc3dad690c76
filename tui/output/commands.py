"""How the interface exports exchanges and opens other captures: through the command that started it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Exporter:
    """How to call `kproxy export`, a separate process that reads the captures again."""

    program: tuple[str, ...]
    """The program and its first arguments; it must accept the option --tell DESCRIPTOR."""
    options: tuple[str, ...] = ()
    """Options for reading the captures: ports, definitions."""
    viewing: tuple[str, ...] = ()
    """Options for showing keys and values of records: schemas."""
    captures: tuple[str, ...] = ()
    """The captures to read. If empty, as when standard input was read, the sources that the index names are read."""


@dataclass(frozen=True, slots=True)
class OtherCapture:
    """Captures opened from within the interface."""

    index_dir: Path
    exporter: Exporter


class UnopenedError(Exception):
    """Captures cannot be opened; the message says why."""


Opener = Callable[[Sequence[Path]], AbstractContextManager[OtherCapture]]
"""Returns a context manager that indexes captures, read as one, and removes the index when the block ends.

Entering may take a second or so, so enter it in a thread; another thread may leave it. Raises UnopenedError.
"""
