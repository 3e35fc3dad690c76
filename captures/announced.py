"""Collects the facts that a process learns from some of the connections, for the process that joins all of them."""

from __future__ import annotations

from typing import Final, TypeAlias

from kproxy.decoders.knowledge import Fact, Knowledge, Nodes

Announcement: TypeAlias = tuple[str, str, str]
"""(kind, subject, value) of a fact; kinds are ADDRESS and the values of `Fact`."""
ADDRESS: Final = "address"
"""Kind of a fact whose subject is a broker's "host:port" and whose value is its node id."""


class AnnouncedKnowledge(Knowledge):
    """Appends each fact to `announced`, and knows no fact itself; the caller may clear `announced`."""

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[Announcement] = []

    def take(self, fact: Fact, about: str, known: str) -> None:
        self.announced.append((fact.value, about, known))


class AnnouncedNodes(Nodes):
    """Appends the node id of each broker address to `announced`, and knows no node id itself."""

    def __init__(self, announced: list[Announcement]) -> None:
        super().__init__()
        self._announced = announced

    def take(self, broker: str, node: int) -> None:
        self._announced.append((ADDRESS, broker, str(node)))
