"""Every fuzz target runs, and finds nothing in a few inputs."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.targets import TARGETS, load

FEW = {"hostile": 2, "keys": 1, "splits": 4}
"""Of those whose inputs take long."""


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_few_inputs(name: str) -> None:
    target = load(name)
    for number in range(FEW.get(name, 10)):
        target(Random(f"{name} {number}"))
