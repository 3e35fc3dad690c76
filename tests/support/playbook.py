"""Conversations with the relay's core as stories: each step says what arrives and exactly what the relay does with it.

For example, a Metadata response that names the brokers' own addresses:

story = Playbook().client(request(METADATA, 9, 1), PASSES)
story.broker(brokers_own, to_client(ours), REWRITTEN).counted(held=1, rewritten=1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self, assert_never
from unittest.mock import ANY

from kproxy.core.acting import ActedConnection, Actors
from kproxy.core.brokers import Advertise, Book
from kproxy.core.commands import Changed, Command, Cut, End, Notice, Record, ToBroker, ToClient
from kproxy.core.connection import Connection
from kproxy.core.gate import Act, Began, ClientEnded, FromBroker, Gate, Opened, Own, Refused
from kproxy.core.login import Steps
from kproxy.core.plans import Plans
from kproxy.core.shared import Budget, Counters, Shared
from kproxy.core.verdict import Parties
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


RESET: Outcome = ("reset",)
"""The connection ends by RST because an actor wants it."""
FIN: Outcome = ("fin",)

BEGAN: Outcome = ("began to authenticate",)
ANSWERED: Outcome = ("own request answered",)
OPENED: Outcome = ("opened",)
CLIENT_ENDED: Outcome = ("client ended",)


def asks(api_key: int) -> Outcome:
    """The gate sends a request of its own."""
    return "asks", api_key


def broker_refused(why: Any) -> Outcome:
    return "broker refused", why


def client_refused(why: Any, answer: bytes = b"") -> Outcome:
    return "client refused", why, answer


class Story:
    """Runs steps: each one compares all outcomes, in order."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        """All outcomes so far."""

    @property
    def to_client(self) -> bytes:
        """All bytes that left for the client so far."""
        return b"".join(one[1] for one in self.outcomes if one[0] == "to client")

    @property
    def to_broker(self) -> bytes:
        return b"".join(one[1] for one in self.outcomes if one[0] in {"to broker", "altered"})

    def compare(
        self, commands: Iterable[Command | Act], expected: tuple[Outcome, ...], unchanged: Outcome = ()
    ) -> Self:
        """Compares the outcomes of one step; `unchanged` is what PASSES stands for."""
        found = _outcomes(commands)
        self.outcomes += found
        wanted = [unchanged if one == PASSES else one for one in expected]
        assert expected == (ANYTHING,) or found == wanted, f"{found} came, not {wanted}"
        return self


class Playbook(Story):
    """One connection of a relay whose listeners have port 20000 + node id, 30000 + node id for controllers.

    Each step feeds bytes, in pieces of `cut` bytes if given.
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
        super().__init__()
        self.now = 0.0
        """The connection's clock, in seconds."""
        self.recorded: list[tuple[int, bytes, str]] = []
        """(side, bytes, comment) of what a connection with actors has recorded with a comment, in order."""
        self.book = Book(lambda node: (30_000 if node.controller else 20_000) + node.node_id, Advertise(advertise))
        self.shared = Shared(plans, self.book, hold_max, Budget(memory))
        self.connection = (
            Connection(self.shared, host)
            if actors is None
            else ActedConnection(self.shared, host, actors, Parties("c:1", "b:2", 5, 1), lambda: self.now)
        )

    def compare(
        self, commands: Iterable[Command | Act], expected: tuple[Outcome, ...], unchanged: Outcome = ()
    ) -> Self:
        given = list(commands)
        for one in given:
            if isinstance(one, Record) and one.comment:
                self.recorded.append((one.side, bytes(one.data), one.comment))
            elif isinstance(one, ToBroker) and one.comment:
                self.recorded.append((0, bytes(one.data), one.comment))
        return super().compare(given, expected, unchanged)

    def later(self, seconds: float, *outcomes: Outcome) -> Self:
        """Lets time pass."""
        assert isinstance(self.connection, ActedConnection)
        self.now += seconds
        return self.compare(self.connection.tick(), outcomes)

    def client(self, data: bytes, *outcomes: Outcome, cut: int = 0) -> Self:
        commands = [command for piece in pieces(data, cut) for command in self.connection.from_client(piece)]
        return self.compare(commands, outcomes, to_broker(data))

    def broker(self, data: bytes, *outcomes: Outcome, cut: int = 0) -> Self:
        commands = [command for piece in pieces(data, cut) for command in self.connection.from_broker(piece)]
        return self.compare(commands, outcomes, to_client(data))

    def client_ended(self, *outcomes: Outcome) -> Self:
        return self.compare(self.connection.client_ended(), outcomes)

    def broker_ended(self, *outcomes: Outcome) -> Self:
        return self.compare(self.connection.broker_ended(), outcomes)

    def counted(self, **counters: int) -> Self:
        """Compares the counters; those that are not named are 0. No byte may be held any more."""
        assert self.shared.counters == Counters(**counters)
        assert self.shared.budget.held == 0
        return self


class GatePlaybook(Story):
    """A gate, which authenticates for the client; `steps` as in `Gate`, `now` is the time of the next step.

    All bytes come in pieces of `cut` bytes. What leaves for the broker is given to `answer`; what this returns comes
    back within the same step.
    """

    def __init__(
        self, steps: Callable[[int | None], Steps], answer: Callable[[bytes], bytes] = lambda _: b"", *, cut: int = 0
    ) -> None:
        super().__init__()
        self.gate = Gate(DEFINITIONS, steps)
        self.now = 0.0
        self.own: list[Own] = []
        """The gate's own requests and their responses."""
        self.answer = answer
        self._cut = cut

    def begin(self, *outcomes: Outcome) -> Self:
        return self.compare(self._done(self.gate.begin(self.now)), outcomes)

    def client(self, data: bytes, *outcomes: Outcome) -> Self:
        sent = (ToBroker(piece) for piece in pieces(data, self._cut))
        acts = [act for one in sent for act in self._done(self.gate.to_broker(one, self.now))]
        return self.compare(acts, outcomes, to_broker(data))

    def client_ended(self, *outcomes: Outcome) -> Self:
        return self.compare(self._done(self.gate.client_ended()), outcomes)

    def broker(self, data: bytes, *outcomes: Outcome) -> Self:
        return self.compare(self._from_broker(data), outcomes, to_client(data))

    @property
    def refused(self) -> str:
        """Why the broker's or the client's connection was refused."""
        return str(next(one[1] for one in self.outcomes if one[0] in {"broker refused", "client refused"}))

    def _from_broker(self, data: bytes) -> list[Act]:
        return [act for piece in pieces(data, self._cut) for act in self._done(self.gate.from_broker(piece, self.now))]

    def _done(self, acts: list[Act]) -> list[Act]:
        """These acts, and those that come of the broker's answer."""
        self.own += [act for act in acts if isinstance(act, Own)]
        for_broker = [act for act in acts if isinstance(act, ToBroker) or (isinstance(act, Own) and not act.side)]
        answer = b"".join(self.answer(bytes(act.data)) for act in for_broker)
        return acts + (self._from_broker(answer) if answer else [])


def pieces(data: bytes, cut: int) -> list[bytes]:
    """Data whole (0), or in pieces of `cut` bytes."""
    return [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data]


def _outcomes(commands: Iterable[Command | Act]) -> list[Outcome]:
    """The outcomes of commands; unchanged bytes that leave one after another on the same side are joined."""
    found: list[Outcome] = []
    for command in commands:
        match command:
            case ToBroker(data, str()):
                found.append(altered(bytes(data)))
            case ToBroker() | ToClient() | FromBroker():
                kind = "to broker" if isinstance(command, ToBroker) else "to client"
                before = found.pop()[1] if found and found[-1][0] == kind else b""
                found.append((kind, before + bytes(command.data)))
            case Changed():
                found += [rewritten(list(command.changes), at=(command.start, command.end))] if command.changes else []
                found += [leaked(*command.leaked)] if command.leaked else []
                found += [withheld(command.withheld)] if command.withheld else []
            case Notice():
                found.append(notice(command.topic))
            case Record():
                pass  # see Playbook.recorded
            case Cut(reset):
                found.append(RESET if reset else FIN)
            case End():
                found.append(end(command.topic))
            case Own(side, data):
                found.append(ANSWERED if side else asks(int.from_bytes(data[4:6], "big")))
            case Began():
                found.append(BEGAN)
            case Opened():
                found.append(OPENED)
            case ClientEnded():
                found.append(CLIENT_ENDED)
            case Refused(why, client, answer):
                found.append(client_refused(why, answer) if client else broker_refused(why))
            case other:
                assert_never(other)
    return found
