"""Conversations with the relay's core as stories: what arrives, and exactly what the connection does with it."""

from __future__ import annotations

from typing import Protocol

from kproxy.core.connection import Changed, Command, End, Notice, ToBroker, ToClient

Outcome = tuple[str, object]
"""What a command does, and its bytes, its topic or its address."""

PASSES: Outcome = ("passes", None)
"""The bytes of this step leave unchanged on the other side."""
REWRITTEN: Outcome = ("rewritten", None)


def to_client(data: bytes) -> Outcome:
    return "to client", data


def notice(topic: str) -> Outcome:
    return "notice", topic


def end(topic: str) -> Outcome:
    return "end", topic


def leaked(host: str, port: int) -> Outcome:
    return "leaked", (host, port)


class Connection(Protocol):
    def from_client(self, data: bytes) -> list[Command]: ...
    def from_broker(self, data: bytes) -> list[Command]: ...


class Playbook:
    """Each step feeds bytes, in pieces of `cut` bytes if given, and compares all that comes of them, in order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def client(self, data: bytes, *outcomes: Outcome, cut: int = 0) -> Playbook:
        commands = [command for piece in _pieces(data, cut) for command in self._connection.from_client(piece)]
        return self._compare(commands, outcomes, ("to broker", data))

    def broker(self, data: bytes, *outcomes: Outcome, cut: int = 0) -> Playbook:
        commands = [command for piece in _pieces(data, cut) for command in self._connection.from_broker(piece)]
        return self._compare(commands, outcomes, ("to client", data))

    def _compare(self, commands: list[Command], outcomes: tuple[Outcome, ...], unchanged: Outcome) -> Playbook:
        found = _outcomes(commands)
        expected = [unchanged if outcome == PASSES else outcome for outcome in outcomes]
        assert found == expected, f"{found} came, not {expected}"
        return self


def _pieces(data: bytes, cut: int) -> list[bytes]:
    return [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data]


def _outcomes(commands: list[Command]) -> list[Outcome]:
    """The outcomes of commands; bytes that leave one after another on the same side are joined."""
    found: list[Outcome] = []
    for command in commands:
        match command:
            case ToBroker() | ToClient():
                kind = "to broker" if isinstance(command, ToBroker) else "to client"
                before = found.pop()[1] if found and found[-1][0] == kind else b""
                assert isinstance(before, bytes)
                found.append((kind, before + bytes(command.data)))
            case Changed():
                found += [REWRITTEN] if command.changes else []
                found += [leaked(*command.leaked)] if command.leaked else []
                found += [("withheld", command.withheld)] if command.withheld else []
            case Notice():
                found.append(notice(command.topic))
            case End():
                found.append(end(command.topic))
    return found
