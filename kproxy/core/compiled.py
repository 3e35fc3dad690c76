"""The classes of `passing`: compiled by setup.py where there is a C compiler, else in plain Python."""

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
