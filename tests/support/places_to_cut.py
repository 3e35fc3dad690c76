"""Offsets at which tests cut messages: every byte in system tests, a few dozen in unit tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

Ends = Callable[[int, int], Iterable[int]]
FEW = 40
"""Offsets of a message that unit tests try."""


def every(start: int, end: int) -> Iterable[int]:
    return range(start, end)


def some(start: int, end: int) -> Iterable[int]:
    """All offsets of a short range; of a longer one the first, the last, and others drawn with the range as seed."""
    if end - start <= FEW:
        return range(start, end)
    return sorted({start, end - 1, *random.Random(f"{start} {end}").sample(range(start, end), FEW - 2)})


each_end = pytest.mark.parametrize("ends", [some, pytest.param(every, marks=pytest.mark.system)])
"""Parametrises a test with `ends(start, end)`, which returns the offsets to try."""
