"""Searches from the cursor on: the lines of a pane, the bytes of a hex view, or a list of exchanges."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from kproxy.captures.index.format import Flag
from kproxy.decoders.schema import api_keys

if TYPE_CHECKING:
    from kproxy.captures.index.format import Row
    from kproxy.captures.index.reader import IndexReader
    from kproxy.decoders.exchange import Frame
    from kproxy.tui.listing.arrangement import Rows
    from kproxy.tui.listing.rows import RowText
    from kproxy.tui.search.patterns import Sought
    from kproxy.tui.widgets.hex_view import HexView
    from kproxy.tui.widgets.lines import Lines

SLICE_SECONDS: Final = 0.02
"""Seconds for which a list is searched before key presses are handled."""
LINE_CELLS: Final = 1_000
"""Only this many cells of a line are searched, from its beginning."""
SEARCHED: Final = ("client.id", "api", "label", "result")
"""Columns of the list that are searched."""
WITHHELD: Final = frozenset({api_keys.SASL_HANDSHAKE, api_keys.SASL_AUTHENTICATE})
"""APIs whose bytes are not searched, as they may hold credentials."""


def _around(count: int, start: int, by: int) -> Iterator[int]:
    """The lines after (1) or before (-1) a line, wrapping around at the end; the line itself comes last."""
    return ((start + by * step) % count for step in range(1, count + 1))


def in_lines(pane: Lines, sought: Sought, by: int) -> int | None:
    """The next (1) or previous (-1) line of a pane that matches; None if there is none."""
    for index in _around(pane.count, pane.cursor, by):
        if sought.in_text("".join(segment.text for segment in pane.segments(index, LINE_CELLS))):
            return index
    return None


def in_bytes(pane: HexView, sought: Sought, by: int) -> int | None:
    """Offset of the next (1) or previous (-1) match in a hex view, None without one. Skips withheld bytes."""
    found = sought.places(pane.readable())
    after = [at for at in found if (at > pane.byte if by > 0 else at < pane.byte)] or found
    return None if not after else after[0 if by > 0 else -1]


class ListSearch:
    """Searches the lines of a list slice by slice; `found` is the matching line, `over` is set when it has ended."""

    def __init__(
        self,
        rows: Rows,
        index: IndexReader,
        text: RowText,
        bytes_of: Callable[[Frame], tuple[bytes, str]],
        sought: Sought,
        start: int,
        by: int,
    ) -> None:
        self.sought = sought
        self.found: int | None = None
        self.over = not rows.count
        self.looked_at = 0
        self._rows = rows
        self._index = index
        self._text = text
        self._bytes_of = bytes_of
        self._lines = _around(rows.count, start, by) if rows.count else iter(())

    def go_on(self, seconds: float = SLICE_SECONDS) -> None:
        """Search lines for about `seconds`."""
        end = time.monotonic() + seconds
        for line in self._lines:
            self.looked_at += 1
            if line < self._rows.count and self._holds(self._rows.row_number(line)):
                self.found, self.over = line, True
                return
            if time.monotonic() > end:
                return
        self.over = True

    def _holds(self, number: int) -> bool:
        row = self._index.row(number)
        if self.sought.bytes_only:
            return self._in_frames(row)
        return any(self.sought.in_text(self._text.cell(name, number + 1, row)) for name in SEARCHED)

    def _in_frames(self, row: Row) -> bool:
        if row.flags & Flag.TOKEN or row.api_key in WITHHELD:
            return False
        detail = self._index.detail(row)
        frames = (frame for frame in (detail.request, detail.response) if frame is not None)
        return any(self.sought.in_bytes(self._bytes_of(frame)[0]) for frame in frames)
