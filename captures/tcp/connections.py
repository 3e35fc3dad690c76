"""A TCP connection while it is reassembled, and what is remembered of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field

from kproxy.captures.tcp.direction import Direction
from kproxy.captures.tcp.packets import endpoints
from kproxy.decoders.stream import Event, Side


@dataclass(slots=True)
class Disorder:
    """Counts of a connection's segments with data, and of those that came out of order.

    Segments are `repeated` if all their bytes had arrived before, and `filled` if they fill a hole. Of both,
    `retransmitted` are the segments that came so late (AGAIN, TIMEOUT) that they cannot be duplicates of the capture,
    overtaken segments or mere probes.
    """

    repeated: int = 0
    filled: int = 0
    segments: int = 0
    retransmitted: int = 0


@dataclass(slots=True)
class Window:
    """How often and how long a side's receive window was closed; times are nanoseconds, `since` is 0 if it is open."""

    since: int = 0
    times: int = 0
    total: int = 0
    longest: int = 0

    def close(self, time: int) -> None:
        """Note that a packet of this side has a window of 0."""
        if not self.since:
            self.since = time
            self.times += 1

    def open(self, time: int) -> None:
        """Note that a packet of this side has another window, or that no more packets come."""
        if self.since:
            lasted = max(0, time - self.since)
            self.since = 0
            self.total += lasted
            self.longest = max(self.longest, lasted)


@dataclass(slots=True, eq=False)
class TcpConnection:
    """One connection; `key` is the key of the direction in which side 0 sends.

    If the SYN was captured (`opened`), side 0 sent it. If not, side 0 sent the first captured packet, and only the
    bytes can tell which side is the client.
    """

    key: bytes
    opened: bool
    first_time: int
    first_at: int
    """Address of the connection's first packet."""
    sides: tuple[Direction, Direction]
    events: list[Event] = field(default_factory=list)
    over: bool = False
    last_time: int = 0
    """The latest capture time (ns) up to the connection's last packet."""
    touched: bool = False
    rank: int = 0
    """Sort key among the connections to which a batch added events; the smallest comes first."""
    disorder: Disorder = field(default_factory=Disorder)
    closer: Side | None = None
    """The side whose FIN or RST came first."""
    left: int | None = None
    """Time (ns) of that FIN or RST."""
    windows: tuple[Window, Window] = field(default_factory=lambda: (Window(), Window()))
    """The receive windows of side 0 and side 1."""
    syns: int = 0
    """Number of SYNs that side 0 sent: more than one if the first ones got no answer."""

    def closes(self, side: Side, time: int) -> None:
        """Note a FIN or RST of this side, captured at `time` (ns), or later."""
        if self.closer is None:
            self.closer, self.left = side, time
        elif self.closer is side and self.left is not None:
            self.left = min(self.left, time)

    @property
    def endpoints(self) -> tuple[str, str]:
        """("host:port" of side 0, "host:port" of side 1)."""
        return endpoints(self.key)


@dataclass(slots=True, eq=False)
class Ended:
    """What is remembered of an ended connection, to tell its late segments from those of a new connection.

    It takes the place of the TcpConnection, which takes much more memory. `key` is the flow's key; the offsets and
    sequence numbers are those of `Direction`, of side 0 (`base`, `next`) and of side 1.
    """

    key: bytes
    last_time: int
    base: int | None
    next: int
    other_base: int | None
    other_next: int
    closed: bool
    """Whether both sides sent a FIN and all bytes before it arrived, so that no bytes of this connection can follow."""
    connection: TcpConnection | None
    """The connection itself, until the caller gets its last events."""

    @classmethod
    def of(cls, connection: TcpConnection, key: bytes) -> Ended:
        one, other = connection.sides
        closed = one.ended and other.ended
        return cls(key, connection.last_time, one.base, one.next, other.base, other.next, closed, connection)

    @property
    def sides(self) -> tuple[Direction, Direction]:
        """The directions, with nothing but their numbers."""
        return (
            Direction(Side.CLIENT, self.base, next=self.next),
            Direction(Side.BROKER, self.other_base, next=self.other_next),
        )
