"""Context managers that control garbage collection and the return of freed memory while a capture is read."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_LARGE: Final = 256 << 10
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, parameters of glibc's mallopt (malloc.h)."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Run garbage collection rarely inside the block, because a reading creates many objects but almost no cycles.

    Existing objects are frozen: no collection examines them. Large memory blocks return to the system when freed.
    """
    gc.freeze()
    try:
        with seldom_collections():
            yield
    finally:
        gc.unfreeze()


@contextmanager
def seldom_collections() -> Iterator[None]:
    """Like `few_collections`, for a process that froze its existing objects itself."""
    held = gc.get_threshold()
    _return_large()
    gc.set_threshold(200_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*held)


@contextmanager
def one_collection() -> Iterator[None]:
    """Run no garbage collection inside the block, and one of the youngest generation at its end.

    For work in bounded memory whose many objects live as long as the work does.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if before:
            gc.enable()


def _return_large() -> None:
    """Make glibc return large blocks to the system as soon as they are freed, in this process and in those it forks.

    By default glibc raises its threshold to the largest block ever freed, so memory stays reserved after a few long
    messages.
    """
    with suppress(AttributeError, OSError, TypeError):  # a C library other than glibc
        mallopt = ctypes.CDLL(None).mallopt
        for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(name, _LARGE)
