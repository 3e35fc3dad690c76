"""Commands of a connection to the relay that owns its sockets, and comments on frames in the recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kproxy.core.leaks import Address
from kproxy.core.rewrite import Change
from kproxy.decoders.conversation.comments import CHANGED, LEAKED, WITHHELD

Data = bytes | memoryview

_MOST_LINES = 200
"""Maximum number of changed fields that a packet comment names."""


@dataclass(slots=True)
class ToBroker:
    """Command: send bytes to the broker.

    Bytes with a comment are one whole frame, or its first piece; the comment describes how it was changed.
    """

    data: Data
    comment: str | None = None


@dataclass(slots=True)
class ToClient:
    data: Data | bytearray


@dataclass(frozen=True, slots=True)
class Changed:
    """Report on a frame: its changes, a broker address that leaked in it, or the reason why it was withheld.

    [start, end) is the last part of the frame, as offsets into the bytes that were passed to `from_broker`.
    """

    start: int
    end: int
    changes: tuple[Change, ...] = ()
    leaked: Address | None = None
    withheld: str = ""

    @property
    def comment(self) -> str:
        changed = [changed_comment("client", self.changes)] if self.changes else []
        leaked = [] if self.leaked is None else [f"{LEAKED} {self.leaked[0]}:{self.leaked[1]}"]
        withheld = [f"{WITHHELD} {self.withheld}"] if self.withheld else []
        return "\n".join(changed + leaked + withheld)


def changed_comment(receiver: str, changes: Sequence[Change]) -> str:
    """The packet comment on a frame that was changed on its way to `receiver`, "client" or "broker"."""
    more = len(changes) - _MOST_LINES
    lines = [str(one) for one in changes[:_MOST_LINES]]
    return "\n".join([f"{CHANGED} on the way to the {receiver}:", *lines, *([f"({more} more)"] if more > 0 else ())])


@dataclass(frozen=True, slots=True)
class Notice:
    """Command: warn the user.

    Notices with the same `topic` are shown once for each client or broker, or with `once` only once in total.
    """

    topic: str
    text: str
    once: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """Command: end the connection, because a response must not reach the client.

    Fields have the meaning they have in `Notice`.
    """

    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """Command: record bytes that `side` (0 the client, 1 the broker) has sent; used only by connections whose `records`
    is True.

    With a comment, the bytes end a frame that actors or rules acted on.
    """

    side: int
    data: Data
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Command: end the connection, because an actor wants it; with `reset` by RST, else by FIN.

    With `unclean`, a client over TLS gets no close_notify before the FIN.
    """

    reset: bool
    unclean: bool = False


Command = ToBroker | ToClient | Changed | Notice | End | Record | Cut
