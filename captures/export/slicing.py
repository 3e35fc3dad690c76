"""Writes selected exchanges as a pcapng file that has their whole frames and nothing else.

The frames' bytes are original. The packets around them are synthetic, like the recorder's, so that nothing of other
exchanges, connections or lower layers is included. The first and the last byte of each frame keep their times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import BinaryIO, Final

from kproxy.captures.formats.pcapng_writer import ACK, MAX_PAYLOAD, PSH, SYN, Direction, file_header, statistics
from kproxy.captures.keys import split_address
from kproxy.decoders.exchange import Connection, Exchange, Frame, StreamProblem
from kproxy.decoders.schema import api_keys
from kproxy.decoders.stream import Side, Source

_START: Final = 1_000_000
"""TCP sequence number of the first byte in each direction."""

Change = Callable[[Exchange], Exchange]


@dataclass(slots=True)
class _Piece:
    """The bytes [start, end) of a frame, all captured at `time`; with the end None, all bytes from `start` on.

    `at` is the address by which pieces are ordered, `exchange` the index of the exchange in the slice.
    """

    at: int
    exchange: int
    side: Side
    time: int
    start: int
    end: int | None


@dataclass(slots=True)
class _Talk:
    """A connection whose frames are written."""

    connection: Connection
    handshake: Exchange | None = None
    frames: dict[Side, list[tuple[int, Frame]]] = field(default_factory=lambda: {side: [] for side in Side})
    """By sender: (index of the exchange in the slice, frame)."""
    directions: dict[Side, Direction] | None = None


class Slice:
    """Collects exchanges of a reading (`add`), then writes them (`write`).

    Pass all other items to `passed`: when a SASL token is added, the handshake before it is added too, because the
    token cannot be read without the handshake.
    """

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []
        self._talks: dict[int, _Talk] = {}

    def __len__(self) -> int:
        return len(self._exchanges)

    def passed(self, item: Exchange | StreamProblem) -> None:
        """Remember an item that is not selected, if it is a SASL handshake."""
        if isinstance(item, Exchange) and item.api_key == api_keys.SASL_HANDSHAKE and item.protocol is None:
            self._talk(item.connection).handshake = item

    def add(self, exchange: Exchange) -> None:
        """Add an exchange to the slice; before a SASL token, its handshake."""
        talk = self._talk(exchange.connection)
        if exchange is talk.handshake:
            talk.handshake = None
        if exchange.token and talk.handshake is not None:
            before, talk.handshake = talk.handshake, None
            self.add(before)
        number = len(self._exchanges)
        self._exchanges.append(exchange)
        for frame in (exchange.request, exchange.response):
            if frame is not None:
                talk.frames[frame.side].append((number, frame))

    def write(
        self,
        out: BinaryIO,
        source: Source,
        *,
        application: str,
        change: Change | None = None,
        comments: Sequence[str] = (),
        ending: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Write the file; `change` is applied to each exchange before its bytes are read.

        `comments` are on the whole file; `ending` returns comments that are written at its end.
        """
        out.write(file_header(application, "slice", comments))
        packets, last = 0, 0
        made: dict[int, Exchange] = {}
        # merged, not sorted: pieces of a direction at the same address stay in the order of the stream
        pieces = list(merge(*self._pieces(), key=lambda piece: (piece.at, piece.exchange)))
        left = [0] * len(self._exchanges)
        for piece in pieces:
            left[piece.exchange] += 1
        for piece in pieces:
            number = piece.exchange
            exchange = made.get(number)
            if exchange is None:
                exchange = self._exchanges[number] if change is None else change(self._exchanges[number])
                made[number] = exchange
            talk = self._talks[id(self._exchanges[number].connection)]
            for before, data, after in _packets(talk, exchange, piece, source):
                out.writelines((before, data, after))
                packets += 1
            last = max(last, piece.time)
            left[number] -= 1
            if not left[number]:
                del made[number]
        out.write(statistics(last, packets, 0, ending()))
        out.flush()

    def _talk(self, connection: Connection) -> _Talk:
        talk = self._talks.get(id(connection))
        if talk is None:
            talk = self._talks[id(connection)] = _Talk(connection)
        return talk

    def _pieces(self) -> Iterator[list[_Piece]]:
        """The pieces of each direction, in the order of its stream; their addresses never fall."""
        for talk in self._talks.values():
            for side, frames in talk.frames.items():
                reached = 0
                pieces = []
                for number, frame in sorted(frames, key=lambda one: one[1].stream_offset):
                    first = frame.spans[0][0] if frame.spans else frame.at
                    # A late retransmission was captured after the bytes that follow it; pieces have the order of the
                    # stream.
                    reached = max(reached, first)
                    border: int | None = None
                    if frame.first_time != frame.time:
                        stored = sum(length for _, length in frame.spans)
                        border = max(stored - MAX_PAYLOAD, 1)
                        pieces.append(_Piece(reached, number, side, frame.first_time, 0, border))
                        reached = max(reached, frame.at)
                    pieces.append(_Piece(reached, number, side, frame.time, border or 0, None))
                yield pieces


def _packets(
    talk: _Talk, exchange: Exchange, piece: _Piece, source: Source
) -> Iterator[tuple[bytes, bytes | memoryview, bytes]]:
    frame = next(one for one in (exchange.request, exchange.response) if one is not None and one.side is piece.side)
    if talk.directions is None:
        yield from _handshake(talk, exchange.connection, piece.time)
    directions = talk.directions
    if directions is None:
        return
    mine, other = directions[piece.side], directions[Side(1 - piece.side)]
    whole = frame.data(source)
    data = whole[piece.start : piece.end]
    comment = "\n".join(frame.comments) if frame.comments and not piece.start else None
    last = piece.end is None
    beyond = frame.missing + max(0, frame.captured - len(whole)) if last else 0
    while data or beyond:
        part = data[:MAX_PAYLOAD]
        data = data[MAX_PAYLOAD:]
        missing = 0 if data else min(beyond, MAX_PAYLOAD - len(part))
        beyond -= missing
        before, after = mine.packet(piece.time, part, other.sequence, PSH | ACK, comment, missing)
        comment = None
        yield before, part, after


def _handshake(talk: _Talk, connection: Connection, time: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    client, broker = split_address(connection.client), split_address(connection.broker)
    up, down = Direction(client, broker, _START), Direction(broker, client, _START)
    talk.directions = {Side.CLIENT: up, Side.BROKER: down}
    for direction, other, flags in ((up, down, SYN), (down, up, SYN | ACK), (up, down, ACK)):
        before, after = direction.packet(time, b"", other.sequence, flags)
        yield before, b"", after
