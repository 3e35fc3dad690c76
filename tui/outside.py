"""What the interface has done by the command that shows it: exchanges are exported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exporter:
    """How `kproxy export` is called for what is shown; its own process reads the captures again."""

    program: tuple[str, ...]
    """What runs it: a program and its first arguments; it takes the option --tell DESCRIPTOR."""
    options: tuple[str, ...] = ()
    """How the captures are read: ports, definitions, schemas."""
    captures: tuple[str, ...] = ()
    """What is read; the sources of the index where there are none, as for standard input."""
