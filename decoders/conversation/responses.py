"""Finds the frames of the broker's side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

from kproxy.decoders.conversation.candidates import Awaited
from kproxy.decoders.conversation.compiled import whole_responses
from kproxy.decoders.conversation.framer import SIZE, Framer
from kproxy.decoders.conversation.items import BROKEN, RESPONSE, Item
from kproxy.decoders.conversation.recognition import Known, is_tls, unfit
from kproxy.decoders.conversation.unasked import Unasked
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health
from kproxy.decoders.message import decode_response
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import End, Side, Source

_RESPONSE = Struct(">ii")

KEPT = 1 << 16
"""Maximum number of searched bytes that stay in memory.

They are searched again for the responses to requests that missing client bytes had delayed.
"""

CLOSED = frozenset({"FIN", "RST"})
"""Reasons of an End with which the peers closed the connection; other reasons come from the capture."""


class Responses(Framer):
    """Framer of the broker's side; `outstanding` are the exchanges in flight, by correlation id.

    `repeated` are younger exchanges in flight whose correlation id is also in `outstanding`.
    """

    __slots__ = ("awaited", "foreign", "late", "opened", "outstanding", "repeated", "unasked")

    side = Side.BROKER
    where = "response"
    head = 8
    kept = KEPT

    def __init__(
        self,
        connection: Connection,
        source: Source,
        definitions: Definitions,
        known: Known,
        limit: int,
        health: Health,
        outstanding: dict[int, Exchange],
        repeated: Mapping[int, Iterable[Exchange]],
        *,
        opened: bool,
    ) -> None:
        super().__init__(connection, source, definitions, known, limit, health)
        self.outstanding = outstanding
        self.repeated = repeated
        self.opened = opened
        self.foreign = False
        self.late = 0
        """Key of a request that was captured before bytes that the search has already read; 0 if there is none."""
        self.awaited = Awaited(outstanding, limit)
        self.unasked: Unasked | None = None
        """Recognises responses if the capture holds no requests; None if it does."""

    def look(self, start: int, *, chained: bool, begin: bool = False, lost: int | None = None) -> None:
        self.awaited = Awaited(self.outstanding, self.limit)
        super().look(start, chained=chained, begin=begin, lost=lost)
        self.late = 0

    def asked(self, request: Frame, key: int) -> None:
        """Called if a request comes at `key` during a search: its response may be in bytes already searched."""
        search = self.search
        if search is None or search.done == search.start:
            return
        if _asked_before(request, self.stretch.key(search.done - 1)):
            self.late = key

    def look_again(self) -> None:
        """Search the bytes in memory again, after a request came that a hole had delayed."""
        search = self.search
        if search is None or not self.late:
            return
        self.floor = max(self.floor, self.late)
        # not from the stretch's start, which depends on how the bytes were split into batches
        start = max(search.start, search.done - self.kept)
        self.look(start, chained=search.chained and start == search.start, begin=search.begin, lost=search.lost)

    def presume(self, *, aligned: bool) -> None:
        """Read responses without requests; `aligned` says that a frame begins with the first captured byte."""
        self.unasked = Unasked(self.definitions, self.limit)
        self.opened = aligned

    def begin(self, start: int) -> None:
        super().begin(start)
        if not self.opened:
            self.look(start, chained=True, begin=True)

    def scan(self, out: list[Item]) -> None:
        """Read frames from `position` on, as long as the position of the next frame is known."""
        if self.foreign or self.search is not None:
            return
        stretch = self.stretch
        last = stretch.end
        if last < self.need or self.position >= last:
            return
        while self.position < last:
            if stretch.plain:
                whole_responses(self, out)
                if self.position >= last:
                    break
            if not self._step(out):
                break
        if self.unasked is not None:
            ids = (number for _, kind, _, number in reversed(out) if kind == RESPONSE and number is not None)
            self.unasked.last_id = next(ids, self.unasked.last_id)
        stretch.drop(self.position)

    def _step(self, out: list[Item]) -> bool:
        """Process one frame, whole or not.

        Returns False if more bytes are needed or the next frame's position is lost.
        """
        stretch = self.stretch
        position = self.position
        head = stretch.gather(position, 8)
        if len(head) < 4:
            if position + len(head) < stretch.end:
                self.lost(out, position + len(head))
            else:
                self.need = stretch.end + 1
            return False
        size = SIZE.unpack_from(head)[0]
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
        """Report an impossible length: either the broker does not speak Kafka, or the frame's position was lost."""
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
        """Process the end of the stream; incomplete frames are reported as cut."""
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
            if len(head) == 8 and 4 <= (size := SIZE.unpack_from(head)[0]) <= self.limit:
                _, lost = stretch.spans(self.position, stretch.end)
                broken = event.reason in CLOSED and not lost
                self._complete(head, self.position + 4 + size, out, BROKEN if broken else RESPONSE)
                return
        self.unread(out, event.at, event.time)

    def candidates(self, window: bytes) -> list[tuple[int, int]]:
        found = []
        for match in (self.unasked or self.awaited).starts(window):
            position = match.start()
            size = self.candidate(window, position)
            if size >= 0:
                found.append((position, size))
        return found

    def candidate(self, window: bytes, position: int) -> int:
        """Size in bytes of the response that may begin at `position` of `window`; -1 if none can."""
        if self.unasked is not None:
            return self.unasked.size(window, position)
        size, correlation_id = _RESPONSE.unpack_from(window, position)
        if not 4 <= size <= self.limit or correlation_id not in self.outstanding:
            return -1
        return int(size)

    def link(self, window: bytes, position: int) -> int:
        size: int = SIZE.unpack_from(window, position)[0]
        return size if 4 <= size <= self.limit else -1

    def refute(self, start: int, end: int) -> int | None:
        stretch = self.stretch
        head = stretch.gather(start, 8)
        if len(head) < 8:
            return 0
        if self.unasked is not None:
            data = stretch.gather(start, end - start)
            behind = stretch.gather(end, min(8, stretch.ends[stretch.segment(end - 1)] - end))
            return None if len(data) == end - start and self.unasked.proves(data, behind) else len(data)
        correlation_id = _RESPONSE.unpack(head)[1]
        exchange = self.outstanding.get(correlation_id)
        if exchange is None:
            return 0
        spent = 0
        for one in (exchange, *self.repeated.get(correlation_id, ())):
            decoded = self._refute(start, end, one)
            if decoded is None:
                return None
            spent += decoded
        return spent

    def _refute(self, start: int, end: int, exchange: Exchange) -> int | None:
        """None if [start, end) can be the response to `exchange`, else the number of bytes decoded to find out."""
        stretch = self.stretch
        if exchange.request is None or not _asked_before(exchange.request, stretch.key(end - 1)):
            return 0
        key, version = exchange.api_key, exchange.api_version
        if key is None or version is None:
            return 0
        if not self.known.exact(key, version):
            # without a definition the correlation id has to suffice
            return None
        data = stretch.gather(start, end - start)
        if len(data) < end - start:
            # cut by the snap length, so the body cannot be checked
            return None
        return unfit(decode_response(data, key, version, self.definitions), len(data))


def _asked_before(request: Frame, address: int) -> bool:
    """Whether the last captured piece of a request begins at a lower address than `address`, the key of a response's
    last byte; missing bytes of the request are ignored.

    The key, because in a capture out of order the response may come before the request and wait for it.
    """
    return (request.spans[-1][0] if request.spans else request.at) < address
