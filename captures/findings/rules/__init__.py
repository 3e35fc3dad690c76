"""The code of all rules, in a module for each family. Modules know nothing of each other.

A module has `ANALYSES`: for each analyzer the rules that it reports, by what it is keyed, the facts that it takes.
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
