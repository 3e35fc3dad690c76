"""Which rows of an index a step of a reading changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kproxy.decoders.exchange import Exchange, Status


class Changed(NamedTuple):
    """Exchanges whose rows are to be written, in this order; each has a number."""

    began: list[Exchange]
    """Those that began and are not complete."""
    done: list[Exchange]
    """The complete ones."""
    known: list[Exchange]
    """Those of which before only a header was known."""


class Changes:
    """Tells what has changed, step after step."""

    def __init__(self) -> None:
        self.headers_only: dict[int, Exchange] = {}
        """Exchanges of which no more is known, by their numbers."""

    def of(self, started: Sequence[Exchange], done: Sequence[Exchange]) -> Changed:
        """What changed in a step in which these exchanges began and these became complete."""
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
