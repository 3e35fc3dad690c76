"""The code of all rules, in a module for each family. Modules know nothing of each other.

A module has `ANALYSES`: for each analyzer the rules that it reports, by what it is keyed, the facts that it takes.

A new rule is a row in a module of captures.findings.table, and an analyzer here:

    class Slow(Analyzer):
        def __init__(self, context: Context) -> None:  # one for each key: here for each connection
            self._context = context
            self._count = 0

        def feed(self, fact: facts.Exchange) -> None:
            if fact.at.latency >= self._context.limit("conn.slow", "slow_ms") * MILLISECOND:
                self._count += 1
                evidence = at_evidence(fact.at, "trigger", "answered late", weight=fact.at.latency)
                numbers = {"client": fact.at.client, "count": self._count}  # what the row's text has in braces
                self._context.report("conn.slow", evidence, numbers=numbers, impact=Impact("requests", self._count))

    ANALYSES = (Analysis(frozenset({"conn.slow"}), Key.CONNECTION, (facts.Exchange,), Slow),)
"""

from __future__ import annotations

from typing import Final

from kproxy.captures.findings.analyzer import Analysis
from kproxy.captures.findings.rules import capture, connections, group_members, group_rebalances, upgrade

ANALYSES: Final[tuple[Analysis, ...]] = (
    *connections.ANALYSES,
    *upgrade.ANALYSES,
    *group_members.ANALYSES,
    *group_rebalances.ANALYSES,
    *capture.ANALYSES,
)
