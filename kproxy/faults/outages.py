"""Brokers that rules have made unreachable, and what becomes of the connections to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeVar
from weakref import WeakKeyDictionary

R = TypeVar("R")

How = Literal["vanish", "sever"]
"""The method of `Severable` that is called on each connection to the broker."""


class Severable(Protocol):
    """A connection, which can become a black hole or end by RST."""

    def vanish(self) -> None: ...

    def sever(self) -> None: ...


class Outages(Generic[R]):
    """The addresses of brokers that rules `R` have made unreachable, as long as `lasts(rule)` is true."""

    def __init__(self, lasts: Callable[[R], bool]) -> None:
        self._lasts = lasts
        self._connections: WeakKeyDictionary[Severable, str] = WeakKeyDictionary()
        self._down: dict[str, tuple[R, How]] = {}

    def opened(self, connection: Severable, broker: str) -> None:
        """Apply the present effects on a broker, such as a black hole, to a new connection."""
        self._connections[connection] = broker
        if broker not in self._down:
            return
        rule, how = self._down[broker]
        if self._lasts(rule):
            getattr(connection, how)()
        else:
            del self._down[broker]

    def begin(self, rule: R, broker: str, how: How) -> None:
        """Make a broker unreachable, on all connections."""
        self._down[broker] = rule, how
        for connection in [one for one, other in self._connections.items() if other == broker]:
            getattr(connection, how)()

    def end(self, rule: R) -> None:
        """Let new connections reach the brokers that a rule has made unreachable."""
        self._down = {broker: one for broker, one in self._down.items() if one[0] is not rule}
