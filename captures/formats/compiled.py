"""Imports the functions that setup.py compiles where there is a C compiler, and else their plain Python versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.captures.formats.block import Template
from kproxy.captures.formats.starts import starts

COMPILED = False

if not TYPE_CHECKING:
    try:
        from kproxy.captures.formats._block import Template
        from kproxy.captures.formats._starts import starts

        COMPILED = True
    except ImportError:
        pass

__all__ = ["COMPILED", "Template", "starts"]
