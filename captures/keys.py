"""Keys of rows, which depend only on the captured bytes, not on the reader or on how files were split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from kproxy.captures.errors import CaptureError
from kproxy.captures.source import FileSource
from kproxy.decoders.exchange import Connection, Exchange
from kproxy.decoders.stream import Side

HEAD: Final = 1 << 16
"""Number of a capture's first bytes that identify it: a file header and some packets with their times."""


def capture_id(source: FileSource) -> str:
    """The id of a capture from its first bytes, so that it stays the same when the file grows or moves.

    For a stream this waits for these bytes; an error in the stream is left to its reader.
    """
    base = source.parts[0].base
    while source.size - base < HEAD:
        waiting = next((part for part in source.parts if not part.final), source.parts[-1])
        try:
            if not source.grow(wait=True):
                break
        except CaptureError:
            waiting.final = False  # the reader meets this error too
            break
    return named(bytes(source.read(base, base + HEAD)))


def named(head: bytes) -> str:
    """The id of a capture from its first HEAD bytes."""
    return blake2b(head, digest_size=8).hexdigest()


def flow_id(one: str, other: str) -> int:
    """A signed 64-bit hash of two addresses ("host:port"), independent of their order."""
    text = "\0".join(sorted((one, other))).encode("utf-8", "replace")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host without its brackets."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass(frozen=True, slots=True)
class Flow:
    """The common key of a connection's rows."""

    id: int
    epoch: int
    client: tuple[str, int]
    broker: tuple[str, int]
    prefix: str
    """The prefix of its exchanges' ids."""


class Key(NamedTuple):
    """The first and last values of rows in tables keyed by exchange.

    `time` is nanoseconds since the epoch; `ids` are those of the capture and the exchange, empty if the rows get them
    later (captures.tables.schema.Table.later).
    """

    time: int
    ids: tuple[str, str] | tuple[()] = ()


def exchange_id(flow: Flow, exchange: Exchange) -> str:
    """The id of an exchange of a connection."""
    frame = exchange.request or exchange.response
    if frame is None:
        return flow.prefix
    sender = "b" if frame.side is Side.BROKER else ""
    return f"{flow.prefix}{sender}{frame.stream_offset}"


class Flows:
    """Flows of a reading; connections get their epochs in the order in which they are first seen."""

    def __init__(self) -> None:
        self._flows: dict[Connection, Flow] = {}
        self.epochs: dict[int, int] = {}
        """Number of connections of each flow."""

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
        """All flows, in order."""
        return iter(self._flows.items())
