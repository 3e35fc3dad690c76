"""Keys of rows. They depend only on captured bytes, not on the reader or on how files were split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from kproxy.captures.errors import CaptureError
from kproxy.captures.source import FileSource, Part
from kproxy.decoders.exchange import Connection, Exchange
from kproxy.decoders.stream import Side

HEAD: Final = 1 << 16
"""Number of leading bytes that identify a capture: they hold the file header and some packets with their times."""


def capture_id(source: FileSource) -> str:
    """The id of a reading: a hash of its first HEAD bytes, so that it stays the same when the file grows or moves.

    For a stream this waits until HEAD bytes have arrived. It ignores an error in the stream, which the reader will
    report.
    """
    base = source.parts[0].base
    while source.size - base < HEAD:
        waiting = next((part for part in source.parts if not part.final), source.parts[-1])
        try:
            if not source.grow(wait=True):
                break
        except CaptureError:
            waiting.final = False  # the reader will meet this error too
            break
    return named(bytes(source.read(base, base + HEAD)))


def named(head: bytes) -> str:
    """The id of a capture, or of a file, whose first HEAD bytes are `head`: 16 hex digits."""
    return blake2b(head, digest_size=8).hexdigest()


def file_id(source: FileSource, part: Part) -> str | None:
    """The id of a file of a source, by its bytes that have arrived so far; None if the file was deleted."""
    head = bytes(source.read(part.base, part.base + min(HEAD, part.size)))
    return named(head) if head or not part.size else None


def flow_id(one: str, other: str) -> int:
    """A signed 64-bit hash of two addresses ("host:port"), independent of their order."""
    text = "\0".join(sorted((one, other))).encode("utf-8", "replace")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def split_address(address: str) -> tuple[str, int]:
    """(host, port) of "host:port"; an IPv6 host loses its brackets."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass(frozen=True, slots=True)
class Flow:
    """Identifies a connection: the part that the keys of all its rows share.

    `id` is the hash of both addresses (`flow_id`). `epoch` counts the connections between the same addresses, from 0.
    `client` and `broker` are (host, port).
    """

    id: int
    epoch: int
    client: tuple[str, int]
    broker: tuple[str, int]
    prefix: str
    """The beginning of the ids of this connection's exchanges: "id:epoch:"."""


class Key(NamedTuple):
    """The key of an exchange's rows, without the part that identifies the connection (`Flow`).

    `time` is in nanoseconds since the epoch. `ids` are (id of the file or None, id of the reading, exchange id); it is
    empty if the rows get them later (captures.tables.schema.Table.later).
    """

    time: int
    ids: tuple[str | None, str, str] | tuple[()] = ()


def exchange_id(flow: Flow, exchange: Exchange) -> str:
    """The id of an exchange: the flow's prefix and the request's stream offset; without one, "b" and the response's."""
    frame = exchange.request or exchange.response
    if frame is None:
        return flow.prefix
    sender = "b" if frame.side is Side.BROKER else ""
    return f"{flow.prefix}{sender}{frame.stream_offset}"


class Flows:
    """Gives each connection its Flow; connections between the same addresses get epochs in the order in which they are
    seen.
    """

    def __init__(self) -> None:
        self._flows: dict[Connection, Flow] = {}
        self.epochs: dict[int, int] = {}
        """By flow id, the number of connections seen between its two addresses."""

    def of(self, connection: Connection) -> Flow:
        held = self._flows.get(connection)
        if held is not None:
            return held
        number = flow_id(connection.client, connection.broker)
        epoch = self.epochs.get(number, 0)
        self.epochs[number] = epoch + 1
        ends = split_address(connection.client), split_address(connection.broker)
        flow = Flow(number, epoch, *ends, f"{number}:{epoch}:")
        self._flows[connection] = flow
        return flow

    def __iter__(self) -> Iterator[tuple[Connection, Flow]]:
        """All connections with their flows, in the order in which they were first seen."""
        return iter(self._flows.items())
