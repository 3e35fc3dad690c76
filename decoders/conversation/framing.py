"""Frames of one direction, found in runs of bytes by reading their first bytes only.

Both framers keep the bytes that are not consumed yet as a Stretch and walk it frame by frame. What they find goes to a
list of `(key, kind, item, correlation id)`, in order of key: the address at which the stream up to that point had been
captured. While the position of the next frame is known the framer is aligned; once a length is lost or absurd, a Search
looks for the next frame, and the caller steps it segment by segment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import sub
from struct import Struct
from typing import Any, Final

from decoders.conversation.acks import ENOUGH, wants_no_reply
from decoders.conversation.recognition import (
    CONTROLLED_SHUTDOWN,
    LONGEST_CLIENT_ID,
    Known,
    Verdict,
    decodes,
    is_tls,
    plausible_request,
    printable,
    recognise,
)
from decoders.conversation.resync import Search
from decoders.conversation.stream import End, Gap, Run, Side, Source
from decoders.conversation.stretch import Stretch
from decoders.exchange import Connection, Exchange, Frame, Health, StreamProblem
from decoders.message import decode_response
from decoders.problems import Code, Problem
from decoders.schema import irregular
from decoders.schema.lookup import Definitions

REQUEST: Final = 0
NO_REPLY: Final = 1
"""A request that says that it wants no reply."""
TOKEN: Final = 2
RESPONSE: Final = 3
PROBLEM: Final = 4
END: Final = 5
WHOLE: Final = 6
"""An exchange that needs no pairing (TLS)."""
BROKEN: Final = 7
"""A response that the connection's end left half sent."""

Item = tuple[int, int, Any, "int | None"]

_REQUEST = Struct(">ihhih")
_SHORT_REQUEST = Struct(">ihhi")
_RESPONSE = Struct(">ii")
_SIZE = Struct(">i")
_HEAD = 96
"""Bytes read of a request at first: most client ids end before, and a Produce's acks stand there."""
_MOST_CLIENT_IDS = 1024
_NEVER = 1 << 62

CLOSED = frozenset({"FIN", "RST"})
"""Reasons of an End that are the peers' doing and not the capture's."""

NO_REPLY_KEYS = frozenset(key for key in range(128) if irregular.may_expect_no_reply(key))


class Framer:
    """What both directions have in common."""

    side: Side
    where: str

    def __init__(
        self,
        connection: Connection,
        source: Source,
        definitions: Definitions,
        known: Known,
        limit: int,
        health: Health,
    ) -> None:
        self.connection = connection
        self.source = source
        self.definitions = definitions
        self.known = known
        self.limit = limit
        self.health = health
        self.stretch = Stretch(source, 0)
        self.begun = False
        self.position = 0
        """Where the next frame begins, while aligned."""
        self.need = 0
        """Offset that the stretch must reach before anything can happen."""
        self.floor = 0
        """Highest key so far."""
        self.search: Search | None = None
        self.over = False
        self.comments: dict[int, str] = {}
        self.overlaps: list[tuple[int, int]] = []
        self.attention = _NEVER
        """First offset that a comment or an overlap concerns."""

    def take(self, event: Run | Gap, out: list[Item]) -> None:
        """Append the bytes of an event to what is held."""
        if not self.begun:
            self.begun = True
            self.stretch = Stretch(self.source, event.start)
            self.position = event.start
        if isinstance(event, Gap):
            if self.stretch.gap(event):
                lost = event.end - max(event.start, self.stretch.ends[-2])
                self.health.gaps += 1
                self.health.lost += lost
                if self.search is not None:
                    key = max(self.floor, event.at)
                    start = self.stretch.ends[-2]
                    self.report(out, key, start, lost, Code.GAP, f"{lost} bytes are missing", event.time)
            return
        if event.comments:
            self.comments.update(event.comments)
            self.attention = min(self.attention, *event.comments)
        for low, high in event.overlaps:
            if high > self.position:
                self.overlaps.append((low, high))
                self.attention = min(self.attention, low)
            else:
                text = f"a retransmission carried other bytes among {high - low}; the first are shown"
                key = max(self.floor, event.released, self.stretch.top)
                self.report(out, key, low, high - low, Code.OVERLAP, text, self.stretch.times[-1])
        self.stretch.extend(event)

    def report(self, out: list[Item], key: int, offset: int, size: int, code: Code, message: str, time: int) -> None:
        self.floor = max(self.floor, key)
        problem = StreamProblem(self.connection, self.side, time, offset, size, code, message, self.floor)
        out.append((self.floor, PROBLEM, problem, None))

    def frame(self, start: int, end: int, problems: list[Problem]) -> Frame:
        """The frame at [start, end), any part of which may be missing."""
        stretch = self.stretch
        stop = min(end, stretch.end)
        key = max(stretch.key(stop - 1), self.floor)
        spans, missing = stretch.spans(start, end)
        frame = Frame(
            self.side, start, end - start - 4, stretch.time(start), stretch.time(stop - 1), key, spans, (), missing
        )
        if missing:
            self.health.cut += 1
            problems += self._missing(start, end, missing)
        if end > self.attention:
            self.attend(frame, start, end, problems)
        return frame

    def _missing(self, start: int, end: int, missing: int) -> list[Problem]:
        """Say for each reason why bytes of the frame are missing."""
        stretch = self.stretch
        found = []
        tail = end - max(stretch.end, start)
        lost = 0
        for gap_start, gap_end in stretch.gaps:
            low, high = max(gap_start, start), min(gap_end, end)
            if low < high:
                lost += high - low
                found.append(Problem(self.where, low - start, "", f"{high - low} bytes are missing", Code.GAP))
        if missing > lost + max(tail, 0):
            first = start + len(stretch.gather(start, end - start))
            if found:
                first = start
                while stretch.stored(first) or stretch.gap_at(first) is not None:
                    first = self._next_change(first)
            cut = missing - lost - max(tail, 0)
            text = f"{cut} bytes were on the wire but were not captured"
            found.append(Problem(self.where, first - start, "", text, Code.CUT_BY_SNAPLEN))
        if tail > 0:
            found.append(
                Problem(self.where, stretch.end - start, "", f"the stream ends {tail} bytes early", Code.TRUNCATED)
            )
        return found

    def _next_change(self, offset: int) -> int:
        """First offset after `offset` at which bytes begin or end to be missing."""
        stretch = self.stretch
        k = bisect_right(stretch.ends, offset, 1)
        have = stretch.ends[k] if stretch.have is None else stretch.have[k]
        return have if offset < have else stretch.ends[k]

    def attend(self, frame: Frame, start: int, end: int, problems: list[Problem]) -> None:
        """Give the frame the comments and overlaps that concern it."""
        for offset in sorted(self.comments):
            if offset < end:
                text = self.comments.pop(offset)
                if offset >= start:
                    frame.comments = (*frame.comments, text)
        rest = []
        for low, high in self.overlaps:
            if high > start and low < end:
                first, last = max(low, start), min(high, end)
                text = f"a retransmission carried other bytes among {last - first}; the first are shown"
                problems.append(Problem(self.where, first - start, "", text, Code.OVERLAP))
            if high > end:
                rest.append((low, high))
        self.overlaps = rest
        self.attention = min([*self.comments, *(max(low, end) for low, _ in rest)], default=_NEVER)

    def lost(self, out: list[Item], offset: int) -> None:
        """Report that the length at `position` is not there, from `offset` on, and search after it."""
        stretch = self.stretch
        gap = stretch.gap_at(offset)
        resume = stretch.next_stored(offset)
        key, time = stretch.key(offset), stretch.time(offset)
        if gap is not None:
            size = gap[1] - gap[0]
            self.report(out, key, gap[0], size, Code.GAP, f"{size} bytes are missing", time)
        else:
            size = stretch.ends[stretch.segment(offset)] - offset
            text = "a frame's length is not in the capture"
            self.report(out, key, offset, size, Code.CUT_BY_SNAPLEN, text, time)
            resume = offset + size
        self.look(resume, chained=True)

    def absurd(self, out: list[Item], size: int, last: int) -> None:
        """Report a length that cannot be believed, as the byte at `last` shows, and search after it."""
        stretch = self.stretch
        first = stretch.gather(self.position, 4)
        if size < 0:
            code, text = Code.BAD_LENGTH, f"a frame's length is {size}"
        else:
            code, text = Code.OVERSIZE_FRAME, f"a frame's length is {size}, the limit is {self.limit}"
        if all(0x20 <= byte < 0x7F for byte in first):
            text += f' (as text "{first.decode()}")'
        self.report(out, stretch.key(last), self.position, 4, code, text, stretch.time(last))
        start = self.position
        self.look(start + 1, chained=False, lost=start)

    def look(self, start: int, *, chained: bool, begin: bool = False, lost: int | None = None) -> None:
        """Begin a search at `start`; `lost` is where the alignment was lost, if before."""
        self.search = Search(
            start,
            lost=start if lost is None else lost,
            requests=self.side is Side.CLIENT,
            candidate=self.candidate,
            link=self.link,
            verify=self.verify,
            chained=chained,
            begin=begin,
        )
        self.position = start

    def candidate(self, window: bytes, position: int) -> int:
        raise NotImplementedError

    def link(self, window: bytes, position: int) -> int:
        raise NotImplementedError

    def verify(self, start: int, end: int) -> bool:
        raise NotImplementedError

    def probe(self) -> int | None:
        """Key of the last byte of the segment that the search looks at next; None where it must wait for more."""
        stretch, search = self.stretch, self.search
        if search is None or search.done >= stretch.end:
            return None
        return max(stretch.key(stretch.ends[stretch.segment(search.done)] - 1), self.floor)

    def seek(self, out: list[Item]) -> bool:
        """Take one step of the search; True once the next frame is found."""
        stretch, search = self.stretch, self.search
        if search is None:
            return True
        found = search.step(stretch)
        if found is None:
            stretch.drop(search.needed())
            return False
        position, end = found
        self.aligned(out, position, end)
        return True

    def aligned(self, out: list[Item], position: int, end: int) -> None:
        """Go on reading frames at `position`, as the byte before `end` shows to be right."""
        stretch, search = self.stretch, self.search
        if search is None:
            return
        end = min(end, stretch.end)
        skipped = position - search.lost
        self.floor = max(self.floor, stretch.key(end - 1))
        if not search.begin or skipped:
            self.health.resyncs += 1
            text = f"read on after {skipped} bytes that belong to no frame"
            self.report(out, self.floor, search.lost, skipped, Code.RESYNC, text, stretch.time(end - 1))
        self.search = None
        self.position = self.need = position

    def unread(self, out: list[Item], key: int, time: int) -> None:
        """Report at the end of the stream what could not be made part of a frame."""
        stretch, search = self.stretch, self.search
        if search is not None:
            size = stretch.end - search.lost
            if size > 0:
                text = f"no frame begins in the last {size} bytes"
                self.report(out, key, search.lost, size, Code.RESYNC, text, time)
        elif stretch.end > self.position:
            size = stretch.end - self.position
            text = f"the stream ends {size} bytes into a frame's header"
            self.report(out, key, self.position, size, Code.TRUNCATED, text, time)


class Requests(Framer):
    """The asking side. Makes the exchanges; `started` receives those whose header is readable."""

    side = Side.CLIENT
    where = "request"

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
        """What the connection carries, once it is known not to be Kafka."""
        self.sasl = False
        """Bare tokens may come."""
        self.current: Exchange | None = None
        """The exchange whose request is not whole yet."""
        self.withheld: list[Item] = []
        """What was found before it is known whether this is Kafka."""
        self.floor_at_start = 0
        """Key of the byte that showed that this is Kafka."""
        self.shared_health = health
        self.health = Health()
        self.client_ids: dict[bytes, str] = {}

    def feed(self, event: Run | Gap | End, out: list[Item]) -> None:
        """Take an event of this side and append to `out` what it completes."""
        if self.over or self.foreign is not None:
            return
        sink = out if self.recognised else self.withheld
        if isinstance(event, End):
            self._finish(event, sink)
        else:
            self.take(event, sink)
            self._walk(sink)
        if sink is self.withheld and (self.recognised or self.foreign is Verdict.TLS):
            out += ((max(key, self.floor_at_start), kind, item, id_) for key, kind, item, id_ in sink)
            self.withheld = []

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

    def _recognised(self) -> None:
        self.recognised = True
        self.floor_at_start = self.floor
        before, self.health = self.health, self.shared_health
        self.health.gaps += before.gaps
        self.health.lost += before.lost
        self.health.resyncs += before.resyncs

    def _recognise(self, out: list[Item]) -> bool:
        """Judge the first bytes; False where more are needed.

        Afterwards `recognised` is set, or a search is begun, or `foreign` says what it is.
        """
        stretch = self.stretch
        position = self.position
        if stretch.end <= position or stretch.end < self.need:
            return False
        data = stretch.gather(position, 14 + LONGEST_CLIENT_ID)
        verdict = recognise(data, self.known, self.limit)
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
            if self.verify(position, end):
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
        """Key of the byte that made the first header readable."""
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
        """One exchange says that the connection is encrypted; its request is the first record's header."""
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

    def _client_id(self, raw: bytes) -> str:
        text = raw.decode("utf-8", "replace")
        if len(self.client_ids) < _MOST_CLIENT_IDS:
            self.client_ids[raw] = text
        return text

    def _scan(self, out: list[Item]) -> bool:
        """Walk the frames from `position` on; True where the alignment is lost, so that a search must go on."""
        stretch = self.stretch
        ends, ats, times = stretch.ends, stretch.ats, stretch.times
        last = ends[-1]
        position = self.position
        if last < self.need or position >= last:
            return False
        read, connection, limit = self.source.read, self.connection, self.limit
        started, versions, client_ids = self.started.append, self.known.versions, self.client_ids
        unpack = _REQUEST.unpack_from
        plain = stretch.have is None and stretch.prior is None
        floor = self.floor
        client_id: str | None
        k = bisect_right(ends, position, 1)
        while position < last:
            while ends[k] <= position:
                k += 1
            current = self.current
            room = ends[k] - position
            if plain and room >= 14 and current is None and not self.sasl:
                at = ats[k] + position - ends[k - 1]
                head = read(at, at + _HEAD)
                if len(head) >= 14:
                    size, key, version, correlation_id, length = unpack(head)
                    if 14 <= size <= limit and key in versions and (key != CONTROLLED_SHUTDOWN or version):
                        if length > 0:
                            header_end = 14 + length
                            if header_end <= len(head) and header_end <= room and length <= size - 10:
                                raw = bytes(head[14:header_end])
                                client_id = client_ids.get(raw) or self._client_id(raw)
                            else:
                                header_end = 0
                        else:
                            header_end = 14
                            client_id = "" if length == 0 else None
                        if header_end and position + 4 + size <= last:
                            end = position + 4 + size
                            header_at = at + header_end - 1
                            floor = max(floor, header_at)
                            if end <= ends[k]:
                                frame_at = at + size + 3
                                frame = Frame(
                                    Side.CLIENT, position, size, times[k], times[k], frame_at, [(at, size + 4)]
                                )
                            else:
                                j = bisect_left(ends, end, k + 1)
                                frame_at = ats[j] + end - 1 - ends[j - 1]
                                spans = [(at, room)]
                                if j > k + 1:
                                    lengths = map(sub, ends[k + 1 : j], ends[k : j - 1])
                                    spans += zip(ats[k + 1 : j], lengths, strict=True)
                                spans.append((ats[j], end - ends[j - 1]))
                                frame = Frame(Side.CLIENT, position, size, times[k], times[j], frame_at, spans)
                                k = j
                            exchange = Exchange(0, connection, key, version, correlation_id, client_id, frame)
                            started((floor, exchange))
                            if frame_at > floor:
                                floor = frame_at
                            else:
                                frame.at = floor
                            if end > self.attention:
                                self.attend(frame, position, end, exchange.problems)
                            kind = REQUEST
                            if key in NO_REPLY_KEYS and self._no_reply(key, version, head[:room], position, size):
                                kind = NO_REPLY
                            elif key == irregular.SASL_HANDSHAKE:
                                self.sasl = irregular.bare_tokens_follow(key, version)
                            out.append((floor, kind, exchange, correlation_id))
                            position = end
                            continue
            self.position, self.floor = position, floor
            if not self._step(out):
                break
            position, floor = self.position, self.floor
        else:
            self.position, self.floor = position, floor
        stretch.drop(self.position)
        return self.search is not None

    def _no_reply(self, key: int, version: int, head: bytes | memoryview, position: int, size: int) -> bool:
        """Whether the request says that it wants no reply; `head` are its first bytes, or more."""
        stretch = self.stretch
        whole = min(size + 4, ENOUGH)
        answer = wants_no_reply(bytes(head[:whole]), key, version, self.definitions)
        if answer is None and len(head) < whole:
            answer = wants_no_reply(stretch.gather(position, whole), key, version, self.definitions)
        return bool(answer)

    def _step(self, out: list[Item]) -> bool:
        """One frame, whatever its state; False where more bytes are needed or the alignment is lost."""
        stretch = self.stretch
        position = self.position
        exchange = self.current
        if exchange is None:
            head = stretch.gather(position, 4)
            if len(head) < 4:
                if position + len(head) < stretch.end:
                    self.lost(out, position + len(head))
                else:
                    self.need = stretch.end + 1
                return False
            size = _SIZE.unpack_from(head)[0]
            if not 0 <= size <= self.limit:
                self.absurd(out, size, position + 3)
                return False
            exchange = self._header(size)
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
        """The exchange of the frame of `size` at `position`, None where its header is not there yet."""
        wanted = min(size + 4, 14)
        head = self._first(wanted)
        if head is None:
            return None
        client_id: str | None = None
        key = version = correlation_id = None
        token = False
        if self.sasl:
            # A token is told from a request by its client id too.
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
                    client_id = self._client_id(raw)
                head = whole
        exchange = Exchange(0, self.connection, key, version, correlation_id, client_id, token=token)
        if key is None and not token:
            self._headless(exchange, len(head), size)
        decisive = self.position + min(len(head), wanted - 1)
        if decisive < self.stretch.end:
            self.floor = max(self.floor, self.stretch.key(decisive))
        self.started.append((self.floor, exchange))
        return exchange

    def _first(self, size: int) -> bytes | None:
        """The first `size` bytes of the frame, fewer where the rest will never be there; None where it still may."""
        data = self.stretch.gather(self.position, size)
        if len(data) < size and self.position + len(data) >= self.stretch.end and not self.over:
            return None
        return data

    def _headless(self, exchange: Exchange, there: int, size: int) -> None:
        if size < 8:
            text = f"a request of {size} bytes has no header"
            exchange.problems.append(Problem(self.where, 0, "", text, Code.BAD_LENGTH))
        else:
            exchange.problems.append(Problem(self.where, there, "", "the header is missing", Code.TRUNCATED))

    def _complete(self, exchange: Exchange, end: int, out: list[Item]) -> None:
        """Give the exchange its request [position, end)."""
        position = self.position
        frame = self.frame(position, end, exchange.problems)
        self.floor = frame.at
        exchange.request = frame
        kind = REQUEST
        key, version = exchange.api_key, exchange.api_version
        if exchange.token:
            kind = TOKEN
        elif key is not None and version is not None:
            if key in NO_REPLY_KEYS and self._no_reply(key, version, b"", position, frame.size):
                kind = NO_REPLY
            elif irregular.bare_tokens_follow(key, version):
                self.sasl = True
        out.append((self.floor, kind, exchange, exchange.correlation_id))
        self.current = None
        self.position = end
        self.need = 0

    def _finish(self, event: End, out: list[Item]) -> None:
        """The stream is over: what is not whole is cut."""
        self.over = True
        stretch = self.stretch
        if not self.begun:
            return
        self.floor = max(self.floor, event.at)
        if self.search is not None:
            start = self.search.unproven()
            if start is not None and stretch.end - start >= 14:
                self.aligned(out, start, stretch.end)
                if not self.recognised:
                    self._recognised()
                self.need = 0
                self._scan(out)
        elif not self.recognised and stretch.end - self.position >= 14:
            head = stretch.gather(self.position, 14 + LONGEST_CLIENT_ID)
            if self.opened and len(head) >= 4 and plausible_request(head, _SIZE.unpack_from(head)[0], self.known):
                self._recognised()
                self.need = 0
                self._scan(out)
        if not self.recognised:
            return
        if self.current is None and self.search is None and stretch.end - self.position >= 12:
            # What waited for more of a header must do with what there is.
            self.need = 0
            self._scan(out)
        if self.current is not None:
            self._complete(self.current, self.need, out)
        else:
            self.unread(out, event.at, event.time)

    def candidate(self, window: bytes, position: int) -> int:
        size: int = _SIZE.unpack_from(window, position)[0]
        if not 8 <= size <= self.limit:
            return -1
        head = window[position : position + 14]
        return size if plausible_request(head, size, self.known) else -1

    def link(self, window: bytes, position: int) -> int:
        size, key, version, _, length = _REQUEST.unpack_from(window, position)
        if not 10 <= size <= self.limit or not -1 <= length <= size - 10 or not self.known.near(key, version):
            return -1
        return int(size)

    def verify(self, start: int, end: int) -> bool:
        stretch = self.stretch
        data = stretch.gather(start, end - start)
        if len(data) < end - start:
            # Cut by the snap length: the header alone must do.
            head = data[: 14 + LONGEST_CLIENT_ID]
            return len(head) > 16 and plausible_request(head, end - start - 4, self.known)
        if not plausible_request(data[: 14 + LONGEST_CLIENT_ID], end - start - 4, self.known):
            return False
        return decodes(data, self.definitions)


class Responses(Framer):
    """The answering side. `outstanding` are the exchanges that wait, by correlation id."""

    side = Side.BROKER
    where = "response"

    def __init__(
        self,
        connection: Connection,
        source: Source,
        definitions: Definitions,
        known: Known,
        limit: int,
        health: Health,
        outstanding: dict[int, Exchange],
        *,
        opened: bool,
    ) -> None:
        super().__init__(connection, source, definitions, known, limit, health)
        self.outstanding = outstanding
        self.opened = opened
        self.foreign = False

    def take(self, event: Run | Gap, out: list[Item]) -> None:
        first = not self.begun
        super().take(event, out)
        if first and not self.opened:
            self.look(self.position, chained=True, begin=True)

    def scan(self, out: list[Item]) -> None:
        """Walk the frames from `position` on, as far as the alignment goes."""
        stretch = self.stretch
        if self.foreign:
            return
        ends, ats, times = stretch.ends, stretch.ats, stretch.times
        last = ends[-1]
        position = self.position
        if self.search is not None or last < self.need or position >= last:
            return
        read, limit = self.source.read, self.limit
        unpack = _RESPONSE.unpack
        plain = stretch.have is None and stretch.prior is None
        floor = self.floor
        k = bisect_right(ends, position, 1)
        while position < last:
            while ends[k] <= position:
                k += 1
            room = ends[k] - position
            if plain and room >= 8:
                at = ats[k] + position - ends[k - 1]
                head = read(at, at + 8)
                if len(head) == 8:
                    size, correlation_id = unpack(head)
                    end = position + 4 + size
                    if 4 <= size <= limit and end <= last:
                        if end <= ends[k]:
                            frame_at = at + size + 3
                            frame = Frame(Side.BROKER, position, size, times[k], times[k], frame_at, [(at, size + 4)])
                        else:
                            j = bisect_left(ends, end, k + 1)
                            frame_at = ats[j] + end - 1 - ends[j - 1]
                            spans = [(at, room)]
                            if j > k + 1:
                                lengths = map(sub, ends[k + 1 : j], ends[k : j - 1])
                                spans += zip(ats[k + 1 : j], lengths, strict=True)
                            spans.append((ats[j], end - ends[j - 1]))
                            frame = Frame(Side.BROKER, position, size, times[k], times[j], frame_at, spans)
                            k = j
                        if frame_at > floor:
                            floor = frame_at
                        else:
                            frame.at = floor
                        problems: list[Problem] | None = None
                        if end > self.attention:
                            problems = []
                            self.attend(frame, position, end, problems)
                        out.append((floor, RESPONSE, (frame, problems) if problems else frame, correlation_id))
                        position = end
                        continue
            self.position, self.floor = position, floor
            if not self._step(out):
                break
            position, floor = self.position, self.floor
        else:
            self.position, self.floor = position, floor
        stretch.drop(self.position)

    def _step(self, out: list[Item]) -> bool:
        """One frame, whatever its state; False where more bytes are needed or the alignment is lost."""
        stretch = self.stretch
        position = self.position
        head = stretch.gather(position, 8)
        if len(head) < 4:
            if position + len(head) < stretch.end:
                self.lost(out, position + len(head))
            else:
                self.need = stretch.end + 1
            return False
        size = _SIZE.unpack_from(head)[0]
        if not 0 <= size <= self.limit:
            self._absurd(out, size)
            return False
        end = position + 4 + size
        if end > stretch.end:
            self.need = end
            return False
        self._complete(head, end, out)
        return True

    def _complete(self, head: bytes, end: int, out: list[Item], kind: int = RESPONSE) -> None:
        problems: list[Problem] = []
        frame = self.frame(self.position, end, problems)
        if kind == BROKEN:
            self.health.cut -= 1
        self.floor = frame.at
        correlation_id = _RESPONSE.unpack(head)[1] if len(head) == 8 and frame.size >= 4 else None
        out.append((self.floor, kind, (frame, problems) if problems else frame, correlation_id))
        self.position = end
        self.need = 0

    def _absurd(self, out: list[Item], size: int) -> None:
        """Tell a broker that does not speak Kafka from a length gone wrong."""
        stretch = self.stretch
        position = self.position
        data = stretch.gather(position, 5)
        if len(data) < 5 and position + len(data) == stretch.end:
            self.need = position + 5
            return
        if is_tls(data):
            self._strange(out, Code.TLS, "the broker's side answers in TLS")
        elif data[:4] == b"HTTP":
            self._strange(out, Code.NOT_KAFKA, "the broker's side answers in HTTP")
        else:
            self.absurd(out, size, position + min(len(data), 4))

    def _strange(self, out: list[Item], code: Code, text: str) -> None:
        stretch = self.stretch
        last = self.position + 4
        self.report(out, stretch.key(last), self.position, 5, code, text, stretch.time(last))
        self.foreign = True

    def finish(self, event: End, out: list[Item]) -> None:
        """The stream is over: what is not whole is cut."""
        self.over = True
        stretch = self.stretch
        if not self.begun or self.foreign:
            return
        self.floor = max(self.floor, event.at)
        if self.search is not None:
            start = self.search.unproven()
            if start is not None and stretch.end - start >= 8:
                self.aligned(out, start, stretch.end)
                self.scan(out)
        if self.search is None and stretch.end - self.position >= 8:
            head = stretch.gather(self.position, 8)
            if len(head) == 8 and 4 <= (size := _SIZE.unpack_from(head)[0]) <= self.limit:
                _, lost = stretch.spans(self.position, stretch.end)
                broken = event.reason in CLOSED and not lost
                self._complete(head, self.position + 4 + size, out, BROKEN if broken else RESPONSE)
                return
        self.unread(out, event.at, event.time)

    def candidate(self, window: bytes, position: int) -> int:
        size, correlation_id = _RESPONSE.unpack_from(window, position)
        if not 4 <= size <= self.limit or correlation_id not in self.outstanding:
            return -1
        return int(size)

    def link(self, window: bytes, position: int) -> int:
        size: int = _SIZE.unpack_from(window, position)[0]
        return size if 4 <= size <= self.limit else -1

    def verify(self, start: int, end: int) -> bool:
        stretch = self.stretch
        data = stretch.gather(start, end - start)
        if len(data) < 8:
            return False
        exchange = self.outstanding.get(_RESPONSE.unpack_from(data)[1])
        if exchange is None or exchange.request is None or exchange.request.at >= stretch.key(end - 1):
            return False
        if exchange.api_key is None or exchange.api_version is None:
            return False
        if len(data) < end - start or not self.known.exact(exchange.api_key, exchange.api_version):
            # Cut by the snap length, or no definition to hold it to: the correlation id must do.
            return True
        decoded = decode_response(data, exchange.api_key, exchange.api_version, self.definitions)
        return decoded.body is not None and not decoded.problems and decoded.guessed_version is None
