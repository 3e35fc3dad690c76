"""Every guard of a rule has a test: guards.toml names it, and both sides are complete."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from kproxy.captures.findings.table import RULES

TESTED: dict[str, dict[str, list[str]]] = tomllib.loads((Path(__file__).parent / "guards.toml").read_text())
"""For each rule, the tests ("module.name", without "test_") of each of its guards."""


def test_every_rule_is_listed_and_no_other() -> None:
    assert TESTED.keys() == RULES.keys()


@pytest.mark.parametrize("rule", RULES)
def test_every_guard_names_tests_that_exist(rule: str) -> None:
    assert RULES[rule].guards, "no rule is right without exceptions"
    assert set(TESTED[rule]) == set(RULES[rule].guards)
    for guard, names in TESTED[rule].items():
        assert names, guard
        for name in names:
            module, _, test = name.partition(".")
            assert callable(getattr(import_module(f"tests.captures.findings.test_{module}"), f"test_{test}", None)), (
                name
            )
