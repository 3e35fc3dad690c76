"""What setup.py compiles where there is a C compiler; elsewhere the same in plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from captures.formats.block import Template

COMPILED = False

if not TYPE_CHECKING:
    try:
        from captures.formats._block import Template

        COMPILED = True
    except ImportError:
        pass

__all__ = ["COMPILED", "Template"]
