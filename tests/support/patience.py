"""Timeouts of tests for things that must happen."""

from __future__ import annotations

from typing import Final

SECONDS: Final = 120.0
"""Long enough for a heavily loaded machine; only failing tests wait that long."""
