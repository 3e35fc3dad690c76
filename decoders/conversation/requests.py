"""Finds the frames of the client's side, begins their exchanges, and recognises whether the connection is Kafka."""

from __future__ import annotations

from struct import Struct

from kproxy.decoders.conversation.acks import ENOUGH, way
from kproxy.decoders.conversation.compiled import wants_no_reply, whole_requests
from kproxy.decoders.conversation.framer import SIZE, Framer
from kproxy.decoders.conversation.items import IN_ORDER, NO_REPLY, ONE_WAY, REQUEST, TOKEN, WHOLE, Item
from kproxy.decoders.conversation.loop import HEAD, NO_REPLY_KEYS, SASL_KEYS
from kproxy.decoders.conversation.recognition import (
    LONGEST_CLIENT_ID,
    Known,
    Verdict,
    decodes,
    plausible_request,
    printable,
    recognise,
    unfit,
)
from kproxy.decoders.dialects.decoding import decode, fits, read_header
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health
from kproxy.decoders.message import decode_request
from kproxy.decoders.plurals import counted
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.schema import irregular
from kproxy.decoders.schema.api_keys import CONTROLLED_SHUTDOWN
from kproxy.decoders.schema.dialect import Dialect
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import End, Gap, Run, Side, Source

_REQUEST = Struct(">ihhih")
_SHORT_REQUEST = Struct(">ihhi")
_MOST_CLIENT_IDS = 1024


class Requests(Framer):
    """Framer of the client's side, which makes the exchanges; `started` receives those whose header is readable."""

    __slots__ = (
        "among", "authenticates", "client_ids", "current", "floor_at_start", "foreign", "heard", "opened", "recognised",
        "sasl", "shared_health", "started", "withdrawn", "withheld",
    )  # fmt: skip

    side = Side.CLIENT
    where = "request"
    head = 14

    def __init__(
        self,
        connection: Connection,
        source: Source,
        definitions: Definitions,
        known: Known,
        limit: int,
        health: Health,
        started: list[tuple[int, Exchange]],
        *,
        opened: bool,
    ) -> None:
        super().__init__(connection, source, definitions, known, limit, health)
        self.started = started
        self.opened = opened
        self.recognised = False
        self.foreign: Verdict | None = None
        """The connection's protocol, once that is known not to be Kafka; None before."""
        self.sasl = False
        """Whether SASL tokens without a Kafka header may come."""
        self.authenticates = False
        """Whether any SASL request was captured."""
        self.current: Exchange | None = None
        """The exchange whose request has not arrived completely; None if every request has."""
        self.withdrawn: Exchange | None = None
        """An exchange whose header was read from damaged bytes; it gets the next header that is read."""
        self.withheld: list[Item] = []
        """Items found before the connection was recognised as Kafka."""
        self.floor_at_start = 0
        """Key of the byte that proved that the connection is Kafka."""
        self.shared_health = health
        self.health = Health()
        self.client_ids: dict[bytes, str] = {}
        self.heard = False
        """Whether the capture holds bytes of this side."""
        self.among = definitions.among_kafka
        """Request types of dialects that may occur among Kafka's requests, by API key."""

    def feed(self, event: Run | Gap | End, out: list[Item]) -> None:
        """Process an event of this side; the items that it completes are appended to `out`."""
        if self.over or (self.foreign is not None and not self._may_be_kafka(event)):
            return
        sink = out if self.recognised else self.withheld
        if isinstance(event, End):
            self._finish(event, sink)
        else:
            self.heard |= isinstance(event, Run) and len(event.ends) > 0
            self.take(event, sink)
            self._walk(sink)
        if sink is self.withheld and (self.recognised or self.foreign is Verdict.TLS):
            out += ((max(key, self.floor_at_start), kind, item, id_) for key, kind, item, id_ in sink)
            self.withheld = []

    def beginning(self) -> bytes:
        """The first bytes of this side, at most 16, if no protocol was recognised in them; else empty."""
        stretch = self.stretch
        held = stretch.ends[0] <= self.position < stretch.end
        return bytes(stretch.gather(self.position, 16)) if held else b""

    def _may_be_kafka(self, event: Run | Gap | End) -> bool:
        """Whether an event holds another copy of the first bytes, which were taken for a protocol other than Kafka."""
        if not isinstance(event, Run) or self.foreign is Verdict.TLS or self.recognised:
            return False
        for copy in event.copies:
            if copy.start <= self.position < copy.end:
                other = self.stretch.with_copy(copy, self.position, self.side, max(event.released, self.floor))
                if other is not None:
                    self.stretch, self.foreign, self.later = other, None, (self.position, copy.end)
                    return True
        return False

    def _walk(self, out: list[Item]) -> None:
        while self.foreign is None:
            if self.search is not None:
                if self.probe() is None:
                    return
                if self.seek(out) and not self.recognised:
                    self._recognised()
            elif self.recognised:
                if not self._scan(out):
                    return
            elif not self._recognise(out):
                return

    def presume(self, key: int) -> list[Item]:
        """Take the connection for Kafka, as the broker's side proved at `key`.

        Returns the items withheld until then.
        """
        self.floor = max(self.floor, key)
        self._recognised()
        withheld, self.withheld = self.withheld, []
        return [(max(at, self.floor), kind, item, number) for at, kind, item, number in withheld]

    def _recognised(self) -> None:
        self.recognised = True
        self.floor_at_start = self.floor
        before, self.health = self.health, self.shared_health
        self.health.gaps += before.gaps
        self.health.lost += before.lost
        self.health.resyncs += before.resyncs

    def _recognise(self, out: list[Item]) -> bool:
        """Examine the first bytes; returns False if more are needed.

        Otherwise `recognised` is set, a search has begun, or `foreign` names another protocol.
        """
        stretch = self.stretch
        position = self.position
        if stretch.end <= position or stretch.end < self.need:
            return False
        data = stretch.gather(position, 14 + LONGEST_CLIENT_ID)
        verdict = recognise(data, self.known, self.limit)
        if self.among and verdict is Verdict.OTHER:
            verdict = self._dialects_verdict(data)
        if verdict is Verdict.MORE:
            if stretch.stored(min(position + len(data), stretch.end - 1)):
                return False
            self.look(position, chained=True, begin=True)
            return True
        if verdict is Verdict.WEAK:
            end = position + 4 + int.from_bytes(data[:4], "big")
            if end > stretch.end:
                self.need = end
                return False
            self.floor = stretch.key(end - 1)
            whole = stretch.gather(position, end - position)
            if self.refute(position, end) is None or decodes(whole, self.definitions):
                verdict = Verdict.KAFKA
        if verdict in {Verdict.KAFKA, Verdict.SASL}:
            self.sasl = verdict is Verdict.SASL
            if not self.floor:
                self.floor = self._decisive(data)
            self._recognised()
            self.need = 0
            return True
        if verdict in {Verdict.WEAK, Verdict.OTHER} and not self.opened:
            self.need = 0
            self.look(position, chained=True, begin=True)
            return True
        self.foreign = verdict
        if verdict is Verdict.TLS:
            self._tls(data, out)
        return True

    def _decisive(self, data: bytes) -> int:
        """Key of the byte with which the first header became readable."""
        stretch = self.stretch
        low, high = 5, len(data)
        while low < high:
            middle = (low + high) // 2
            if recognise(data[:middle], self.known, self.limit) is Verdict.MORE:
                low = middle + 1
            else:
                high = middle
        return stretch.key(self.position + low - 1)

    def _tls(self, data: bytes, out: list[Item]) -> None:
        """Append one exchange that says that the connection is encrypted.

        Its request is the first TLS record's header.
        """
        stretch = self.stretch
        start = self.position
        spans, _ = stretch.spans(start, start + 5)
        key = self.floor = stretch.key(start + 4)
        size = int.from_bytes(data[3:5], "big")
        frame = Frame(self.side, start, size, stretch.time(start), stretch.time(start + 4), key, spans)
        exchange = Exchange(0, self.connection, None, None, None, None, frame)
        exchange.problems.append(Problem(self.where, 0, "", "the connection is encrypted (TLS)", Code.TLS))
        self.started.append((key, exchange))
        out.append((key, WHOLE, exchange, None))

    def client_id(self, raw: bytes) -> str:
        """Decode a client id that is not in the cache `client_ids`, and add it to the cache."""
        text = raw.decode("utf-8", "replace")
        if len(self.client_ids) < _MOST_CLIENT_IDS:
            self.client_ids[raw] = text
        return text

    def _scan(self, out: list[Item]) -> bool:
        """Read the frames from `position` on.

        Returns True if the next frame's position is lost, so that a search must go on.
        """
        stretch = self.stretch
        last = stretch.end
        if last < self.need or self.position >= last:
            return False
        while self.position < last:
            if stretch.plain and self.current is None and self.withdrawn is None and not self.sasl:
                whole_requests(self, out)
                if self.position >= last:
                    break
            if not self._step(out):
                break
        stretch.drop(self.position)
        return self.search is not None

    def no_reply(self, key: int, version: int, position: int, size: int) -> bool:
        """Whether the request of `size` bytes at `position`, with this API key and version, wants no reply."""
        found = None
        for most in (HEAD, ENOUGH):
            if found is None:
                head = self.stretch.gather(position, min(size + 4, most))
                found = wants_no_reply(head, way(self.definitions, key, version))
        return bool(found)

    def follow_sasl(self, key: int, version: int) -> bool:
        """Process a SASL request; returns whether tokens without a Kafka header may follow."""
        self.authenticates = True
        self.sasl = irregular.bare_tokens_follow(key, version)
        return self.sasl

    def _step(self, out: list[Item]) -> bool:
        """Process one frame; returns False if more bytes are needed or the position of the next frame is lost."""
        stretch = self.stretch
        position = self.position
        exchange = self.current
        if exchange is None:
            head = stretch.gather(position, 6 if self.among else 4)
            if len(head) < 4:
                if position + len(head) < stretch.end:
                    self.lost(out, position + len(head))
                else:
                    self.need = stretch.end + 1
                return False
            size = SIZE.unpack_from(head)[0]
            if not 0 <= size <= self.limit:
                self.absurd(out, size, position + 3)
                return False
            dialect = self._in_dialect(head) if self.among and not self.sasl else None
            exchange = self._header(size) if dialect is None else self._dialect_header(size, dialect)
            if exchange is None:
                self.need = stretch.end + 1
                return False
            self.current = exchange
            self.need = position + 4 + size
        end = self.need
        if end > stretch.end:
            return False
        self._complete(exchange, end, out)
        return True

    def _header(self, size: int) -> Exchange | None:
        """The exchange of the frame of `size` bytes at `position`; None if its header has not arrived yet."""
        wanted = min(size + 4, 14)
        head = self._first(wanted)
        if head is None:
            return None
        client_id: str | None = None
        key = version = correlation_id = None
        token = False
        if self.sasl:
            # The client id also distinguishes a token from a request.
            wanted = min(size + 4, 14 + LONGEST_CLIENT_ID)
            wide = self._first(wanted)
            if wide is None:
                return None
            head = wide
            token = not plausible_request(head, size, self.known)
            self.sasl = token
        if not token and len(head) >= 12:
            _, key, version, correlation_id = _SHORT_REQUEST.unpack_from(head)
        if not token and len(head) >= 14 and (key != CONTROLLED_SHUTDOWN or version):
            length = int.from_bytes(head[12:14], "big", signed=True)
            named = key in self.known.versions
            if 0 <= length <= size - 10 and (named or length <= LONGEST_CLIENT_ID):
                wanted = max(wanted, 14 + length)
                whole = self._first(wanted)
                if whole is None:
                    return None
                raw = whole[14 : 14 + length]
                if len(raw) == length and (named or printable(raw)):
                    client_id = self.client_id(raw)
                head = whole
        exchange = Exchange(0, self.connection, key, version, correlation_id, client_id, token=token)
        if key is None and not token:
            self._headless(exchange, len(head), size)
        decisive = self.position + min(len(head), wanted - 1)
        if decisive < self.stretch.end:
            self.floor = max(self.floor, self.stretch.key(decisive))
        return self._start(exchange)

    def _start(self, exchange: Exchange) -> Exchange:
        """Begin the exchange and return it.

        If an exchange was `withdrawn`, that one gets the new header and is returned.
        """
        before, self.withdrawn = self.withdrawn, None
        if before is None:
            self.started.append((self.floor, exchange))
            return exchange
        for name in ("api_key", "api_version", "correlation_id", "client_id", "token", "protocol", "problems"):
            setattr(before, name, getattr(exchange, name))
        return before

    def withdraw(self) -> None:
        self.withdrawn, self.current = self.current, None

    def _in_dialect(self, head: bytes) -> Dialect | None:
        """The dialect with a request type whose number is in the place of the API key in `head`.

        None if no dialect has such a type.
        """
        if len(head) < 6 or SIZE.unpack_from(head)[0] < 2:
            return None
        found = self.among.get(int.from_bytes(head[4:6], "big", signed=True))
        return None if found is None else found[0]

    def _dialects_verdict(self, data: bytes) -> Verdict:
        """The protocol of a stream whose first bytes are no Kafka request: a dialect's, or another protocol."""
        if len(data) < 6:
            return Verdict.MORE
        return Verdict.OTHER if self._in_dialect(data) is None else Verdict.WEAK

    def _dialect_header(self, size: int, dialect: Dialect) -> Exchange | None:
        """The exchange of a dialect's frame of `size` bytes at `position`; None if its header has not arrived yet."""
        whole = min(size + 4, ENOUGH)
        head = self.stretch.gather(self.position, whole)
        header = dialect.request_header
        key = int.from_bytes(head[4:6], "big", signed=True)
        exchange = Exchange(0, self.connection, key, None, None, None, protocol=dialect.name)
        try:
            values, end = read_header(head, dialect, header)
        except DecodeError:
            if self._first(whole) is None:
                return None
            # Once the first missing byte is reached, the header stays incomplete.
            decisive = self.position + min(len(head), whole - 1)
        else:
            decisive = self.position + end - 1
            exchange.api_version = header.get("version", values)
            exchange.correlation_id = header.get("correlationId", values)
            exchange.client_id = header.get("clientId", values)
        if decisive < self.stretch.end:
            self.floor = max(self.floor, self.stretch.key(decisive))
        return self._start(exchange)

    def _first(self, size: int) -> bytes | None:
        """The first `size` bytes of the frame; fewer if the rest is lost, None if the rest may still arrive."""
        data = self.stretch.gather(self.position, size)
        if len(data) < size and self.position + len(data) >= self.stretch.end and not self.over:
            return None
        return data

    def _headless(self, exchange: Exchange, there: int, size: int) -> None:
        if size < 8:
            text = f"a request of {counted(size, 'byte')} has no header"
            exchange.problems.append(Problem(self.where, 0, "", text, Code.BAD_LENGTH))
        else:
            exchange.problems.append(Problem(self.where, there, "", "the header is missing", Code.TRUNCATED))

    def _complete(self, exchange: Exchange, end: int, out: list[Item]) -> None:
        """Give the current exchange its request, the bytes [position, end)."""
        position = self.position
        frame = self.frame(position, end, exchange.problems)
        self.floor = frame.at
        exchange.request = frame
        kind = REQUEST
        key, version = exchange.api_key, exchange.api_version
        if exchange.token:
            kind = TOKEN
            self.authenticates = True
        elif exchange.protocol is not None:
            kind = self._kind(exchange)
        elif key is not None and version is not None:
            if key in NO_REPLY_KEYS and self.no_reply(key, version, position, frame.size):
                kind = NO_REPLY
            elif key in SASL_KEYS:
                self.follow_sasl(key, version)
        out.append((self.floor, kind, exchange, exchange.correlation_id))
        self.current = None
        self.position = end
        self.need = 0

    def _kind(self, exchange: Exchange) -> int:
        """The kind of a dialect's request, which decides its pairing: ONE_WAY, IN_ORDER or REQUEST."""
        found = None if exchange.api_key is None else self.among.get(exchange.api_key)
        if found is None or found[1].response is None:
            return ONE_WAY
        return IN_ORDER if found[0].by_order else REQUEST

    def _finish(self, event: End, out: list[Item]) -> None:
        """Process the end of the stream; incomplete frames are reported as cut."""
        self.over = True
        stretch = self.stretch
        if not self.begun:
            return
        self.floor = max(self.floor, event.at)
        if self.search is not None:
            start = self.search.unproven()
            if start is not None and self._plausible(start):
                self.aligned(out, start, stretch.end)
                if not self.recognised:
                    self._recognised()
                self.need = 0
                self._scan(out)
        elif not self.recognised and stretch.end - self.position >= 14:
            head = stretch.gather(self.position, 14 + LONGEST_CLIENT_ID)
            if self.opened and len(head) >= 4 and plausible_request(head, SIZE.unpack_from(head)[0], self.known):
                self._recognised()
                self.need = 0
                self._scan(out)
        if not self.recognised:
            return
        if self.current is None and self.search is None and stretch.end - self.position >= 12:
            # A frame that waited for more bytes of its header is read with the bytes that arrived.
            self.need = 0
            self._scan(out)
        if self.current is None:
            self.current, self.withdrawn = self.withdrawn, None
        if self.current is not None:
            self._complete(self.current, self.need, out)
        else:
            self.unread(out, event.at, event.time)

    def _plausible(self, start: int) -> bool:
        """Whether a request seems to begin at `start`, judged by the bytes that have arrived."""
        head = self.stretch.gather(start, 14 + LONGEST_CLIENT_ID)
        return len(head) >= 14 and plausible_request(head, SIZE.unpack_from(head)[0], self.known)

    def candidates(self, window: bytes) -> list[tuple[int, int]]:
        found = []
        for match in self.known.starts(self.limit).finditer(window):
            position = match.start()
            size = self.candidate(window, position)
            if size >= 0:
                found.append((position, size))
        return found

    def candidate(self, window: bytes, position: int) -> int:
        """Size in bytes of the request that may begin at `position` of `window`; -1 if none can."""
        size: int = SIZE.unpack_from(window, position)[0]
        if not 8 <= size <= self.limit:
            return -1
        head = window[position : position + 14 + LONGEST_CLIENT_ID]
        return size if plausible_request(head, size, self.known) else -1

    def link(self, window: bytes, position: int) -> int:
        size, key, version, _, length = _REQUEST.unpack_from(window, position)
        if not 10 <= size <= self.limit or not -1 <= length <= size - 10 or not self.known.near(key, version):
            return -1
        return int(size)

    def refute(self, start: int, end: int) -> int | None:
        stretch = self.stretch
        head = stretch.gather(start, min(end - start, 14 + LONGEST_CLIENT_ID))
        dialect = self._in_dialect(head)
        if dialect is not None:
            return None if fits(decode(stretch.gather(start, end - start), "request", dialect)) else end - start
        if not plausible_request(head, end - start - 4, self.known):
            return 0
        data = stretch.gather(start, end - start)
        if len(data) < end - start:
            # The frame is cut by the snap length, so only the header can be checked.
            return None if len(head) > 16 else 0
        return unfit(decode_request(data, self.definitions), len(data))
