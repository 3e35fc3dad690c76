"""The classes of `passing`: the compiled extension where setup.py could build it, else the plain Python module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.core.passing import Notes, Packets, Pair, Passing, Side

COMPILED = False

if not TYPE_CHECKING:
    try:
        from kproxy.core._passing import Notes, Packets, Pair, Passing, Side

        COMPILED = True
    except ImportError:
        pass

__all__ = ["COMPILED", "Notes", "Packets", "Pair", "Passing", "Side"]
