"""The one model that everybody shares: a request with its response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kproxy.decoders.conversation.stream import Side, Source
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.sasl.session import Session


class Status(StrEnum):
    """State of an exchange; WAITING is seen only while its connection still lives."""

    WAITING = "waiting"
    OK = "ok"
    NO_REPLY_EXPECTED = "no_reply_expected"
    NO_RESPONSE = "no_response"
    ORPHAN_RESPONSE = "orphan_response"
    UNDECODABLE = "undecodable"
    CUT = "cut"
    TLS = "tls"


@dataclass(slots=True, eq=False)
class Connection:
    """A TCP connection that carried Kafka (or TLS); `number` counts from 1, addresses are "host:port".

    `number` is 0 until `Numbering.assign` has seen the first exchange of the connection.
    """

    number: int
    client: str
    broker: str
    first_time: int
    opened: bool | None = None
    """Whether its beginning (SYN) was seen; None where nobody knows any more, as of an index."""


@dataclass(slots=True)
class Frame:
    """One length-prefixed message: where its bytes lie and when they passed.

    `size` is the length field's value (the frame has `size + 4` bytes); times are nanoseconds since the epoch, of the
    first and of the last byte; `at` is the address of the last byte. `spans` are the pieces (address, length) in the
    source, in order.
    """

    side: Side
    stream_offset: int
    size: int
    first_time: int
    time: int
    at: int
    spans: list[tuple[int, int]]
    comments: Sequence[str] = ()
    """Packet comments: what kproxy changed in the frame, or what somebody wrote beside it."""
    missing: int = 0
    """Bytes that the capture does not hold (snap length, a gap, or the end of the capture)."""

    def data(self, source: Source) -> bytes | memoryview:
        """The frame's bytes from the source, its length field included."""
        if len(self.spans) == 1:
            at, length = self.spans[0]
            return source.read(at, at + length)
        return b"".join([source.read(at, at + length) for at, length in self.spans])


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its response; either may be missing.

    `number` counts from 1 in the order in which requests began on the wire (0 until `Numbering.assign` has seen it).
    """

    number: int
    connection: Connection
    api_key: int | None
    api_version: int | None
    correlation_id: int | None
    client_id: str | None
    request: Frame | None = None
    response: Frame | None = None
    status: Status = Status.WAITING
    reason: str | None = None
    problems: list[Problem] = field(default_factory=list)
    token: bool = False
    """Bare SASL tokens (after SaslHandshake v0), which have no Kafka header."""
    protocol: str | None = None
    """Name of the dialect that it is in, None for Kafka; `api_key` is then the dialect's request type."""
    asked_by: Side = Side.CLIENT
    told: str = ""
    """What earlier messages of the connection told, one character for each of `Dialect.told`: "1" where the condition
    holds, "0" where it does not, "?" where no message told."""
    session: Session | None = None
    """Who the client is after this exchange; only of an exchange of SASL's."""

    @property
    def size(self) -> int:
        """Bytes of its frames, as their length fields say."""
        return sum(frame.size for frame in (self.request, self.response) if frame is not None)

    @property
    def latency_ns(self) -> int | None:
        """Response's last byte minus request's last byte."""
        if self.request is None or self.response is None:
            return None
        return self.response.time - self.request.time


@dataclass(slots=True, eq=False)
class StreamProblem:
    """What is wrong with a connection's bytes and belongs to no exchange.

    `offset` counts from the first byte of the direction, `size` is the number of bytes concerned, `at` the address in
    the source at which it was found.
    """

    connection: Connection
    side: Side
    time: int
    offset: int
    size: int
    code: Code
    message: str
    at: int


@dataclass(slots=True)
class Health:
    """What a reading could not give, counted; one object for all connections.

    The reader counts packets, bytes, recorder_dropped, repeated (TCP segments whose bytes were all there already: sent
    again, or captured twice), stray (bytes sent after the end of their connection), fragments (IP fragments whose
    packet's beginning is missing), untimed (packets whose time does not fit, which have that of the packet before) and
    unread (packets of links and tunnels that are not read, by name), the conversations what follows from bytes
    (`lost` is bytes in gaps; not_kafka and tls are connections; `cut` is frames that miss bytes), and whoever decodes
    bodies `undecoded` (frames whose body no definition fits).
    """

    packets: int = 0
    bytes: int = 0
    lost: int = 0
    gaps: int = 0
    resyncs: int = 0
    cut: int = 0
    undecoded: int = 0
    not_kafka: int = 0
    tls: int = 0
    recorder_dropped: int = 0
    repeated: int = 0
    stray: int = 0
    fragments: int = 0
    untimed: int = 0
    unread: dict[str, int] = field(default_factory=dict)
