"""The table of all rules: one row for each, in a module for each family. captures.findings.rules has their code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kproxy.captures.findings.rule import Rule
from kproxy.captures.findings.table import (
    addresses,
    administration,
    capture,
    clients,
    compression,
    connections,
    contents,
    controllers,
    coordinators,
    costs,
    distribution,
    fetches,
    group_assignments,
    group_members,
    group_rebalances,
    kraft,
    lag,
    latencies,
    leaders,
    network,
    offsets,
    partitions,
    producers,
    producing,
    reassignments,
    records,
    rejections,
    replication,
    responses,
    security,
    share_groups,
    starts,
    telemetry,
    topic_ids,
    topic_lifecycle,
    transactions,
    truncation,
    upgrade,
    waiting,
)

FAMILIES: Final = (
    connections,
    upgrade,
    group_members,
    group_rebalances,
    addresses,
    administration,
    clients,
    coordinators,
    fetches,
    group_assignments,
    lag,
    latencies,
    offsets,
    partitions,
    producers,
    producing,
    compression,
    distribution,
    contents,
    records,
    rejections,
    security,
    topic_ids,
    transactions,
    truncation,
    costs,
    network,
    responses,
    share_groups,
    starts,
    telemetry,
    waiting,
    controllers,
    kraft,
    leaders,
    reassignments,
    replication,
    topic_lifecycle,
    capture,
)
RULES: Final[Mapping[str, Rule]] = MappingProxyType({row.id: row for family in FAMILIES for row in family.ROWS})
"""Maps each rule's id to its row."""


def rule(name: str) -> Rule | None:
    """The rule with this id or number ("12", "#12"); None if there is none."""
    return RULES.get(name) or next((row for row in RULES.values() if str(row.number) == name.lstrip("#")), None)
