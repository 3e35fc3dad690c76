"""Finds the index rows that one step of a reading changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kproxy.decoders.exchange import Exchange, Status


class Changed(NamedTuple):
    """The exchanges whose rows must be written after a step: first `began`, then `done`, then `known`. All have
    numbers.
    """

    began: list[Exchange]
    """Exchanges that began in this step and are incomplete."""
    done: list[Exchange]
    """Exchanges that became complete in this step."""
    known: list[Exchange]
    """Incomplete exchanges whose request became complete in this step; before the step, only its header was known."""


class Changes:
    """Finds the exchanges that each step changes; remembers exchanges with only the request's header known."""

    def __init__(self) -> None:
        self.headers_only: dict[int, Exchange] = {}
        """By number, the incomplete exchanges with only the request's header known."""

    def of(self, started: Sequence[Exchange], done: Sequence[Exchange]) -> Changed:
        """The changes of a step in which the exchanges `started` began and the exchanges `done` became complete."""
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
