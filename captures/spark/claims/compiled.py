"""The compiled modules where there is a C compiler, else the same modules in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.captures.spark.claims.checks import Found, check
from kproxy.captures.spark.claims.looked import Looked, Mapped

COMPILED = False

if not TYPE_CHECKING:
    try:
        from kproxy.captures.spark.claims._checks import Found, check
        from kproxy.captures.spark.claims._looked import Looked, Mapped

        COMPILED = True
    except (ImportError, ValueError):  # a ValueError: it was compiled for another decoders/exchange.pxd
        pass

__all__ = ["COMPILED", "Found", "Looked", "Mapped", "check"]
