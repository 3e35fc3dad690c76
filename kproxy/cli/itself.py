"""How kproxy starts the command `kproxy` as another process."""

from __future__ import annotations

import sys
from typing import Final

COMMAND: Final = (sys.executable, "-P", "-m", "kproxy")
"""The words before the arguments. packages/onefile/start.py takes the same ones where there is no Python."""
