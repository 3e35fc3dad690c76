"""The code of all rules: one module for each family. Modules do not import each other.

Each module has a tuple `ANALYSES`. Each `Analysis` names the rules that an analyzer reports, the kind of its key, and
the types of facts that it receives.

To add a rule, add a row to a module of captures.findings.table, and an analyzer here:

    class Slow(Analyzer):
        def __init__(self, context: Context) -> None:  # one for each key: here for each connection
            self._context = context
            self._count = 0

        def feed(self, fact: facts.Exchange) -> None:
            if fact.at.latency >= self._context.limit("conn.slow", "slow_ms") * MILLISECOND:
                self._count += 1
                evidence = at_evidence(fact.at, "trigger", "answered late", weight=fact.at.latency)
                numbers = {"client": fact.at.client, "count": self._count}  # the names in braces in the row's text
                self._context.report("conn.slow", evidence, numbers=numbers, impact=Impact("requests", self._count))

    ANALYSES = (Analysis(frozenset({"conn.slow"}), Key.CONNECTION, (facts.Exchange,), Slow),)
"""

from __future__ import annotations

from typing import Final

from kproxy.captures.findings.analyzer import Analysis
from kproxy.captures.findings.rules import (
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

ANALYSES: Final[tuple[Analysis, ...]] = (
    *connections.ANALYSES,
    *upgrade.ANALYSES,
    *group_members.ANALYSES,
    *group_rebalances.ANALYSES,
    *addresses.ANALYSES,
    *administration.ANALYSES,
    *clients.ANALYSES,
    *coordinators.ANALYSES,
    *fetches.ANALYSES,
    *group_assignments.ANALYSES,
    *lag.ANALYSES,
    *latencies.ANALYSES,
    *offsets.ANALYSES,
    *partitions.ANALYSES,
    *producers.ANALYSES,
    *producing.ANALYSES,
    *compression.ANALYSES,
    *distribution.ANALYSES,
    *contents.ANALYSES,
    *records.ANALYSES,
    *rejections.ANALYSES,
    *security.ANALYSES,
    *topic_ids.ANALYSES,
    *transactions.ANALYSES,
    *truncation.ANALYSES,
    *costs.ANALYSES,
    *network.ANALYSES,
    *responses.ANALYSES,
    *share_groups.ANALYSES,
    *starts.ANALYSES,
    *telemetry.ANALYSES,
    *waiting.ANALYSES,
    *controllers.ANALYSES,
    *kraft.ANALYSES,
    *leaders.ANALYSES,
    *reassignments.ANALYSES,
    *replication.ANALYSES,
    *topic_lifecycle.ANALYSES,
    *capture.ANALYSES,
)
