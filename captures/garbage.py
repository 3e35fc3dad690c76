"""How often Python looks for garbage while a capture is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def few_collections() -> Iterator[None]:
    """A reading makes many objects and no cycles worth looking for."""
    held = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(200_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*held)
        gc.unfreeze()
