"""Finds the frames in one direction of a connection that speaks a dialect; the conversation decides on their roles."""

from __future__ import annotations

import re

from kproxy.decoders.conversation.framer import SIZE, Framer
from kproxy.decoders.conversation.items import FRAME, Item
from kproxy.decoders.conversation.recognition import known
from kproxy.decoders.dialects.decoding import decode, fits
from kproxy.decoders.exchange import Connection, Health
from kproxy.decoders.problems import Problem
from kproxy.decoders.schema.dialect import Dialect
from kproxy.decoders.schema.layout import layout
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import End, Gap, Run, Side, Source

SEARCHED = 1 << 20
"""Longest frame in bytes that is accepted in a search for the next frame."""
LIKELY_ERRORS = range(-1, 200)
"""Error codes that a response may have if it is to prove that a frame begins."""

_SIZES = re.compile(rb"(?=\x00[\x00-\x0f]..)", re.DOTALL)


class DialectFramer(Framer):
    """Finds the frames of one direction, as Items (key, FRAME, (frame, problems), None); also problems and the end."""

    where = ""

    def __init__(
        self,
        side: Side,
        connection: Connection,
        source: Source,
        definitions: Definitions,
        dialect: Dialect,
        limit: int,
        health: Health,
        *,
        opened: bool,
    ) -> None:
        self.side = side
        super().__init__(connection, source, definitions, known(definitions), limit, health)
        self.dialect = dialect
        self.opened = opened
        self.fewest = min(
            layout(header.message, dialect.versions.low).minimum
            for header in (dialect.request_header, dialect.response_header)
        )
        self.head = 4 + self.fewest

    def begin(self, start: int) -> None:
        super().begin(start)
        if not self.opened:
            self.look(start, chained=True, begin=True)

    def feed(self, event: Run | Gap | End, out: list[Item]) -> None:
        if self.over:
            return
        if isinstance(event, End):
            self._finish(event, out)
            return
        self.take(event, out)
        while True:
            if self.search is not None:
                if self.probe() is None:
                    return
                self.seek(out)
            elif not self._step(out) and self.search is None:
                return

    def _step(self, out: list[Item]) -> bool:
        """Process one frame; returns False if more bytes are needed or the position of the next frame is lost."""
        stretch, position = self.stretch, self.position
        if position >= stretch.end or stretch.end < self.need:
            stretch.drop(position)
            return False
        head = stretch.gather(position, 4)
        if len(head) < 4:
            if position + len(head) < stretch.end:
                self.lost(out, position + len(head))
            else:
                self.need = stretch.end + 1
            return False
        (size,) = SIZE.unpack(head)
        if not 0 <= size <= self.limit:
            self.absurd(out, size, position + 3)
            return False
        end = position + 4 + size
        if end > stretch.end:
            self.need = end
            return False
        self._frame(end, out)
        return True

    def _frame(self, end: int, out: list[Item]) -> None:
        problems: list[Problem] = []
        frame = self.frame(self.position, end, problems)
        self.floor = frame.at
        out.append((self.floor, FRAME, (frame, problems), None))
        self.position = end
        self.need = 0

    def _finish(self, event: End, out: list[Item]) -> None:
        """Process the end of the stream; an incomplete frame is reported as cut."""
        self.over = True
        if not self.begun:
            return
        self.floor = max(self.floor, event.at)
        stretch = self.stretch
        if self.search is None and stretch.end - self.position >= self.head:
            head = stretch.gather(self.position, 4)
            if len(head) == 4 and 0 <= (size := SIZE.unpack(head)[0]) <= self.limit:
                self._frame(self.position + 4 + size, out)
                return
        self.unread(out, self.floor, event.time)

    def candidates(self, window: bytes) -> list[tuple[int, int]]:
        found = []
        for match in _SIZES.finditer(window):
            size = self.link(window, match.start())
            if size >= 0 and match.start() + self.head <= len(window):
                found.append((match.start(), size))
        return found

    def link(self, window: bytes, position: int) -> int:
        (size,) = SIZE.unpack_from(window, position)
        return int(size) if self.fewest <= size <= SEARCHED else -1

    def refute(self, start: int, end: int) -> int | None:
        data = self.stretch.gather(start, end - start)
        if len(data) < end - start:
            return 0
        dialect = self.dialect
        if fits(decode(data, "request", dialect)):
            return None
        for one in dialect.requests.values():
            if one.response is None:
                continue
            decoded = decode(data, "response", dialect, one.type)
            if fits(decoded) and (dialect.response_header.get("error", decoded.header) or 0) in LIKELY_ERRORS:
                return None
        return len(data)
