"""The model that all packages share: exchanges, their frames and connections, and the health of a reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.sasl.session import Session
from kproxy.decoders.stream import End, Side, Source


class Status(StrEnum):
    """State of an exchange; WAITING is possible only while the connection is open."""

    WAITING = "waiting"
    OK = "ok"
    NO_REPLY_EXPECTED = "no_reply_expected"
    NO_RESPONSE = "no_response"
    ORPHAN_RESPONSE = "orphan_response"
    UNDECODABLE = "undecodable"
    CUT = "cut"
    TLS = "tls"


@lru_cache(maxsize=1024)
def one_string(name: str) -> str:
    """The name. Calls with equal names return one string, which saves memory where each of many objects keeps it."""
    return name


@dataclass(slots=True, eq=False)
class Connection:
    """A TCP connection that carried Kafka (or TLS); `number` counts from 1, `client` and `broker` are "host:port".

    `number` is 0 until `Numbering.assign` has seen the first exchange of the connection.
    """

    number: int
    client: str
    broker: str
    first_time: int
    opened: bool | None = None
    """Whether the capture holds the connection's SYN.

    None if unknown, for example for a connection read from an index.
    """


@dataclass(slots=True)
class Frame:
    """A message with its length field: where its bytes are in the source, and when they were captured.

    `size` is the value of the length field, which does not count itself. `first_time` and `time` are those of the
    first and the last byte, in nanoseconds since the epoch; `at` is the address of the last byte. `spans` are the
    frame's pieces in the source, in order, as (address, length).
    """

    side: Side
    stream_offset: int
    size: int
    first_time: int
    time: int
    at: int
    spans: list[tuple[int, int]]
    comments: Sequence[str] = ()
    """Packet comments on the frame: by kproxy about its changes, or by a user."""
    missing: int = 0
    """Number of bytes that the capture does not hold (snap length, a gap, or the end of the capture)."""

    @property
    def length(self) -> int:
        """Number of the frame's bytes, its length field included."""
        return self.size + 4

    @property
    def captured(self) -> int:
        """Number of the frame's bytes that the capture holds."""
        return self.size + 4 - self.missing

    def data(self, source: Source) -> bytes | memoryview:
        """The frame's bytes from the source, its length field included."""
        if len(self.spans) == 1:
            at, length = self.spans[0]
            return source.read(at, at + length)
        return b"".join([source.read(at, at + length) for at, length in self.spans])


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its response; one of them may be missing.

    `number` counts from 1 in the order in which request headers became readable, orphan responses in their place; it is
    0 until `Numbering.assign` has seen the exchange.
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
    """Whether the frames are SASL tokens without a Kafka header (after SaslHandshake v0)."""
    protocol: str | None = None
    """Name of the exchange's dialect; None for Kafka. In a dialect, `api_key` is the dialect's request type."""
    asked_by: Side = Side.CLIENT
    truths: str = ""
    """A character for each of `Dialect.conditions`: "1" true, "0" false, "?" unknown, after the messages so far."""
    session: Session | None = None
    """State of the connection's authentication after this exchange; set only for SASL exchanges."""
    end: End | None = None
    """The end of the connection or of one direction that completed the exchange, because no response can come after it;
    None if the exchange was completed otherwise.
    """

    @property
    def size(self) -> int:
        """Sum of the frames' length fields, in bytes."""
        asked = 0 if self.request is None else self.request.size
        return asked if self.response is None else asked + self.response.size

    @property
    def latency_ns(self) -> int | None:
        """Nanoseconds from the request's last byte to the response's last byte; None if one is missing."""
        if self.request is None or self.response is None:
            return None
        return self.response.time - self.request.time


@dataclass(slots=True, eq=False)
class StreamProblem:
    """A problem in the bytes of a connection that belong to no exchange.

    `offset` counts from the first byte of the direction, `size` is the number of bytes concerned, `at` is the address
    in the source at which the problem was found.
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
    """Counters of a whole reading, over all connections.

    The reader counts packets, bytes, recorder_dropped, repeated (TCP segments whose bytes were all captured before:
    retransmissions and duplicates), stray (bytes sent after the end of their connection), fragments (IP fragments whose
    first fragment is missing), untimed (packets with an implausible time, which get the previous packet's) and unread
    (packets of unsupported links and tunnels, by name). The conversations count gaps, lost (bytes in gaps), resyncs,
    not_kafka and tls (connections), and cut (frames that miss bytes). Callers that decode bodies count undecoded
    (frames whose body fits no definition).
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
