"""State that all connections of a relay share: plans, brokers, the memory that they may hold, counters."""

from __future__ import annotations

from dataclasses import dataclass, field

from kproxy.core.brokers import Book
from kproxy.core.plans import Plans


@dataclass(slots=True)
class Budget:
    """Limits the bytes that all connections together may hold in memory."""

    limit: int = 256 << 20
    held: int = 0

    def take(self, size: int) -> bool:
        if self.held + size > self.limit:
            return False
        self.held += size
        return True

    def give(self, size: int) -> None:
        self.held -= size


@dataclass(slots=True)
class Counters:
    """Numbers of responses by how the relay treated them, over all connections."""

    held: int = 0
    walked: int = 0
    rewritten: int = 0
    retagged: int = 0
    """Walked frames without room for the new addresses: the addresses were blanked, so that clients ask Metadata."""
    unread: int = 0
    """Responses that passed unchanged though they may have carried addresses."""
    leaked: int = 0
    """Responses through which a broker's own address reached a client."""
    withheld: int = 0
    """Responses that were not sent to the client, because their addresses could not be replaced."""
    unsearched: int = 0
    """Responses that were searched only in part for broker addresses."""


@dataclass(slots=True)
class Shared:
    """State that all connections of a relay share."""

    plans: Plans
    book: Book
    hold_max: int = 1 << 20
    budget: Budget = field(default_factory=Budget)
    counters: Counters = field(default_factory=Counters)
