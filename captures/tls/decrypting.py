"""Decrypts a capture: connections whose secrets are in a key log are decrypted, all others pass unchanged.

Later stages need not know about TLS: they read a pcapng file with plain connections that have the original addresses
and times. Bytes that could not be decrypted are missing in that file like lost packets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kproxy.captures.errors import CaptureError, FormatError
from kproxy.captures.formats import detect, pcapng_writer
from kproxy.captures.formats.link import LinkLayers
from kproxy.captures.formats.odd import not_read
from kproxy.captures.formats.pcapng_writer import ACK, FIN, MAX_PAYLOAD, RST, SYN, Direction
from kproxy.captures.formats.records import Walker
from kproxy.captures.given import Given
from kproxy.captures.keys import file_id
from kproxy.captures.source import AND, FileSource, Part
from kproxy.captures.spool import Spool
from kproxy.captures.tally import Tally
from kproxy.captures.tcp.connections import TcpConnection
from kproxy.captures.tcp.packets import Packets
from kproxy.captures.tcp.reassembly import Reassembler
from kproxy.captures.tls.keylog import Secrets
from kproxy.captures.tls.session import CLIENT, SERVER, Session, TlsError
from kproxy.decoders.stream import End, Event, Gap, Run

BATCH: Final = 8192
MOST_HELD: Final = 256 << 10
"""Maximum bytes of a connection that are held until its secrets are found."""
_HELLOS: Final = {(22, 3, 1): CLIENT, (22, 3, 2): SERVER}
"""The side that sends a handshake message, by (record type, first byte of the version, message type)."""


class DecryptedSource(FileSource):
    """A decrypted copy of another source, written to a temporary file while it is read.

    Raises CaptureError if the disk is full.
    """

    decrypted = True

    def __init__(self, source: FileSource, secrets: Secrets) -> None:
        super().__init__((), source.spooling)
        self._encrypted = source
        self.streams = source.streams
        segments = Segments(source)
        # not cached, because the content was meant to stay encrypted
        spool = Spool(decrypted(source, secrets, segments), AND.join(part.name for part in source.parts), self.spooling)
        self._fill(spool).given = segments.given

    def close(self) -> None:
        super().close()
        self._encrypted.close()


@dataclass(slots=True)
class _Piece:
    """Bytes of one segment, or a gap of `size` bytes, or the end (FIN or RST) of a direction.

    `at` is the address by which pieces are ordered, `time` the capture time in ns, `side` the sender (0 or 1).
    """

    at: int
    time: int
    side: int
    data: bytes | memoryview
    size: int = 0
    end: str | None = None
    comment: str | None = None


class _Connection:
    """One TCP connection that is being decrypted or copied."""

    def __init__(self, connection: TcpConnection, secrets: Secrets) -> None:
        ends = [tuple(end.rpartition(":")[::2]) for end in connection.endpoints]
        first, second = ((host.strip("[]"), int(port)) for host, port in ends)
        self.pieces: list[_Piece] = []
        self._directions = (Direction(first, second, 1000), Direction(second, first, 1000))
        self._opened = connection.opened
        self._begin = connection.first_time
        self._started = False
        self._secrets = secrets
        self._session: Session | None = None
        self._held: list[_Piece] = []
        self._looking = True
        """True until it is known whether the connection is TLS with known secrets."""
        self._client = CLIENT
        self._lost = False
        """Whether decryption has failed, so that the rest of the connection becomes a gap."""

    def take(self, events: list[Event], source: FileSource) -> None:
        """Append the pieces of reassembly events to `pieces`."""
        for event in events:
            if isinstance(event, Run):
                start = event.start
                for i, end in enumerate(event.ends):
                    size = end - start
                    held = size if event.stored is None else event.stored[i]
                    at = max(event.at[i], event.released)
                    data = source.read(event.at[i], event.at[i] + held)
                    comment = event.comments.get(start)
                    self.pieces.append(_Piece(at, event.times[i], int(event.side), data, comment=comment))
                    if len(data) < size:
                        self.pieces.append(_Piece(at, event.times[i], int(event.side), b"", size - len(data)))
                    start = end
            elif isinstance(event, Gap):
                self.pieces.append(_Piece(event.at, event.time, int(event.side), b"", event.end - event.start))
            elif isinstance(event, End):
                side = 0 if event.side is None else int(event.side)
                self.pieces.append(_Piece(event.at, event.time, side, b"", end="RST" if event.side is None else "FIN"))

    def packets(self, piece: _Piece) -> Iterator[bytes]:
        """The packets that can be written after a piece has arrived, as pcapng blocks."""
        if self._looking:
            self._held.append(piece)
            if not self._settled(piece):
                return
            self._looking = False
            held, self._held = self._held, []
            for each in held:
                yield from self._pass(each) if self._session is None else self._written(each, self._session, b"")
        elif self._session is None:
            yield from self._pass(piece)
        else:
            yield from self._written(piece, self._session, self._decrypted(self._session, piece))

    def _settled(self, piece: _Piece) -> bool:
        """Whether enough has arrived to decide: with a `_session` the connection is decrypted, without one it is
        copied.
        """
        if self._session is None:
            data = bytes(piece.data[:6])
            if not piece.size and piece.end is None and len(data) < 6:
                return not data.startswith(b"\x16"[: len(data)]) or len(self._held) > 8
            sayer = _HELLOS.get((data[0], data[1], data[5])) if len(data) == 6 else None
            if sayer is None:
                return bool(piece.end == "RST" or data or piece.size)
            self._client = piece.side if sayer == CLIENT else 1 - piece.side
            self._session = Session(self._secrets)
        try:
            self._feed(self._session, piece)
        except TlsError:
            self._session = None
            return True
        if piece.end == "RST" or sum(len(each.data) for each in self._held) > MOST_HELD:
            self._session = None
            return True
        return self._session.known

    def _feed(self, session: Session, piece: _Piece) -> bytes:
        side = piece.side ^ self._client
        if piece.size:
            session.skip(side, piece.size)
        return session.feed(side, bytes(piece.data)) if piece.data else b""

    def _decrypted(self, session: Session, piece: _Piece) -> bytes:
        if self._lost:
            return b""
        try:
            return self._feed(session, piece)
        except TlsError:
            self._lost = True
            return b""

    def _written(self, piece: _Piece, session: Session, plain: bytes) -> Iterator[bytes]:
        """The packets for a piece of a decrypted connection with the content `plain`; missing content becomes a gap."""
        side = piece.side ^ self._client
        missing = session.take_missing(side)
        if self._lost:
            missing += piece.size + len(piece.data)
        elif piece.end is not None:
            missing += session.unread(side)
        yield from self._pass(_Piece(piece.at, piece.time, piece.side, plain, missing, piece.end))

    def _pass(self, piece: _Piece) -> Iterator[bytes]:
        """The packets for a piece of a connection that is copied unchanged."""
        mine, other = self._directions[piece.side], self._directions[1 - piece.side]
        if not self._started:
            self._started = True
            if self._opened:
                first, second = self._directions
                yield self._packet(self._begin, first, b"", 0, SYN)
                yield self._packet(self._begin, second, b"", first.sequence, SYN | ACK)
        mine.sequence += piece.size
        for start in range(0, len(piece.data), MAX_PAYLOAD):
            part = piece.data[start : start + MAX_PAYLOAD]
            yield self._packet(piece.time, mine, part, other.sequence, ACK, piece.comment)
        if piece.end is not None:
            flags = FIN | ACK if piece.end == "FIN" else RST | ACK
            # acknowledges the gap: the bytes are missing in the capture only
            yield self._packet(piece.time, other, b"", mine.sequence, ACK)
            yield self._packet(piece.time, mine, b"", other.sequence, flags)

    @staticmethod
    def _packet(
        time: int, direction: Direction, data: bytes | memoryview, ack: int, flags: int, comment: str | None = None
    ) -> bytes:
        before, after = direction.packet(time, data, ack, flags, comment)
        return before + data + after


def decrypted(source: FileSource, secrets: Secrets, segments: Segments | None = None) -> Iterator[bytes]:
    """A pcapng file with the decrypted connections of a source, in pieces; `segments` are those of the source.

    Raises CaptureError at the end if files of the source could not be read to their ends: the error of the first such
    file; its `others` are the errors of the rest.
    """
    segments = segments or Segments(source)
    reassembler = Reassembler(lambda a, b, n: bytes(source.read(a, a + n)) == bytes(source.read(b, b + n)))
    connections: dict[TcpConnection, _Connection] = {}

    def written(changed: list[TcpConnection]) -> bytes:
        out = bytearray()
        todo: list[tuple[_Connection, _Piece]] = []
        for connection in changed:
            mine = connections.get(connection)
            if mine is None:
                mine = connections[connection] = _Connection(connection, secrets)
            events, connection.events = connection.events, []
            mine.take(events, source)
            todo += ((mine, piece) for piece in mine.pieces)
            mine.pieces = []
            if connection.over:
                del connections[connection]
        for mine, piece in sorted(todo, key=lambda pair: pair[1].at):
            for packet in mine.packets(piece):
                out += packet
        return bytes(out)

    yield pcapng_writer.file_header("kproxy", "decrypted")
    for packets in segments:
        if out := written(reassembler.feed(packets)):
            yield out
    if out := written(reassembler.finish(source.size)):
        yield out
    if segments.dropped:
        yield pcapng_writer.statistics(0, 0, segments.dropped)
    if segments.errors:
        first, *others = segments.errors
        first.others = others
        raise first


class Segments:
    """Iterates over the TCP segments of a source in batches.

    `errors` are the reasons why files of it could not be read to their ends; `given` are its files as the user gave
    them, with counts of what was read.
    """

    def __init__(self, source: FileSource) -> None:
        self.errors: list[CaptureError] = []
        self.given: list[Given] = []
        self.dropped = 0
        self._source = source
        self._links = LinkLayers()
        self._counts: dict[int, Tally | Given] = {}
        """The counts of each part of the source, by the part's id()."""
        for part in source.parts:
            self._counts_of(part)

    def __iter__(self) -> Iterator[Packets]:
        at = 0
        while at < len(self._source.parts):
            part = self._source.parts[at]
            try:
                yield from self._of(part, self._counts_of(part))
            except FormatError as error:
                self.errors.append(CaptureError.of(error, part.name))
            except CaptureError as error:
                self.errors += (error, *error.others)
            self._end(part, self._counts_of(part))
            at += 1

    def _of(self, part: Part, counts: Tally | Given) -> Iterator[Packets]:
        walker: Walker | None = None
        while True:
            view = self._source.view(part)
            walker = walker or detect.walker(view, whole=part.final)
            records = None if walker is None else walker.walk(view, BATCH)
            if walker is not None and records is not None:
                which, packets = self._links.numbered(view, records, part.base)
                if isinstance(counts, Tally):
                    counts.count(walker, view, records, which, packets.time, self._links.unknown)
                else:
                    counts.count(packets.time)
                yield packets
            elif part.final:
                break
            else:
                self._source.done_with(part.base + (0 if walker is None else walker.position))
                if not self._source.grow(wait=True):
                    part.final = True
        self.dropped += 0 if walker is None else walker.dropped
        left = detect.cut(walker, part.size)
        if left is not None:
            raise left

    def _counts_of(self, part: Part) -> Tally | Given:
        counts = self._counts.get(id(part))
        if counts is None:
            made = Tally(part.given) if part.merged else Given(part.name, part.size, file_id(self._source, part))
            self.given += made.files if isinstance(made, Tally) else [made]
            counts = self._counts[id(part)] = made
        return counts

    def _end(self, part: Part, counts: Tally | Given) -> None:
        """Note the size, the id and the unknown link-layer types of a part that was read."""
        unknown = self._links.take_unknown()
        if isinstance(counts, Given):
            counts.size, counts.id = part.size, file_id(self._source, part) or counts.id
            counts.note_unknown(unknown)
        files = counts.files if isinstance(counts, Tally) else [counts]
        self.errors += (CaptureError(not_read(one.unknown), one.name) for one in files if one.unknown)
