"""Detects when brokers were stopped. Operators do this on purpose, so it explains other findings."""

from __future__ import annotations

from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, remember

CLOSES: Final = 3
"""A broker counts as stopped if it closes or refuses this number of connections within TOGETHER."""
TOGETHER: Final = 2 * SECOND
BROKERS: Final = 1_000
"""Maximum number of brokers that are remembered."""


class Stops:
    """Notes when brokers were stopped, from the connections that they closed or refused."""

    __slots__ = ("_closes", "latest")

    def __init__(self) -> None:
        self._closes: dict[str, tuple[int, int]] = {}
        """Maps each broker to (time in ns when it began to close or refuse connections, their number since)."""
        self.latest: dict[str, int] = {}
        """Maps each broker to the latest time (ns) at which it counted as stopped."""

    def take(self, fact: Any) -> None:
        """Take a fact; types other than Closed and Unanswered are ignored."""
        if isinstance(fact, facts.Closed):
            gone = fact.by_peers and fact.closer == "broker"
        else:
            gone = isinstance(fact, facts.Unanswered) and fact.refused
        if not gone:
            return
        at = fact.at
        since, count = self._closes.get(at.broker, (0, 0))
        since, count = (since, count + 1) if at.time - since <= TOGETHER else (at.time, 1)
        remember(self._closes, at.broker, (since, count), BROKERS)
        if count >= CLOSES:
            remember(self.latest, at.broker, at.time, BROKERS)
