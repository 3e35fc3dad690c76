"""Faults on a real broker, each made on purpose: the finding names its cause, live and in the recording."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recipes import RECIPES
from tests.recipes.recipe import Stage
from tests.support.brokers import UNHURRIED, Cluster, cluster
from tests.support.proxy import Proxy, kproxy
from tests.support.relay import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
LIVE = {rule: recipe for rule, recipe in RECIPES.items() if recipe.live}


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    """One broker for all recipes, with the settings of all."""
    settings: dict[str, object] = {}
    for recipe in LIVE.values():
        settings |= recipe.settings
    with cluster("4.4.0", 1, lambda _: settings) as running:
        yield running


@pytest.mark.parametrize("rule", LIVE)
def test_a_fault_is_named(rule: str, broker: Cluster, tmp_path: Path) -> None:
    recipe = LIVE[rule]
    with Proxy(broker.bootstrap, tmp_path, "--findings", "info") as proxy:
        recipe.make(Stage(broker, proxy.bootstrap))
        eventually(lambda: f" {rule} " in proxy.out.read_text(), f"it says {rule}")
        assert proxy.stop() == 0
    asked = ("findings", proxy.recording, "--json", "--severity", "info", *UNHURRIED)
    lines = kproxy(tmp_path, *asked).stdout.splitlines()
    found: list[dict[str, Any]] = [one for line in lines if (one := json.loads(line)).get("rule") == rule]
    assert found
    assert any(recipe.words in f"{one['summary']} {one['cause']} {one['evidence']}" for one in found)
    assert any(f"[{one['id'][:8]}]" in proxy.out.read_text() for one in found), "live and offline have the same id"
    others = {one["rule"] for line in lines if (one := json.loads(line)).get("severity") in {"warn", "error"}}
    assert others <= {rule}, "nothing else is called wrong"
