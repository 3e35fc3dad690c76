"""How long tests wait for what must happen."""

from __future__ import annotations

from typing import Final

SECONDS: Final = 120.0
"""Long enough for a machine with twenty other loads; only a failing test waits it out."""
