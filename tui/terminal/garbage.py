"""Garbage is looked for between keys: a key never waits for what many before it have left."""

from __future__ import annotations

import gc
from typing import Final

SECONDS: Final = 0.25
"""Between two looks."""
WORTH_LOOKING: Final = 2_000
"""Objects that came and did not go; an interface where nothing happens has fewer."""
YOUNGER_FIRST: Final = 20
"""How often the younger are looked through before those that have outlived it."""


def collect() -> None:
    """Free what nobody holds of what was made lately, now and then of all that was made since `settle`."""
    young, middle, old = gc.get_count()
    if young >= WORTH_LOOKING:
        gc.collect(2 if old >= YOUNGER_FIRST else 1 if middle >= YOUNGER_FIRST else 0)


def settle() -> None:
    """What is there now stays as long as the interface does: do not look through it any more."""
    gc.freeze()


def unsettle() -> None:
    gc.unfreeze()
