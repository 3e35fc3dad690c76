"""Recipes: faults made on purpose on real brokers, each with the finding that must name it.

    python -m tests.recipes                   the recipes
    python -m tests.recipes group.poll_gap    make one on a real broker, keep its capture in tests/data/findings

A recipe is a row in `RECIPES` of a module of this folder. Its function makes the fault with real clients, at
`stage.bootstrap`. A kept capture is a file RULE.pcap.xz and a RULE.json that says how it was made and which findings it
must have; tests/captures/findings/test_recipes.py reads all of them, whole, with packets lost, and begun in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.recipes import (
    addresses,
    brokers,
    clients,
    consumers,
    features,
    fetches,
    frames,
    groups,
    habits,
    producers,
    sending,
    through,
    written,
)
from tests.recipes.recipe import Recipe

FAMILIES: Final = (
    addresses, brokers, clients, consumers, features, fetches, frames, groups, habits, producers, sending, through,
    written,
)  # fmt: skip
RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {rule: recipe for family in FAMILIES for rule, recipe in family.RECIPES.items()}
)
"""All recipes by the rule that must fire."""
