"""The table of records, one on each line: those of one exchange, below names of topics, or of many exchanges."""

from __future__ import annotations

import json
import time
from collections.abc import Hashable
from typing import Any

from rich.segment import Segment
from textual import events
from textual.message import Message

from kproxy.captures.text import size_text
from kproxy.tui.actions import registry as actions
from kproxy.tui.detail.records import LinesRead, RecordLine, TextLine
from kproxy.tui.detail.viewing import HEX, WITHHELD, Choices, Seen
from kproxy.tui.listing.times import zone
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines

LOOKED_AT = 4096
"""Maximum size in bytes of a key or value that a viewer shows in a cell; of a larger one the cell has the beginning.

Records of internal topics are shown by a viewer at any size.
"""
FEWEST_KEY, MOST_KEY = 8, 32
MARK = {"below_fetch_offset": "below", "aborted": "abort"}


class RecordTable(Lines):
    """The records read so far; `line` is the one under the cursor."""

    CONTEXT = "records"
    BINDINGS = actions.bindings("records")
    HEADING = 2

    class Selected(Message):
        """The cursor is on another line."""

    class MoreWanted(Message):
        """Asks to read further records."""

    class RecordWanted(Message):
        """Asks to focus the record."""

    class ExchangeWanted(Message):
        """Asks to show the exchange of the record."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    class ViewChanged(Message):
        """Another viewer was chosen."""

    def __init__(self, cells: Cells, choices: Choices, **options: Any) -> None:
        super().__init__(cells, **options)
        self._choices = choices
        self._lines: LinesRead | None = None
        self.message = ""
        """Shown if there are no records."""

    @property
    def count(self) -> int:
        if self._lines is None:
            return 0
        return len(self._lines.lines) + (not self._lines.complete)

    @property
    def line(self) -> RecordLine | TextLine | None:
        """The line under the cursor; None on the last line, which stands for records not read yet."""
        lines = self._lines.lines if self._lines else []
        return lines[self.cursor] if self.cursor < len(lines) else None

    def show(self, lines: LinesRead | None, message: str = "") -> None:
        """Show the records of another exchange; the cursor goes to the first."""
        self._lines = lines
        self.message = message
        found = lines.lines if lines else []
        self.top = 0
        self.cursor = next((index for index, line in enumerate(found) if isinstance(line, RecordLine)), 0)
        self.content_changed()

    def extended(self) -> None:
        """Repaint after further lines were read."""
        self.content_changed()
        self.moved()

    # painting

    def _columns(self, width: int) -> list[tuple[str, int, bool]]:
        """Title, width and right alignment of each column; the value's column takes the remaining width."""
        lines = self._lines
        marked = lines is not None and bool(lines.counts)
        if lines is not None and lines.origins:
            return _columns_of_many(width, marked=marked)
        fixed = [("Skip", 5, False)] if marked else []
        fixed += [("Part", 5, True), ("Offset", 10, True)]
        fixed += [("Assigned", 10, True)] if lines is not None and lines.has_assigned else []
        fixed += [("Time", 12, False)] if width >= 80 else []
        ends = [("Hdr", 3, True), ("Size", 5, True)]
        left = width - sum(size + 1 for _, size, _ in (*fixed, *ends))
        key = max(FEWEST_KEY, min(MOST_KEY, left // 3))
        return [*fixed, ("Key", key, False), ("Value", max(0, left - key - 1), False), *ends]

    def heading(self, line: int, width: int) -> list[Segment]:
        if line == 0:
            text = self._lines.summary() if self._lines and self._lines.lines else ""
            return [Segment(self.cells.fit(f" {text}", width), look.BOLD)]
        columns = self._columns(width)
        titles = " ".join(self.cells.fit(self._title(name), size, right=right) for name, size, right in columns)
        return [Segment(self.cells.fit(titles, width), look.HEADING)]

    def _title(self, name: str) -> str:
        """The title of a column; the time column adds the time zone of the first timestamp on screen or below."""
        if name != "Time" or self._lines is None:
            return name
        stamps = (line.record[1] for line in self._lines.lines[self.top :] if isinstance(line, RecordLine))
        stamp = next((stamp for stamp in stamps if stamp is not None and stamp >= 0), None)
        return name if stamp is None else f"{name} {zone(stamp // 1000)}"

    def line_key(self, index: int) -> Hashable | None:
        return index

    def beyond(self, line: int, width: int) -> list[Segment]:
        text = self.message if line == 0 and not self.count else ""
        return [Segment(self.cells.fit(f" {text}", width), look.DIM)] if text else []

    def segments(self, index: int, width: int) -> list[Segment]:
        lines = self._lines
        if lines is None:
            return []
        if index >= len(lines.lines):
            return [Segment(self.cells.fit("  … more (enter)", width), look.DIM)]
        line = lines.lines[index]
        if isinstance(line, TextLine):
            style = look.BOLD if line.topic else look.SEVERITY.get(line.severity, look.DIM)
            mark = f"{self.cells.glyph('✖')} " if line.severity else ""
            return [Segment(self.cells.fit(f"{' ' if line.topic else '  '}{mark}{line.text}", width), style)]
        style = look.DIM if line.skipped or line.kind else look.PLAIN
        cells = [self._cell(title, line) for title, _, _ in self._columns(width)]
        text = " ".join(
            self.cells.fit(cell, size, right=right)
            for cell, (_, size, right) in zip(cells, self._columns(width), strict=True)
        )
        return [Segment(text, style)]

    def _cell(self, title: str, line: RecordLine) -> str:
        offset, timestamp, _, _, headers = line.record
        origin = line.origin
        match title:
            case "No." if origin is not None:
                return str(origin.number)
            case "Client" if origin is not None:
                return origin.client
            case "" if origin is not None:
                return ">" if origin.sent else "<"
            case "Topic":
                return f"{line.place.topic or 'topic without a name'}-{line.place.partition}"
            case "Offset" if origin is not None and line.assigned is not None:
                return str(line.assigned)
            case "Skip":
                return MARK.get(line.skipped or "", "")
            case "Part":
                return str(line.place.partition)
            case "Offset":
                return str(offset)
            case "Assigned":
                return "" if line.assigned is None else str(line.assigned)
            case "Time":
                return clock(timestamp)
            case "Key":
                if line.kind is not None:
                    return f"{line.kind} (control)"
                return self._payload(line, "key")
            case "Value":
                return self._payload(line, "value")
            case "Hdr":
                return str(len(headers)) if headers else ""
            case _:
                return size_text(line.size)

    def _payload(self, line: RecordLine, part: str) -> str:
        _, _, key, value, _ = line.record
        data = key if part == "key" else value
        if data is None:
            return null_text(part, self.cells)
        if not data:
            return '""'
        from kproxy.decoders.records import internal

        topic = line.place.topic
        if len(data) > LOOKED_AT and topic not in internal.TOPICS:
            return first_text(data)
        return one_line(self._choices.look(topic, part, line.record), data)

    def resized(self) -> None:
        super().resized()
        if self.cursor < self.rows:
            # shows the topic's name above the first record
            self.set_top(0)

    # moving

    @property
    def of_many(self) -> bool:
        """Whether the records are of several exchanges."""
        return self._lines is not None and self._lines.origins

    def moved(self) -> None:
        self.post_message(self.Selected())

    def action_exchange(self) -> None:
        line = self.line
        if line is not None and line.origin is not None:
            self.post_message(self.ExchangeWanted(line.origin.number))

    def to_exchange(self, by: int) -> None:
        """Go to the first record of the next (1) or previous (-1) exchange."""
        lines = self._lines.lines if self._lines is not None else []
        numbers = [line.origin.number if line.origin is not None else None for line in lines]
        index = min(self.cursor, len(lines) - 1)
        if index < 0:
            return
        here = numbers[index]
        while 0 <= index < len(lines) and numbers[index] == here:
            index += by
        if by < 0 and index >= 0:
            here = numbers[index]
            while index > 0 and numbers[index - 1] == here:
                index -= 1
        self.move_to(max(0, index))

    def action_enter(self) -> None:
        if self._lines is not None and self.cursor >= len(self._lines.lines):
            self.post_message(self.MoreWanted())
        elif isinstance(self.line, RecordLine):
            self.post_message(self.RecordWanted())

    def action_view_as(self, part: str) -> None:
        line = self.line
        if isinstance(line, RecordLine):
            self._choices.next(line.place.topic, part)
            self.post_message(self.ViewChanged())

    def clicked(self, event: events.Click) -> None:
        if event.chain == 2:
            self.action_enter()


def _columns_of_many(width: int, *, marked: bool) -> list[tuple[str, int, bool]]:
    """Title, width and right alignment of each column; "Offset" is the one that the broker assigned, if known."""
    fixed = [("No.", 7, True), ("", 1, False)]
    fixed += [("Skip", 5, False)] if marked else []
    fixed += [("Time", 12, False)] if width >= 90 else []
    ends = [("Hdr", 3, True)] if width >= 100 else []
    ends += [("Size", 5, True)]
    ends += [("Client", max(12, width // 10), False)] if width >= 120 else []
    left = width - sum(size + 1 for _, size, _ in (*fixed, ("Offset", 8, True), *ends))
    topic = max(14, min(32, left // 4))
    key = max(FEWEST_KEY, min(MOST_KEY, (left - topic) // 3))
    value = max(0, left - topic - key - 2)
    return [*fixed, ("Topic", topic, False), ("Offset", 8, True), ("Key", key, False), ("Value", value, False), *ends]


def null_text(part: str, cells: Cells) -> str:
    """The text for a key or value that is null."""
    nothing = "null" if cells.ascii_only else "∅"
    return f"{nothing} tombstone" if part == "value" else nothing


def one_line(seen: Seen, data: bytes) -> str:
    """The text for a payload in a table's cell; control characters are escaped when the cell is painted."""
    if seen.viewer == WITHHELD:
        return f"(withheld, {size_text(len(data))} B)"
    if seen.viewer == HEX or seen.value is None:
        return first_text(data)
    return seen.value if isinstance(seen.value, str) else json.dumps(seen.value, ensure_ascii=False)


def first_text(data: bytes) -> str:
    """The beginning of bytes, as text if it is printable UTF-8, else in hex."""
    head = data[:256]
    for end in range(len(head), max(0, len(head) - 4), -1):
        try:
            text = head[:end].decode()
        except UnicodeDecodeError:
            continue
        if text.isprintable():
            return text
    return data[:64].hex(" ")


def clock(milliseconds: int | None) -> str:
    """A record's timestamp as local time, 12 characters; "" without one."""
    if milliseconds is None or milliseconds < 0:
        return ""
    try:
        return time.strftime("%H:%M:%S", time.localtime(milliseconds // 1000)) + f".{milliseconds % 1000:03d}"
    except (OverflowError, ValueError, OSError):
        return "??:??:??"
