"""One record: key, value and headers as viewers show them, and the header of its batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Final

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style

from kproxy.captures.text import size_text
from kproxy.decoders.batches.record import Record, RecordsError
from kproxy.decoders.primitives import text_as_java
from kproxy.tui.actions import registry as actions
from kproxy.tui.detail.records import SKIPPED, RecordLine, TextLine
from kproxy.tui.detail.viewing import HEX, WITHHELD, Choices, PlainViewers
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines
from kproxy.tui.widgets.records import null_text

HEAD: Final = 256 * 1024
"""How many bytes of a key or value are shown at first."""
MOST_HEADERS: Final = 1_000
NAME_CELLS: Final = 11
HEX_CELLS: Final = 76
"""Width in cells of a line with offset, 16 bytes and their text; a narrower pane shows 8 bytes a line."""

Shown = tuple[str, str, Style, str]
"""Name, text, style, and the part ("key", "value", "") that the line belongs to."""


class RecordPane(Lines):
    """The record under the cursor of the table."""

    CONTEXT = "record"
    BINDINGS = actions.bindings("record")

    def __init__(self, cells: Cells, choices: Choices, **options: Any) -> None:
        super().__init__(cells, **options)
        self._choices = choices
        self._record: RecordLine | TextLine | None = None
        self._shown_bytes = HEAD
        self._laid_out: tuple[int, list[Shown]] | None = None

    @property
    def _lines(self) -> list[Shown]:
        width = self.size.width
        if self._laid_out is None or self._laid_out[0] != width:
            self._laid_out = (width, list(self._wrapped(max(20, width - NAME_CELLS - 2))))
        return self._laid_out[1]

    @property
    def count(self) -> int:
        return len(self._lines)

    def show(self, line: RecordLine | TextLine | None) -> None:
        self._record = line
        self._shown_bytes = HEAD
        self.cursor = self.top = 0
        self.changed()

    def changed(self) -> None:
        """Show the record again after a change of the viewer or of the number of bytes."""
        self._laid_out = None
        self.content_changed()

    def segments(self, index: int, width: int) -> list[Segment]:
        name, text, style, _ = self._lines[index]
        return [
            Segment(self.cells.fit(f" {name}", NAME_CELLS), look.NAME),
            Segment(self.cells.fit(text, width - NAME_CELLS), style),
        ]

    def _wrapped(self, room: int) -> Iterator[Shown]:
        """The lines, escaped and wrapped to `room` cells."""
        for name, raw, style, part in self._content():
            text = self.cells.escape(raw)
            if len(text) <= room and cell_len(text) <= room:
                pieces = [text]
            elif part and style is look.PLAIN:
                # cut instead of wrapped, so that every character of a key or value shows
                pieces = chop_cells(text, room)
            else:
                pieces = [cut for line in wrap(text, room) for cut in chop_cells(line, room)]
            for number, piece in enumerate(pieces or [""]):
                yield name if number == 0 else "", piece, style, part

    def _content(self) -> Iterator[Shown]:
        line = self._record
        if line is None:
            return
        if isinstance(line, TextLine):
            yield "", line.text, look.SEVERITY.get(line.severity, look.PLAIN), ""
            return
        offset, timestamp, key, value, headers = line.record
        from kproxy.decoders.records.field_nodes import moment

        topic = line.place.topic or "topic without a name"
        assigned = "" if line.assigned is None else f" → {line.assigned}"
        yield "record", f"{topic}-{line.place.partition}  offset {offset}{assigned}", look.BOLD, ""
        if line.skipped is not None:
            words = f"the client drops it: {SKIPPED[line.skipped]}"
            yield "skipped", words, look.SEVERITY["W"], ""
        if timestamp is not None:
            yield "time", f"{moment(timestamp) or 'none'}  ({timestamp}, {line.batch.header['timestampType']})", *_PLAIN
        if line.kind is not None:
            yield from self._control(line)
        yield from self._payload("key", key)
        yield from self._payload("value", value)
        for number, (name, content) in enumerate(headers[:MOST_HEADERS]):
            text = "null" if content is None else self._header(content, line.place.topic)
            yield "headers" if number == 0 else "", f"{text_as_java(name)} = {text}", *_PLAIN
        if len(headers) > MOST_HEADERS:
            yield "", f"… {len(headers) - MOST_HEADERS:,} more headers", look.DIM, ""
        yield from _batch(line)

    def _header(self, content: bytes, topic: str | None) -> str:
        if not content:
            return '""'
        if self._choices.withholds(topic):
            return WITHHELD
        seen = PlainViewers().look(None, "header", content[:HEAD], (), None)
        return seen.value if isinstance(seen.value, str) else content[:HEAD].hex(" ")

    @staticmethod
    def _control(line: RecordLine) -> Iterator[Shown]:
        from kproxy.decoders.jsonform import body_json
        from kproxy.decoders.records import control

        _, _, key, value, _ = line.record
        number = control.type_of(key)
        yield "control", line.kind or "", look.BOLD, ""
        if number is None or value is None:
            return
        try:
            inside = control.value_json(number, value, body_json)
        except RecordsError as error:
            yield "", error.message, look.SEVERITY["E"], ""
            return
        if inside is not None:
            yield "", json.dumps(inside[0], ensure_ascii=False), *_PLAIN

    def _payload(self, part: str, data: bytes | None) -> Iterator[Shown]:
        """Lines of a key or value: its viewer and why it was chosen, then the content, as bytes if the viewer fails."""
        line = self._record
        if not isinstance(line, RecordLine):
            return
        if data is None:
            yield part, null_text(part, self.cells), look.DIM, part
            return
        if not data:
            yield part, '""', look.PLAIN, part
            return
        from kproxy.decoders.records import internal

        head = data[: self._shown_bytes]
        cut = len(head) < len(data) and line.place.topic not in internal.TOPICS
        record = line.record if not cut else _with_head(line.record, part, _whole_characters(head))
        seen = self._choices.look(line.place.topic, part, record)
        about = f"{size_text(len(data))} B  {seen.viewer} ({seen.reason})"
        yield part, about, look.DIM, part
        if seen.error is not None:
            ends = "  -> showing bytes" if seen.value is None else ""
            yield "", f"{seen.error}{ends}", look.SEVERITY["E"], part
        if seen.viewer == HEX or seen.value is None:
            room = self.size.width - NAME_CELLS
            per_row = 16 if room > HEX_CELLS else 8 if room >= 40 else 4
            for at in range(0, len(head), per_row):
                yield "", _hex_row(head[at : at + per_row], at, per_row), look.PLAIN, part
        else:
            text = seen.value if isinstance(seen.value, str) else json.dumps(seen.value, indent=2, ensure_ascii=False)
            for piece in text.split("\n"):
                yield "", piece, look.PLAIN, part
        if cut:
            yield "", f"… {size_text(len(data) - len(head))} B more (enter)", look.DIM, part

    # actions

    @property
    def part(self) -> str:
        """The part under the cursor: "key" or "value"; "value" also for headers and other lines."""
        part = self._lines[self.cursor][3] if self.cursor < self.count else ""
        return part or "value"

    def action_enter(self) -> None:
        """Show more of a key or value that is cut."""
        line = self._record
        if isinstance(line, RecordLine) and max(len(part or b"") for part in line.record[2:4]) > self._shown_bytes:
            self._shown_bytes *= 4
            self.changed()

    def action_view_as(self) -> None:
        line = self._record
        if isinstance(line, RecordLine):
            part = self.part
            self._choices.next(line.place.topic, part)
            self.changed()
            self.move_to(next((at for at, one in enumerate(self._lines) if one[3] == part), self.cursor))


_PLAIN: Final = (look.PLAIN, "")


def _batch(line: RecordLine) -> Iterator[Shown]:
    """Lines about the header of a record's batch."""
    header = line.batch.header
    where = f"record {line.number + 1}" + (f" of {header['recordCount']:,}" if "recordCount" in header else "")
    sizes = f"{size_text(header['sizeInBytes'])} B"
    if header["compression"] != "none":
        unpacked = "not decompressed" if line.uncompressed is None else f"{size_text(line.uncompressed)} B"
        sizes = f"{header['compression']} {sizes} -> {unpacked}"
    yield "batch", f"{where}  magic {header['magic']}  {sizes}", *_PLAIN
    valid = header["crcValid"]
    words = f"0x{header['crc']:08x} " + ("ok" if valid else "does not match")
    yield "crc", words, look.PLAIN if valid else look.SEVERITY["E"], ""
    if header["magic"] < 2:
        return
    if header["producerId"] >= 0:
        ids = f"id {header['producerId']}  epoch {header['producerEpoch']}  base sequence {header['baseSequence']}"
        yield "producer", ids, *_PLAIN
    from kproxy.decoders.records.field_nodes import moment

    flags = [words for name, words in _FLAGS.items() if header[name]]
    flags.append(f"leader epoch {header['partitionLeaderEpoch']}")
    flags += [f"delete horizon {moment(header['deleteHorizon'])}"] if "deleteHorizon" in header else []
    yield "", "  ".join(flags), *_PLAIN


_FLAGS: Final = {"isTransactional": "transactional", "isControl": "control"}


def _with_head(record: Record, part: str, head: bytes) -> Record:
    """The record with its key or value replaced by `head`."""
    offset, timestamp, key, value, headers = record
    return (offset, timestamp, head if part == "key" else key, head if part == "value" else value, headers)


def _whole_characters(data: bytes) -> bytes:
    """The bytes without an incomplete UTF-8 character at the end."""
    for end in range(len(data), max(0, len(data) - 4), -1):
        if data[end - 1] & 0xC0 != 0x80:
            lead = data[end - 1]
            size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return data if end - 1 + size <= len(data) else data[: end - 1]
    return data


def _hex_row(row: bytes, at: int, per_row: int) -> str:
    text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
    return f"{at:04x} {row.hex(' '):<{per_row * 3 - 1}}  {text}"
