"""Brokers that stop: what operators do on purpose, and what explains other findings."""

from __future__ import annotations

from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, remember

CLOSES: Final = 3
"""So many connections that a broker closes or refuses within TOGETHER show that it stops."""
TOGETHER: Final = 2 * SECOND
BROKERS: Final = 1_000
"""Most brokers that are remembered."""


class Stops:
    """When brokers stopped, by the connections that they closed or refused."""

    __slots__ = ("_closes", "latest")

    def __init__(self) -> None:
        self._closes: dict[str, tuple[int, int]] = {}
        """For each broker, when it began to close or refuse connections together, and their number."""
        self.latest: dict[str, int] = {}
        """When each broker last stopped."""

    def take(self, fact: Any) -> None:
        """A fact Closed or Unanswered; others say nothing."""
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
