"""Garbage collection between keys, so that it never delays a key press."""

from __future__ import annotations

import gc
from typing import Final

SECONDS: Final = 0.25
"""Seconds between checks whether to collect."""
WORTH_LOOKING: Final = 2_000
"""Objects created minus objects freed at which to collect; an idle interface stays below."""
YOUNGER_FIRST: Final = 20
"""Collections of a generation before the next older one is collected as well."""


def collect() -> None:
    """Collect the youngest objects, now and then also older ones or all that were created since `settle`."""
    young, middle, old = gc.get_count()
    if young >= WORTH_LOOKING:
        gc.collect(2 if old >= YOUNGER_FIRST else 1 if middle >= YOUNGER_FIRST else 0)


def settle() -> None:
    """Exempt the present objects from garbage collection: they live as long as the interface."""
    gc.freeze()


def unsettle() -> None:
    gc.unfreeze()
