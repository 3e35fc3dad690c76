"""The table of all rules: one row a rule, in a module for each family. Code of rules is in captures.findings.rules."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kproxy.captures.findings.rule import Rule
from kproxy.captures.findings.table import capture, connections, group_members, group_rebalances, upgrade

FAMILIES: Final = (connections, upgrade, group_members, group_rebalances, capture)
RULES: Final[Mapping[str, Rule]] = MappingProxyType({row.id: row for family in FAMILIES for row in family.ROWS})
"""All rules by id."""


def rule(name: str) -> Rule | None:
    """A rule by its id or number."""
    return RULES.get(name) or next((row for row in RULES.values() if str(row.number) == name.lstrip("#")), None)
