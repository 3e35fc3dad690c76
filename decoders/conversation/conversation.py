"""One TCP connection: runs of bytes in, exchanges out. See numbering.py for how a reader drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from decoders.conversation.stream import Event, Source
from decoders.exchange import Connection, Exchange, Health, StreamProblem

if TYPE_CHECKING:
    from decoders.schema import Definitions

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection may hold; times are nanoseconds of capture time."""

    frame: int = 128 << 20
    """Longest frame believed; Kafka's socket.request.max.bytes is 100 MiB."""
    outstanding: int = 10_000
    """Requests without a response; the oldest is then given up."""
    outstanding_time: int = 900 * SECOND
    no_reply_time: int = SECOND
    """How long a request that expects no reply may wait for one all the same."""


class Conversation:
    """Frames both directions of one TCP connection and pairs them.

    `opened` says that the capture holds the connection's beginning (SYN): then the first byte of each direction starts
    a frame. `health` is shared by all conversations of a reading.
    """

    def __init__(
        self,
        client: str,
        broker: str,
        source: Source,
        definitions: Definitions,
        *,
        first_time: int = 0,
        opened: bool = True,
        limits: Limits | None = None,
        health: Health | None = None,
    ) -> None:
        self.connection = Connection(0, client, broker, first_time)
        self.source = source
        self.definitions = definitions
        self.opened = opened
        self.limits = limits or Limits()
        self.health = health or Health()
        self.started: list[tuple[int, Exchange]] = []
        self.ignored = False
        """True once it is known that this is not Kafka: further bytes need not be reassembled or fed."""

    def feed(self, events: list[Event]) -> list[tuple[int, Exchange | StreamProblem]]:
        """Take a batch of events of both directions; each direction's in stream order, Runs adjoining.

        Runs hold plain ints (lists or array.array). Where bytes are missing between two Runs a Gap stands between them.
        """
        raise NotImplementedError

    def take_started(self) -> list[tuple[int, Exchange]]:
        """Exchanges whose header became readable since the last call, with the address of the header's last byte."""
        started, self.started = self.started, []
        return started

    def tick(self, time: int, at: int) -> list[tuple[int, Exchange | StreamProblem]]:
        """Complete what has waited too long, with the capture now at `time` and address `at`.

        For followers of a growing capture: call it after a batch for connections that got no event. Never needed for a
        right result, only for a prompt one: what it completes the next event would have completed too.
        """
        raise NotImplementedError
