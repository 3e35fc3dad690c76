"""Knowledge that is joined later: a reader of some connections keeps it for the process that joins all of them."""

from __future__ import annotations

from typing import Final, TypeAlias

from kproxy.decoders.knowledge import Fact, Knowledge, Nodes

Announcement: TypeAlias = tuple[str, str, str]
"""The kind of a fact, what it is about, and its value."""
ADDRESS: Final = "address"
"""Kind of the facts about "host:port", whose value is a node id."""


class AnnouncedKnowledge(Knowledge):
    """Knows nothing; appends all facts to `announced`, which the caller may clear."""

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[Announcement] = []

    def take(self, fact: Fact, about: str, known: str) -> None:
        self.announced.append((fact.value, about, known))


class AnnouncedNodes(Nodes):
    """Knows no node ids; appends them to `announced`."""

    def __init__(self, announced: list[Announcement]) -> None:
        super().__init__()
        self._announced = announced

    def take(self, broker: str, node: int) -> None:
        self._announced.append((ADDRESS, broker, str(node)))
