"""The verdict on a whole frame: actors and rules decide what happens to it, `kproxy.core.acting` carries that out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kproxy.core.commands import changed_comment
from kproxy.core.rewrite import Change
from kproxy.decoders.conversation.comments import ACTED, KEPT, MADE
from kproxy.decoders.stream import Side

MOST_PIECES = 10_000
"""Maximum number of pieces in which a frame leaves, which bounds the memory for them."""
HOLD_SECONDS = 30.0
"""Seconds after which a held frame leaves although nobody has released it."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Parties:
    """The two ends of a connection, "host:port" each. It lives as long as the connection.

    `node` is the broker's node id, None if it is not known; `number` counts the relay's connections from 1.
    """

    client: str
    broker: str
    node: int | None = None
    number: int = 0


@dataclass(slots=True, eq=False)
class Turn:
    """A request from its arrival until its response has passed; responses leave in the order of their requests.

    `replies`: the broker answers it (not so for Produce with acks=0). With `wanted`, its response is held and offered
    to the actors, which store their state for it in `kept`. `answer` is the answer that kproxy gives instead of the
    broker, with the lines for its packet comment.
    """

    api_key: int
    api_version: int
    correlation_id: int
    parties: Parties
    replies: bool = True
    wanted: bool = False
    kept: dict[object, Any] = field(default_factory=dict)
    number: int = 0
    answer: tuple[bytes, tuple[str, ...]] | None = None


@dataclass(slots=True, eq=False)
class Wait:
    """Keeps a frame, and all behind it, until the time `until` (seconds of the connection's clock) or until `release`.

    `by` names the rule or actor. `held`: the user is expected to release it, so reaching `until` causes a warning.
    """

    by: str
    until: float
    held: bool = False
    over: bool = False
    wake: Callable[[], None] | None = None

    def release(self) -> None:
        """Ends the wait now."""
        if not self.over:
            self.over = True
            if self.wake is not None:
                self.wake()

    def done(self) -> None:
        """Called when the frame has been sent or never will be: marks the wait as over and drops its reference to the
        connection.
        """
        self.over = True
        self.wake = None


@dataclass(slots=True, eq=False)
class Pace(Wait):
    """Lets a frame leave in pieces of `size` bytes, each `gap` seconds after the one before.

    The pieces share this object, whose `until` is the earliest time of the next one. `release` lets the rest leave at
    once.
    """

    size: int = 1
    gap: float = 0.0

    def pieces(self, data: bytes | bytearray | memoryview) -> list[bytes | memoryview]:
        """The pieces of a frame, at most MOST_PIECES: they are larger if there would be more."""
        size = max(self.size, -(-len(data) // MOST_PIECES))
        whole = memoryview(data)
        return [whole[at : at + size] for at in range(0, len(data), size)]


@dataclass(slots=True, eq=False)
class Asking(Wait):
    """A wait for a decision of somebody outside, such as a person.

    `number` identifies the wait; without a decision `frame` is sent, at the time `until` at the latest. The connection
    sets `frame` and `carry_out`, a function that makes the commands for a verdict on the frame.
    """

    number: int = 0
    side: Side = Side.CLIENT
    turn: Turn | None = None
    frame: bytes = b""
    decided: Verdict | None = None
    carry_out: Callable[[Verdict], list[Any]] | None = None

    def decide(self, verdict: Verdict) -> None:
        """Ends the wait by a verdict; its `frame` is sent as it is."""
        self.decided = verdict
        self.release()

    def done(self) -> None:
        Wait.done(self)  # super() does not work in a dataclass with slots
        self.turn = self.carry_out = None
        self.frame = b""


@dataclass(frozen=True, slots=True)
class Ending:
    """The connection ends at this frame, after its first `sent` bytes; with `reset` by RST, else by FIN.

    With `unclean`, a client over TLS gets no close_notify before the FIN.
    """

    reset: bool = False
    sent: int = 0
    unclean: bool = False


Shape = Callable[[bytes], bytes]
"""A function that replaces the bytes of a frame just before it is sent; its result need not be a valid frame."""


@dataclass(slots=True)
class Verdict:
    """The decision on one frame, which actors and rules change one after another.

    `frame` is forwarded; None forwards nothing. For a request that is not forwarded, `answer` is kproxy's own response
    (None: none). `changes` are the fields that differ from the received frame, `notes` describe what else was done, and
    `reasons` explain `answer`. The frame is sent `copies` times, after `shapes` have changed its bytes, and piece by
    piece with `pace`. `vanishes`: neither this frame nor anything later on this connection reaches the other side, not
    even its end. `behind`: this response is sent after the next response. `mute` is a wait for later requests of this
    connection.
    """

    frame: bytes | None
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answer: bytes | None = None
    reasons: list[str] = field(default_factory=list)
    wait: Wait | None = None
    pace: Pace | None = None
    copies: int = 1
    shapes: list[Shape] = field(default_factory=list)
    behind: bool = False
    vanishes: bool = False
    ending: Ending | None = None
    mute: Wait | None = None

    @property
    def final(self) -> bool:
        """Whether the decision is final, because the frame is not forwarded or the connection ends."""
        return self.frame is None or self.ending is not None or self.vanishes

    @property
    def waits(self) -> Iterator[Wait]:
        """Every wait that the actors asked for."""
        return (wait for wait in (self.wait, self.pace, self.mute) if wait is not None)

    def end_waits(self) -> None:
        """Marks all waits of this verdict as over, because nothing of the frame is sent."""
        for wait in self.waits:
            wait.done()

    def answer_instead(self, note: str, answer: bytes) -> None:
        """Answer a request instead of the broker; `note` says why, for the packet comments of both frames."""
        self.frame = None
        self.answer = answer
        self.notes.append(note)
        self.reasons.append(note)

    def shaped(self, data: bytes) -> bytes:
        for shape in self.shapes:
            data = shape(data)
        return data

    def comment(self, receiver: str) -> str | None:
        """The packet comment of a frame to `receiver`, "client" or "broker"; None if nothing was done to it."""
        parts = [changed_comment(receiver, self.changes)] if self.changes else []
        if self.notes:
            head = KEPT if self.frame is None else ACTED
            parts.append("\n".join([f"{head} {receiver}:", *self.notes]))
        return "\n".join(parts) or None


def made_comment(reasons: tuple[str, ...]) -> str:
    """The packet comment on a response that kproxy made."""
    return "\n".join([MADE, *reasons])
