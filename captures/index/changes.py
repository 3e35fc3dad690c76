"""The index rows that one step of a reading changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kproxy.decoders.exchange import Exchange, Status


class Changed(NamedTuple):
    """Numbered exchanges whose rows must be written, in this order."""

    began: list[Exchange]
    """Exchanges that began and are incomplete."""
    done: list[Exchange]
    """Exchanges that became complete."""
    known: list[Exchange]
    """Incomplete exchanges of which only a header was known until now."""


class Changes:
    """Tells what has changed, step after step."""

    def __init__(self) -> None:
        self.headers_only: dict[int, Exchange] = {}
        """Exchanges of which only a header is known, by number."""

    def of(self, started: Sequence[Exchange], done: Sequence[Exchange]) -> Changed:
        """The changes of a step in which the `started` exchanges began and the `done` ones became complete."""
        held = self.headers_only
        complete = {exchange.number for exchange in done}
        began = [exchange for exchange in started if exchange.number not in complete]
        for exchange in began:
            if exchange.status is Status.WAITING and exchange.request is None:
                held[exchange.number] = exchange
        for exchange in done:
            held.pop(exchange.number, None)
        known = [exchange for exchange in held.values() if exchange.request is not None]
        for exchange in known:
            del held[exchange.number]
        return Changed(_numbered(began), _numbered(done), _numbered(known))


def _numbered(exchanges: list[Exchange] | Sequence[Exchange]) -> list[Exchange]:
    return [exchange for exchange in exchanges if exchange.number > 0]
