"""Conversations with the relay's core as stories: each step says what arrives and exactly what the relay does with it.

story = Playbook().client(request(METADATA, 9, 1), PASSES)
story.broker(brokers_own, to_client(ours), REWRITTEN).counted(held=1, rewritten=1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

from kproxy.core.acting import ActedConnection, Actors
from kproxy.core.brokers import Advertise, Book
from kproxy.core.connection import (
    Budget,
    Changed,
    Command,
    Connection,
    Counters,
    End,
    Notice,
    Plans,
    Shared,
    ToBroker,
    ToClient,
)
from tests.kproxy.core.frames import DEFINITIONS

PLANS = Plans(DEFINITIONS, controllers=True)
Outcome = tuple[Any, ...]
"""What a command does, and its bytes, topic, address or reason; ANY stands for a value that is not compared."""

PASSES: Outcome = ("passes",)
"""The bytes of this step leave unchanged on the other side."""
ANYTHING: Outcome = ("anything",)
"""The outcomes of this step are not compared."""
REWRITTEN: Outcome = ("rewritten", ANY, ANY)


def rewritten(changes: Any = ANY, *, at: Any = ANY) -> Outcome:
    """`changes` are the (path, old, new) of the fields, `at` the frame's place in the bytes just fed."""
    return "rewritten", changes, at


def to_client(data: Any) -> Outcome:
    return "to client", data


def to_broker(data: bytes) -> Outcome:
    return "to broker", data


def altered(data: bytes) -> Outcome:
    """A frame that an actor changed leaves for the broker."""
    return "altered", data


def notice(topic: str) -> Outcome:
    return "notice", topic


def end(topic: Any) -> Outcome:
    return "end", topic


def leaked(host: str, port: int) -> Outcome:
    return "leaked", (host, port)


def withheld(reason: Any) -> Outcome:
    return "withheld", reason


class Playbook:
    """One connection of a relay whose listeners have port 20000 + node id, 30000 + node id for controllers.

    Each step feeds bytes, in pieces of `cut` bytes if given, and compares all outcomes, in order.
    """

    def __init__(
        self,
        *,
        hold_max: int = 1 << 20,
        memory: int = 1 << 28,
        host: str = "127.0.0.1",
        advertise: str = "",
        plans: Plans = PLANS,
        actors: Actors | None = None,
    ) -> None:
        self.book = Book(lambda node: (30_000 if node.controller else 20_000) + node.node_id, Advertise(advertise))
        self.shared = Shared(plans, self.book, hold_max, Budget(memory))
        self.connection = (
            Connection(self.shared, host)
            if actors is None
            else ActedConnection(self.shared, host, actors, "c:1", "b:2")
        )
        self.outcomes: list[Outcome] = []
        """All outcomes so far."""

    @property
    def to_client(self) -> bytes:
        """All bytes that left for the client so far."""
        return b"".join(data for kind, data, *_ in self.outcomes if kind == "to client")

    @property
    def to_broker(self) -> bytes:
        return b"".join(data for kind, data, *_ in self.outcomes if kind in {"to broker", "altered"})

    def client(self, data: bytes, *outcomes: Outcome, cut: int = 0) -> Playbook:
        return self._feed(self.connection.from_client, data, cut, outcomes, to_broker(data))

    def broker(self, data: bytes, *outcomes: Outcome, cut: int = 0) -> Playbook:
        return self._feed(self.connection.from_broker, data, cut, outcomes, to_client(data))

    def client_ended(self, *outcomes: Outcome) -> Playbook:
        return self._compare(self.connection.client_ended(), outcomes)

    def broker_ended(self, *outcomes: Outcome) -> Playbook:
        return self._compare(self.connection.broker_ended(), outcomes)

    def counted(self, **counters: int) -> Playbook:
        """Compares the counters; those that are not named are 0. No byte may be held any more."""
        assert self.shared.counters == Counters(**counters)
        assert self.shared.budget.held == 0
        return self

    def _feed(
        self,
        feed: Callable[[bytes], list[Command]],
        data: bytes,
        cut: int,
        outcomes: tuple[Outcome, ...],
        unchanged: Outcome,
    ) -> Playbook:
        commands = [command for piece in pieces(data, cut) for command in feed(piece)]
        return self._compare(commands, tuple(unchanged if one == PASSES else one for one in outcomes))

    def _compare(self, commands: list[Command], expected: tuple[Outcome, ...]) -> Playbook:
        found = _outcomes(commands)
        self.outcomes += found
        assert expected == (ANYTHING,) or found == list(expected), f"{found} came, not {expected}"
        return self


def pieces(data: bytes, cut: int) -> list[bytes]:
    """Data whole (0), or in pieces of `cut` bytes."""
    return [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data]


def _outcomes(commands: list[Command]) -> list[Outcome]:
    """The outcomes of commands; unchanged bytes that leave one after another on the same side are joined."""
    found: list[Outcome] = []
    for command in commands:
        match command:
            case ToBroker(data, str()):
                found.append(altered(bytes(data)))
            case ToBroker() | ToClient():
                kind = "to broker" if isinstance(command, ToBroker) else "to client"
                before = found.pop()[1] if found and found[-1][0] == kind else b""
                found.append((kind, before + bytes(command.data)))
            case Changed():
                found += [rewritten(list(command.changes), at=(command.start, command.end))] if command.changes else []
                found += [leaked(*command.leaked)] if command.leaked else []
                found += [withheld(command.withheld)] if command.withheld else []
            case Notice():
                found.append(notice(command.topic))
            case End():
                found.append(end(command.topic))
    return found
