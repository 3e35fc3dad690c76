"""Memory while a capture is read: how often garbage collection runs, and which freed memory returns to the system."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_LARGE: Final = 256 << 10
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Run garbage collection rarely: a reading creates many objects, almost no cycles, and now and then a large object.

    Objects that exist already are frozen: no collection examines them.
    """
    gc.freeze()
    try:
        with seldom_collections():
            yield
    finally:
        gc.unfreeze()


@contextmanager
def seldom_collections() -> Iterator[None]:
    """As `few_collections`, for a process that has frozen its existing objects for good."""
    held = gc.get_threshold()
    _return_large()
    gc.set_threshold(200_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*held)


@contextmanager
def one_collection() -> Iterator[None]:
    """Run garbage collection once, at the end, on the youngest generation.

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
    """Make glibc return large blocks to the system when they are freed, in this process and those it forks.

    By default glibc raises its threshold to the largest block ever freed, and so keeps the memory of a few long
    messages.
    """
    with suppress(AttributeError, OSError, TypeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(name, _LARGE)
