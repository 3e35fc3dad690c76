"""Parameters of tests with many combinations: a few run in unit tests, the others in system tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def thinned(values: Sequence[Any], keep: int) -> list[Any]:
    """The values as parameters; all but the first `keep` are marked for system tests."""
    return [*values[:keep], *(pytest.param(*_tuple(one), marks=pytest.mark.system) for one in values[keep:])]


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
