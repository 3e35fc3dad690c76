"""What becomes of memory while a capture is read: how often Python looks for garbage, and what the system gets back."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_LARGE: Final = 256 << 10
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""What glibc's malloc.h calls them."""


@contextmanager
def few_collections() -> Iterator[None]:
    """A reading makes many objects and no cycles worth looking for, and now and then a large one."""
    gc.freeze()
    try:
        with seldom_collections():
            yield
    finally:
        gc.unfreeze()


@contextmanager
def seldom_collections() -> Iterator[None]:
    """The same in a process that has frozen for good what was there before."""
    held = gc.get_threshold()
    _return_large()
    gc.set_threshold(200_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*held)


@contextmanager
def one_collection() -> Iterator[None]:
    """For work that makes many objects which last as long as it does, and whose memory has a bound: garbage is looked
    for when it is done, among what is left of them.
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
    """Have large blocks go back to the system when they are freed, in this process and those it forks.

    Otherwise glibc takes the largest that was ever freed for usual, and keeps what a few long messages took for good.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(name, _LARGE)
