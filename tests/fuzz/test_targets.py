"""Every fuzz target runs, and finds nothing in a few inputs."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.targets import TARGETS, load


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_few_inputs(name: str) -> None:
    target = load(name)
    for number in range(10):
        target(Random(f"{name} {number}"))
