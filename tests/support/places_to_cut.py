"""Where messages are cut in tests: at every byte in system tests, at a few dozen of each in unit tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

Ends = Callable[[int, int], Iterable[int]]
FEW = 40
"""Places of a message that unit tests try."""


def every(start: int, end: int) -> Iterable[int]:
    return range(start, end)


def some(start: int, end: int) -> Iterable[int]:
    """All of a short message; of a longer one the first and the last, and others drawn by the two numbers."""
    if end - start <= FEW:
        return range(start, end)
    return sorted({start, end - 1, *random.Random(f"{start} {end}").sample(range(start, end), FEW - 2)})


each_end = pytest.mark.parametrize("ends", [some, pytest.param(every, marks=pytest.mark.system)])
"""Gives a test the places between two offsets, as `ends(start, end)`."""
