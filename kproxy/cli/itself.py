"""How kproxy starts the command `kproxy` as another process."""

from __future__ import annotations

import sys
from typing import Final

COMMAND: Final = (sys.executable, "-P", "-m", "kproxy")
"""The words before the arguments of `kproxy`.

packages/onefile/start.py accepts the same words, for machines without Python.
"""
