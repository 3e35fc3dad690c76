"""Reads any capture to exchanges: source -> packets -> TCP connections -> conversations.

    reader = read([Path("a.pcap")])
    for item in reader:
        ...  # Exchange, StreamProblem, and last Health; CaptureError where the capture could not be read to its end

To follow a growing capture, call `poll`: it reads one batch of packets and returns the items that became complete;
`started` then holds the exchanges whose request began. The result does not depend on the sizes of the batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from time import monotonic
from typing import NamedTuple, Protocol, TypeAlias, cast

from kproxy.captures.decrypted import open_capture
from kproxy.captures.definitions import definitions
from kproxy.captures.errors import CaptureError, FormatError
from kproxy.captures.formats import detect
from kproxy.captures.formats.link import LinkLayers
from kproxy.captures.formats.odd import not_read
from kproxy.captures.formats.records import Records, Walker
from kproxy.captures.given import Given
from kproxy.captures.orientation import Orientation
from kproxy.captures.ports import Ports
from kproxy.captures.seen import Seen
from kproxy.captures.slices import SLICE_BYTES, Events, slices, whole
from kproxy.captures.source import RELEASE_BYTES, FileSource, Part
from kproxy.captures.spool import Spooling
from kproxy.captures.tally import Tally
from kproxy.captures.tcp.connections import Disorder, TcpConnection, Window
from kproxy.captures.tcp.packets import Packets
from kproxy.captures.tcp.packets import ports as ports_of
from kproxy.captures.tcp.reassembly import Reassembler
from kproxy.captures.tcp.shares import Share, part_of
from kproxy.captures.tcp.waiting import LIVE_TIME, LONGEST_TIME
from kproxy.decoders.conversation.conversation import Conversation, Limits, has_copies
from kproxy.decoders.conversation.dialect import DialectConversation
from kproxy.decoders.conversation.numbering import Numbering
from kproxy.decoders.exchange import Connection, Exchange, Health, StreamProblem
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import End, Event, Gap, Run, Side

Item: TypeAlias = Exchange | StreamProblem
Done: TypeAlias = "list[tuple[int, Item]]"

FIRST_BATCH = 1024
BATCH = 4096
"""Maximum number of packets in a batch; the first batches are smaller so that the first rows appear soon."""
BATCH_BYTES = SLICE_BYTES
"""Maximum bytes of a batch, which bounds memory: a decoded request of 14 bytes takes a hundred times as much."""
TICK = 1_000_000_000
"""Interval, in nanoseconds of capture time, at which connections without traffic are checked for overdue items."""
_address = itemgetter(0)


class Talk:
    """A TCP connection and its conversation.

    The conversation starts once it is known which side is the client; until then events are kept in `held`.
    """

    __slots__ = ("connection", "conversation", "held", "orientation", "swapped", "waiting")

    def __init__(self, connection: TcpConnection) -> None:
        self.connection = connection
        self.conversation: Conversation | DialectConversation | None = None
        self.orientation: Orientation | None = None
        self.swapped = False
        self.held: list[Event] = []
        self.waiting = 0
        """Number of requests without a response, as of the last events of this connection."""


class Closing(NamedTuple):
    """How a connection ended.

    `how` is FIN, RST, or the reason why the capture holds no more of the connection. `time` is the time of its last
    packet, `at` the address at which its end was known. `sent` are the numbers of bytes that client and broker sent.
    `first` are the client's first bytes if the connection is not Kafka's. `closer` sent the first FIN or RST, at the
    time `left`; None if the capture has neither. `disorder` and the `windows` of client and broker are those of the
    whole connection. `syns` is 0, except for a connection that nobody accepted: then it is the number of its SYNs, and
    the connection has no number.
    """

    connection: Connection
    time: int
    how: str
    sent: tuple[int, int]
    first: bytes
    at: int
    closer: Side | None
    disorder: Disorder
    windows: tuple[Window, Window]
    syns: int
    left: int | None


class Elsewhere(Protocol):
    """An object that receives the packets that a reader finds, in place of the reader's own reassembly
    (`Reader.divide`).
    """

    def take(self, share: Share) -> None:
        """Receive the next batch of packets."""

    def finish(self, at: int) -> None:
        """Note that the capture ends at address `at`."""


class Reader:
    """Reads a source: iterate over all items, or call `poll` for one batch of them."""

    def __init__(
        self,
        source: FileSource,
        definitions: Definitions,
        *,
        ports: Ports | Sequence[range] | None = None,
        follow: bool = False,
        limits: Limits | None = None,
        batch: int = BATCH,
        patience: int | None = None,
        watch: Callable[[Packets], None] | None = None,
        began: Callable[[Connection, TcpConnection], None] | None = None,
    ) -> None:
        """`watch` is called with each batch of packets before reassembly, `began` with each new conversation and its
        TCP connection.

        `ports` are the ports whose connections are read (None: all). `follow` means that the capture grows. `limits`
        bound the requests that wait for responses. A batch has at most `batch` packets. An out-of-order packet waits at
        most `patience` nanoseconds of capture time for the packets before it; the default is LIVE_TIME if the capture
        is followed, LONGEST_TIME otherwise. If the capture is followed and `patience` is less than LONGEST_TIME, the
        limit also holds on a connection without further packets.
        """
        self.source = source
        self.definitions = definitions
        self.health = Health()
        self.seen = Seen()
        self.precision = 6
        """Decimal places of the capture's times in seconds: 6, or 9 if a file has nanoseconds."""
        self.started: list[Exchange] = []
        """Exchanges whose request's header became readable in the last poll, in the order of their numbers."""
        self.idle = False
        """Whether the last poll found nothing to read."""
        self.finished = False
        self.errors: list[CaptureError] = []
        """Why files of the capture could not be read to their ends, in the order of reading; a file that also has
        packets of unknown link-layer types has two errors.
        """
        self._ports = ports if ports is None or isinstance(ports, Ports) else Ports.of(ports)
        self._follow = follow
        self._limits = limits or Limits()
        self._watch = watch
        self._began_talk = began
        self._batch_limit = batch
        self._batch = min(FIRST_BATCH, batch)
        self._batch_bytes = BATCH_BYTES
        self._part = 0
        self._walker: Walker | None = None
        self._dropped = 0
        """Packets that were dropped by the programs that recorded the files read so far, without the present file."""
        self._untimed = 0
        """Packets with an implausible time in the files read so far, without the present file (`Walker.untimed`)."""
        self._links = LinkLayers()
        self._tallies: dict[int, Tally] = {}
        """Counts of the files that were merged to a part, by the part's base."""
        if patience is None:
            patience = LIVE_TIME if follow else LONGEST_TIME
        self._patience = patience
        self._reassembler = Reassembler(partial(_same, source), patience=patience)
        self._talks: dict[TcpConnection, Talk] = {}
        self.numbering = Numbering()
        self._elsewhere: Elsewhere | None = None
        self._reached = 0
        """Address behind the last byte of the packets read so far."""
        self._arrived = 0.0
        """When the last packets were read, on the system's monotonic clock in seconds."""
        self._ticked = 0
        self._waiting = 0
        """Number of requests without a response on all connections."""
        self._most_waiting = self._limits.all_outstanding
        self._slices: deque[list[Events]] = deque()
        """Reassembled events that are not delivered yet; each poll delivers one element."""
        self._closing = False
        """Whether all packets were read, so that only `_slices` remain to be delivered."""
        self.began: list[tuple[int, Exchange]] = []
        """The exchanges in `started`, each with the address of its request header's last byte."""
        self.done: Done = []
        """The items that the last call returned, each with the address of the bytes that completed it."""
        self.ranks: list[tuple[Connection, int]] = []
        """Tie-break rank of each connection in the last delivery: of items at the same address, the smallest rank comes
        first.
        """
        self.ended: list[Connection] = []
        """Connections that ended in the last delivery."""
        self.closings: list[Closing] = []
        """How the connections of `ended` ended."""

    def __iter__(self) -> Iterator[Item | Health]:
        """All items up to the end of the capture, then its Health.

        Raises CaptureError after that if the capture could not be read to its end.
        """
        for batch in self.batches():
            yield from batch
        yield self.health
        if self.error is not None:
            raise self.error

    def batches(self) -> Iterator[list[Item]]:
        """All items up to the end of the capture, in batches; afterwards `error` is None if the capture was read to its
        end.
        """
        while not self.finished:
            yield self.poll(wait=True)
            if self.idle and not self.finished:
                yield self.finish()

    @property
    def error(self) -> CaptureError | None:
        """The first of `errors`; None if the capture could be read to its end."""
        return self.errors[0] if self.errors else None

    @property
    def position(self) -> int:
        """The address up to which the source has been read."""
        if self._part >= len(self.source.parts):
            return self.source.size
        return self.base + (self._walker.position if self._walker is not None else 0)

    @property
    def base(self) -> int:
        """Address of the first byte of the file that is being read."""
        return self.source.parts[min(self._part, len(self.source.parts) - 1)].base

    def given(self, part: Part) -> Sequence[Given]:
        """The files of which a part of the source was made, with counts of what was read of them; none for a file that
        is read as the user gave it.
        """
        tally = self._tallies.get(part.base) if part.merged else None
        return part.given if tally is None else tally.files

    def poll(self, *, wait: bool = False) -> list[Item]:
        """Read one batch of packets; returns the items that became complete, in the order of the capture.

        With `wait`, a source that is a stream blocks until it has bytes. Never raises CaptureError: `errors` says why a
        file could not be read to its end, and the reading goes on with the next file.
        """
        self.started = []
        self.closings = []
        self.idle = False
        if self._slices:
            return self._slice()
        if self.finished:
            self.idle = True
            return []
        packets = self._packets(wait=wait)
        if packets is not None:
            return self._take(packets)
        if self._part >= len(self.source.parts):
            self._follow = False
            self._close()
            self.idle = self.finished
            return self._slice() if self._slices else []
        if self._waits_end and monotonic() - self._arrived >= self._patience / 1e9:
            return self._wait_no_longer()
        self.idle = True
        return []

    def finish(self) -> list[Item]:
        """Read up to the capture's present end and complete all open exchanges there; returns the remaining items."""
        self._follow = False
        for part in self.source.parts:
            part.final = True
        items: list[Item] = []
        started: list[Exchange] = []
        closings: list[Closing] = []
        while not self.finished:
            items += self.poll()
            started += self.started
            closings += self.closings
        self.started, self.closings = started, closings
        return items

    def cut(self) -> list[Item]:
        """Stop reading here and complete all open exchanges with the bytes read so far; returns the remaining items."""
        items: list[Item] = []
        started: list[Exchange] = []
        closings: list[Closing] = []
        self._close()
        while self._slices:
            items += self._slice()
            started += self.started
            closings += self.closings
        self.started, self.closings = started, closings
        return items

    def _slice(self) -> list[Item]:
        """The items that the next element of `_slices` completes."""
        done = self._feed(self._slices.popleft())
        self.finished = self._closing and not self._slices
        return self._deliver(done)

    @property
    def _waits_end(self) -> bool:
        """Whether packets are waiting that must be handled after a while even if no further packet arrives on their
        connection.
        """
        return self._follow and self._patience < LONGEST_TIME and self._reassembler.waits

    def _wait_no_longer(self) -> list[Item]:
        """Treat as lost the packets for which out-of-order packets wait; returns the items that become complete."""
        self._slices.extend(slices(self._reassembler.wait_no_longer()))
        return self._slice()

    def _close(self) -> None:
        """Stop reading packets: queue the events with which all connections end, or tell `_elsewhere` of the end."""
        self._closing = True
        if self._part < len(self.source.parts):
            self._note_unknown(self.source.parts[self._part])
        if self._elsewhere is not None:
            self.started = []
            self._elsewhere.finish(self._reached)
        else:
            self._slices.extend(slices(self._reassembler.finish(self._reached)))
        self.finished = not self._slices

    def divide(self, elsewhere: Elsewhere) -> None:
        """Pass all further packets to `elsewhere`; `poll` returns no items from then on."""
        self._elsewhere = elsewhere
        self.started = []

    def keep(self, parts: Sequence[int]) -> None:
        """Forget the connections of all other parts; from then on `take`, not `poll`, supplies packets."""
        self._reassembler.keep(parts)
        self._talks = {one: talk for one, talk in self._talks.items() if part_of(one.key) in parts}

    def take(self, share: Share) -> list[Item]:
        """The items that a batch of packets completes, in the order of the capture."""
        return self._deliver(self._feed(whole(self._reassembler.take(share))))

    def each(self, share: Share) -> Iterator[tuple[list[tuple[int, Exchange]], Done]]:
        """For each connection in a batch of packets: the exchanges that began and the items that became complete.

        Both are lists of (address, exchange or item).
        """
        for connection in self._reassembler.take(share):
            self._deliver(self._feed(whole([connection])))
            yield self.began, self.done

    def end(self, at: int) -> list[Item]:
        """The items that become complete because the capture ends at address `at`."""
        return self._deliver(self._feed(whole(self._reassembler.finish(at))))

    def _take(self, packets: Packets) -> list[Item]:
        self._arrived = monotonic()
        if len(packets):
            self._reached = max(self._reached, int((packets.at + packets.stored).max()))
        if self._watch is not None:
            self._watch(packets)
        if self._elsewhere is not None:
            if len(packets):
                self._elsewhere.take(self._reassembler.clock.whole(packets))
            return []
        self._slices.extend(slices(self._reassembler.feed(packets)))
        if len(self._slices) > 1:
            return self._slice()
        done = self._feed(self._slices.popleft())
        if self._follow and len(packets):
            done += self._tick(int(packets.time[-1]))
        return self._deliver(done)

    def close(self) -> None:
        self.source.close()

    def _packets(self, *, wait: bool) -> Packets | None:
        """The next batch of TCP segments; None at the end of the capture, or while a followed capture has no more
        packets.
        """
        if self._follow:
            self.source.drop_deleted()
            # also without a next file: the writer deletes the oldest file after it has begun a new one
            self._part -= self.source.let_go(self._part)
        while self._part < len(self.source.parts):
            part = self.source.parts[self._part]
            try:
                packets = self._walk(part)
            except FormatError as error:
                self._next_part(CaptureError.of(error, part.name))
                continue
            except CaptureError as error:
                self._next_part(error)
                continue
            if packets is not None:
                return packets
            if part.final:
                self._next_part(self._cut(part))
            else:
                self.source.done_with(self.position)
                try:
                    grown = self.source.grow(wait=wait or not self._follow)
                except CaptureError as error:
                    self._next_part(error)
                    continue
                if not grown and not part.final:
                    if self._follow and not self.source.ended:
                        return None
                    part.final = True  # a file that is not followed does not grow
        return None

    def _walk(self, part: Part) -> Packets | None:
        view = self.source.view(part)
        if not view and part.size:
            return None  # a deleted segment of a ring
        if self._walker is None:
            self._walker = detect.walker(view, whole=part.final)
            if self._walker is None:
                return None
        try:
            reach = self._walker.position + self._batch_bytes
            records = self._walker.walk(view[:reach], self._batch)
            if records is None and reach < len(view):  # a packet is larger than a batch may be
                records = self._walker.walk(view, 1)
        finally:
            self.health.recorder_dropped = self._dropped + self._walker.dropped
            self.health.untimed = self._untimed + self._walker.untimed
            if self._walker.nanoseconds:
                self.precision = 9
        if records is None:
            return None
        self.source.release(part.base + self._walker.position - RELEASE_BYTES)
        self._batch = min(2 * self._batch, self._batch_limit)
        if len(records):
            self.seen.times(int(records.time[0]), int(records.time[-1]))
        self.health.packets += len(records)
        self.health.bytes += int(records.wire.sum())
        packets = self._segments(part, self._walker, view, records)
        self.health.fragments = self._links.incomplete
        if self._links.unread:
            self.health.unread = dict(self._links.unread)
        return packets

    def _segments(self, part: Part, walker: Walker, view: memoryview, records: Records) -> Packets:
        if not part.merged:
            return self._links.segments(view, records, part.base)
        tally = self._tallies.get(part.base)
        if tally is None:
            tally = self._tallies[part.base] = Tally(part.given)
        which, packets = self._links.numbered(view, records, part.base)
        packets.files = tally.count(walker, view, records, which, packets.time, self._links.unknown)
        return packets

    def _note_unknown(self, part: Part) -> None:
        """Note the errors of files, among those of a part, of whose packets some have unknown link-layer types."""
        links = self._links.take_unknown()
        files = [(one.name, one.unknown) for one in self.given(part)] if part.merged else [(part.name, links)]
        self.errors += (CaptureError(not_read(unknown), name) for name, unknown in files if unknown)

    def _cut(self, part: Part) -> CaptureError | None:
        """Why a part was not read to its end; None if it was."""
        early = self.source.ended_early(part)  # known before, if another reader has read the source to its end
        if early is not None:
            return early
        error = detect.cut(self._walker, part.size) if self.source.view(part) else None
        return None if error is None else CaptureError.of(error, part.name)

    def _next_part(self, error: CaptureError | None) -> None:
        """Go on with the next file. `error` is why the present one could not be read to its end."""
        if error is not None:
            self.errors += (error, *error.others)
        self._note_unknown(self.source.parts[self._part])
        if self._walker is not None:
            self._dropped += self._walker.dropped
            self._untimed += self._walker.untimed
        part, left = self.source.parts[self._part], self.position
        self._walker = None
        self._part += 1
        self._part -= self.source.let_go(self._part)
        begins = self.source.parts[self._part].base if self._part < len(self.source.parts) else left
        if left < part.base + part.size or part.base + part.size < begins:
            self._reassembler.missed()

    def _feed(self, given: Sequence[Events]) -> Done:
        done: Done = []
        self.began, self.ranks, self.ended, self.closings = [], [], [], []
        gone = self.source.gone if self._follow else 0
        for one in given:
            connection, events = one.connection, _present(one.events, gone)
            talk = self._talks.get(connection)
            if talk is None:
                if not self._wanted(connection):
                    continue
                talk = self._talks[connection] = Talk(connection)
            if talk.conversation is None:
                events = _present(self._orient(talk, events), gone)
            if talk.conversation is not None and events and (not talk.conversation.ignored or has_copies(events)):
                if talk.swapped:
                    _swap(events)
                done += self._converse(talk.conversation, events)
                waiting = talk.conversation.waiting
                self._waiting += waiting - talk.waiting
                talk.waiting = waiting
                self.began += talk.conversation.take_started()
                self.ranks.append((talk.conversation.connection, connection.rank))
            if connection.over and one.last:
                if talk.conversation is not None:
                    self.ended.append(talk.conversation.connection)
                    self.closings.append(_closing(talk, one.events))
                elif _is_unanswered(connection):
                    self.closings.append(_unanswered(connection, one.events))
                self._waiting -= talk.waiting
                del self._talks[connection]
        if self._waiting > self._most_waiting:
            done += self._give_up()
        return done

    def _give_up(self) -> Done:
        """Give up requests until at most half the permitted number still wait for responses: the oldest requests of
        the connections on which most are waiting.

        Returns the exchanges of the requests given up, as complete items.
        """
        half = share = self._most_waiting // 2
        while sum(min(talk.waiting, share) for talk in self._talks.values()) > half:
            share //= 2
        done: Done = []
        for talk in self._talks.values():
            if talk.conversation is None or talk.waiting <= share:
                continue
            done += talk.conversation.keep(share, self._reached)
            self._waiting += talk.conversation.waiting - talk.waiting
            talk.waiting = talk.conversation.waiting
        return done

    def _converse(self, conversation: Conversation | DialectConversation, events: list[Event]) -> Done:
        """The items that events of a connection complete."""
        return conversation.feed(events)

    def _wanted(self, connection: TcpConnection) -> bool:
        if self._ports is None:
            return True
        first, second = ports_of(connection.key)
        if first in self._ports or second in self._ports:
            return True
        self.seen.ports.add(min(first, second))  # usually the broker's port
        return False

    def _orient(self, talk: Talk, events: list[Event]) -> list[Event]:
        """Start the conversation once it is known which side is the client.

        Returns the events to feed to it: none before, then all that were held.
        """
        connection = talk.connection
        if not connection.opened:
            if talk.orientation is None:
                talk.orientation = Orientation(self.source, self.definitions, ports_of(connection.key), self._ports)
            client = talk.orientation.client(events)
            if client is None:
                return []
            events = talk.orientation.events
            talk.swapped = client == 1
            talk.orientation = None
        else:
            talk.held += events
            if not any(isinstance(event, Run) for event in events):
                return []  # only a handshake so far, without data
            events, talk.held = talk.held, []
        ends = connection.endpoints
        if talk.swapped:
            ends = ends[1], ends[0]
        port = int(ends[1].rpartition(":")[2])
        self.seen.ports.add(port)
        dialect = self.definitions.dialect_at(port)
        expected = self._ports is not None and port in self._ports
        begin = (
            partial(Conversation, expected=expected)
            if dialect is None
            else partial(DialectConversation, dialect=dialect)
        )
        talk.conversation = begin(
            ends[0],
            ends[1],
            self.source,
            self.definitions,
            first_time=connection.first_time,
            opened=connection.opened,
            limits=self._limits,
            health=self.health,
        )
        if self._began_talk is not None:
            self._began_talk(talk.conversation.connection, connection)
        return events

    def _tick(self, time: int) -> Done:
        if time - self._ticked < TICK:
            return []
        self._ticked = time
        if self._waits_end:
            self._slices.extend(slices(self._reassembler.wait_no_longer(time - self._patience)))
        done: Done = []
        started: list[tuple[int, Exchange]] = []
        for talk in self._talks.values():
            if talk.conversation is not None and not talk.conversation.ignored:
                done += talk.conversation.tick(time, self.position)
                self.began += talk.conversation.take_started()
                started += talk.conversation.take_started()
        self.numbering.assign(started)
        self.started += (exchange for _, exchange in started)
        return done

    def _deliver(self, done: Done) -> list[Item]:
        """Number the exchanges that began; returns the complete items in the order of their addresses."""
        self.numbering.assign(self.began)
        self.started = [exchange for _, exchange in self.began]
        self.health.repeated, self.health.stray = self._reassembler.repeated, self._reassembler.stray
        done.sort(key=_address)
        self.done = done
        return [item for _, item in done]


def _present(events: list[Event], gone: int) -> list[Event]:
    """The events, with a Gap in place of each run that begins below address `gone`: its bytes were deleted while its
    packets waited for others.
    """
    if not gone:
        return events
    found: list[Event] = []
    for event in events:
        if not isinstance(event, Run) or not len(event.at) or event.at[0] >= gone:
            found.append(event)
            continue
        gap = Gap(event.side, event.start, event.ends[-1], max(event.released, event.at[-1]), event.times[-1])
        before = found[-1] if found else None
        if isinstance(before, Gap) and before.side is gap.side and before.end == gap.start:
            found[-1] = Gap(gap.side, before.start, gap.end, gap.at, gap.time)
        else:
            found.append(gap)
    return found


def _closing(talk: Talk, events: list[Event]) -> Closing:
    """How the connection of `talk` ended; `events` are its last ones."""
    conversation, tcp = cast("Conversation | DialectConversation", talk.conversation), talk.connection
    client, broker = tcp.sides[talk.swapped].next, tcp.sides[1 - talk.swapped].next
    closer = None if tcp.closer is None else Side(tcp.closer ^ talk.swapped)
    windows = tcp.windows[talk.swapped], tcp.windows[1 - talk.swapped]
    how, at = _end(events)
    return Closing(
        conversation.connection, tcp.last_time, how, (client, broker), conversation.beginning, at, closer,
        tcp.disorder, windows, 0, tcp.left,
    )  # fmt: skip


def _is_unanswered(tcp: TcpConnection) -> bool:
    """Whether a client sent only SYNs, and the other side accepted none."""
    return tcp.syns > 0 and tcp.sides[1].base is None and not tcp.sides[0].next


def _unanswered(tcp: TcpConnection, events: list[Event]) -> Closing:
    """The end of a connection that nobody accepted."""
    connection = Connection(0, *tcp.endpoints, tcp.first_time, tcp.opened)
    how, at = _end(events)
    return Closing(
        connection, tcp.last_time, how, (0, 0), b"", at, tcp.closer, tcp.disorder, tcp.windows, tcp.syns, tcp.left
    )


def _end(events: list[Event]) -> tuple[str, int]:
    """(reason, address) of the end among the last events of a connection."""
    return next(((event.reason, event.at) for event in reversed(events) if isinstance(event, End)), ("", 0))


def _same(source: FileSource, a: int, b: int, length: int) -> bool:
    return bytes(source.read(a, a + length)) == bytes(source.read(b, b + length))


def _swap(events: list[Event]) -> None:
    for event in events:
        if event.side is not None:
            event.side = Side(1 - event.side)
        elif isinstance(event, End) and event.unheard is not None:
            event.unheard = Side(1 - event.unheard)


def read(
    captures: Path | str | Sequence[Path | str] | FileSource,
    *,
    ports: Ports | Sequence[range] | str | None = None,
    release: str | None = None,
    user_definitions: Sequence[str] = (),
    keylog: Path | str | None = None,
    follow: bool = False,
    limits: Limits | None = None,
    spooling: Spooling | None = None,
) -> Reader:
    """A reader of captures that are read as one: files, a directory of recording segments, or "-" for standard input.

    Only connections with one of `ports` are read. `release` is the Kafka release whose definitions apply;
    `user_definitions` name further ones (captures.definitions). TLS is decrypted with the secrets of `keylog` and of
    the captures themselves, but not with `follow`. `follow` means that the capture grows, and that `poll` is called;
    segments of a ring's earlier runs are then left out. `spooling` sets how captures are spooled that cannot be read in
    place. Raises CaptureError if a capture cannot be opened, ValueError if `ports`, `release` or `user_definitions` are
    wrong.
    """
    if isinstance(captures, FileSource):
        source = captures
    else:
        source = open_capture(cast("Path | str", captures), log=keylog, live=follow, spooling=spooling)
    wanted = Ports.parse(ports) if isinstance(ports, str) else ports
    return Reader(source, definitions(release, user_definitions), ports=wanted, follow=follow, limits=limits)
