"""Fills the detail with one exchange: decodes a small one at once, a large one in a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kproxy.captures.index.format import NO_NUMBER, NO_RECORDS, UNSETTLED, State
from kproxy.captures.text import size_text
from kproxy.tui.detail.opened import Opened, Opener
from kproxy.tui.listing.rows import RowText
from kproxy.tui.widgets.detail import RECORDS, TIMING, Detail
from kproxy.tui.widgets.overview import Line, overview

if TYPE_CHECKING:
    from kproxy.captures.index.format import Row
    from kproxy.captures.index.reader import Detail as RowDetail
    from kproxy.captures.index.reader import IndexReader
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Side
    from kproxy.tui.detail.timing import Timing
    from kproxy.tui.terminal.cells import Cells

DECODE_AT_ONCE = 128 * 1024
"""Frames up to this size in bytes are decoded at once after a key; larger ones are decoded in a thread."""


class Presenter:
    """Shows exchanges of an index in the detail; `waiting` is the index row shown while it lacks its response."""

    def __init__(
        self, detail: Detail, index: IndexReader, text: RowText, opener: Opener, known: Definitions, cells: Cells
    ) -> None:
        self.waiting: int | None = None
        self._detail = detail
        self._index = index
        self._text = text
        self._opener = opener
        self._definitions = known
        self._cells = cells
        self._decoding = 0

    def show(self, row_number: int | None, place: str) -> None:
        """Fill the detail with an index row's exchange, or empty it for None; `place` is its position in the list."""
        index = self._index
        self._decoding += 1
        self.waiting = None
        if row_number is None:
            self._detail.show_overview([])
            self._detail.show_frame(None)
            self._detail.records.show(None)
            self._detail.show_timing(None)
            return
        row = index.row(row_number)
        detail = index.detail(row)
        if not self._settled(row):
            self.waiting = row_number
        self._detail.show_about(self._about(row_number, row), place)
        self._detail.show_record_count(None if row.records == NO_RECORDS else row.records)
        if self._detail.tab == RECORDS:
            size = max((frame.size for frame in (detail.request, detail.response) if frame is not None), default=0)
            self._detail.records.show(partial(self._opener.records, row, detail), size)
        if self._detail.tab == TIMING:
            self._show_timing(row_number, row, detail)
            return
        side = self._detail.side
        if side is None:
            self._show_overview(row_number, row, detail)
            return
        frame = detail.request if side == 0 else detail.response
        if frame is None:
            self._detail.show_frame(None, message=self._missing(row, is_request=side == 0))
        elif frame.size <= DECODE_AT_ONCE:
            self._show_opened(self._opener.open(row, detail, side), row)
        else:
            self._detail.show_frame(None, message=f"decoding {size_text(frame.size)} B{self._cells.glyph('…')}")
            self._aside(partial(self._decode_aside, row, detail, side, self._decoding))

    def _show_overview(self, row_number: int, row: Row, detail: RowDetail) -> None:
        lines = partial(overview, row_number + 1, row, detail, self._index, self._text, self._definitions)
        frames = [frame for frame in (detail.request, detail.response) if frame is not None]
        if max((frame.size for frame in frames), default=0) <= DECODE_AT_ONCE:
            self._detail.show_overview(lines(self._opener.remarks(row, detail)))
        else:
            self._detail.show_overview(lines())
            self._aside(partial(self._remark_aside, row, detail, lines, self._decoding))

    def _show_timing(self, row_number: int, row: Row, detail: RowDetail) -> None:
        from kproxy.tui.detail.timing import timing

        timed = partial(timing, row_number, row, detail, self._index, self._text)
        if detail.request is not None and detail.request.size > DECODE_AT_ONCE:
            self._detail.show_timing(timed(None))
            self._aside(partial(self._time_aside, row, detail, timed, self._decoding))
        else:
            self._detail.show_timing(timed(self._opener.max_wait(row, detail)))

    def _time_aside(self, row: Row, detail: RowDetail, timed: Callable[[int | None], Timing], ticket: int) -> None:
        """Read the max wait of a large Fetch in a thread, and show the timing again with it."""
        if (wait := self._opener.max_wait(row, detail)) is not None:
            self._detail.app.call_from_thread(self._if_wanted, ticket, lambda: self._detail.show_timing(timed(wait)))

    def _about(self, row_number: int, row: Row) -> str:
        """An exchange in one line: number, API, client and broker, label, result, latency."""
        text = self._text
        number = row_number + 1
        node = text.node(row)
        client = text.cell("client.id", number, row) or "client"
        latency = text.cell("latency", number, row).rstrip("wt")
        parts = [
            f"{number} {text.api(row)}",
            client + (f" > {node}" if node else ""),
            text.cell("label", number, row),
            text.cell("result", number, row),
            latency if latency.endswith("s") or latency == "-" else f"{latency} ms",
        ]
        return "  ".join(part for part in parts if part)

    @staticmethod
    def _settled(row: Row) -> bool:
        return row.state not in UNSETTLED

    def _aside(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread; it replaces earlier work that has not finished."""
        self._detail.run_worker(work, thread=True, exclusive=True, group="decode")

    def _decode_aside(self, row: Row, detail: RowDetail, side: Side, ticket: int) -> None:
        opened = self._opener.open(row, detail, side)
        self._detail.app.call_from_thread(self._if_wanted, ticket, partial(self._show_opened, opened, row))

    def _remark_aside(self, row: Row, detail: RowDetail, lines: partial[list[Line]], ticket: int) -> None:
        """Read the remarks in a thread, as they need both bodies, and show the overview again with them."""
        if remarks := self._opener.remarks(row, detail):
            overview = lines(remarks)
            self._detail.app.call_from_thread(self._if_wanted, ticket, partial(self._detail.show_overview, overview))

    def _if_wanted(self, ticket: int, show: Callable[[], None]) -> None:
        if ticket == self._decoding and self._detail.is_attached:
            show()

    def _show_opened(self, opened: Opened | None, row: Row) -> None:
        known = not row.protocol and NO_NUMBER not in {row.api_key, row.api_version}
        api = (row.api_key, row.api_version) if known else None
        self._detail.show_frame(opened, api=api)

    def _missing(self, row: Row, *, is_request: bool) -> str:
        if is_request:
            return "no request was seen for this response"
        return {
            State.WAITING: "waiting for the response",
            State.NO_REPLY_EXPECTED: "no response is due",
        }.get(State(row.state), "no response was seen")

    def close(self) -> None:
        self._opener.close()
