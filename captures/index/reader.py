"""Reads an index while it grows: maps its files and unpacks single rows, so its memory stays small."""

from __future__ import annotations

import contextlib
import json
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from kproxy.captures import private
from kproxy.captures.index import format as layout
from kproxy.captures.index.format import ConnectionEntry, Row
from kproxy.decoders.exchange import Frame
from kproxy.decoders.knowledge import Fact, Knowledge
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.stream import Side

if TYPE_CHECKING:
    from kproxy.decoders.sasl.session import Session

STRINGS_CACHED = 16_384
UNKNOWN_PROTOCOL = "?"
"""Stands for a dialect whose name is not in meta.json yet."""


class IndexUnreadableError(Exception):
    """The directory holds no index, or one of another format version."""


@dataclass(slots=True)
class Detail:
    """The details of an exchange, which its row does not hold: its frames with their spans, problems and others."""

    request: Frame | None = None
    response: Frame | None = None
    problems: list[Problem] = field(default_factory=list)
    reason: str | None = None
    throttle_ms: int = 0
    errors: list[int] = field(default_factory=list)
    """All error codes of the response if it has several. Otherwise empty: the row has the only one."""
    asked_by: Side = Side.CLIENT
    truths: str = ""
    """The value of `Exchange.truths`."""
    session: Session | None = None
    """The value of `Exchange.session`."""


class _Mapped:
    """A file of an index mapped for reading; `grow` maps it again when it has grown."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._map: mmap.mmap | None = None
        self.size = 0

    def grow(self) -> bool:
        """Map the present content of the file; returns whether it has grown."""
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return False
        size = self._file.seek(0, 2)
        if size in {self.size, 0}:
            return False
        if self._map is not None:
            self._map.close()
        self._map = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
        self.size = size
        return True

    @property
    def data(self) -> mmap.mmap:
        if self._map is None:
            raise IndexUnreadableError(f"{self._path}: missing")
        return self._map

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        if self._file is not None:
            self._file.close()
        self._map = self._file = None
        self.size = 0


class IndexReader:
    """An index directory as rows, strings, connections and details.

    `count` is the number of rows, `knowledge` the facts learnt up to the last row; `refresh` updates both. Row numbers
    count from 0 here: row i is exchange i + 1. The rows before `first` were dropped and are empty. Raises
    IndexUnreadableError if the directory holds no index of this format version.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0
        self.first = 0
        self.changes = 0
        self.meta: dict[str, Any] = {}
        self._meta_stamp: tuple[int, int] | None = None
        self._rows = _Mapped(directory / layout.ROWS)
        self._strings = _Mapped(directory / layout.STRINGS)
        self._connections = _Mapped(directory / layout.CONNECTIONS)
        self._details = _Mapped(directory / layout.DETAILS)
        self._cache: dict[int, str] = {0: ""}
        self._entries: dict[int, ConnectionEntry] = {}
        self.knowledge = Knowledge()
        self._known = 0
        self.refresh()
        if not self.meta:
            self.close()
            raise IndexUnreadableError(f"{directory}: no index here")

    @property
    def generation(self) -> str | None:
        """An id of the index's writer; if it changes, another writer has begun the index again with other rows."""
        generation = self.meta.get("generation")
        return None if generation is None else str(generation)

    def refresh(self) -> bool:
        """Read what was written since the last call; whether rows were added or changed, or the state changed."""
        generation = self.generation
        meta_changed = self._read_meta()
        if meta_changed:
            self._check_format()
        if generation is not None and self.generation != generation:
            self._forget()
        self._rows.grow()
        if not self._rows.size:
            return meta_changed
        count = (self._rows.size - layout.ROW_SIZE) // layout.ROW_SIZE
        magic, version, size, _, changes, first = layout.ROWS_HEADER.unpack_from(self._rows.data, 0)
        if magic != layout.ROWS_MAGIC or version != layout.VERSION or size != layout.ROW_SIZE:
            raise IndexUnreadableError(f"{self.directory}: not an index of format {layout.VERSION}")
        first = min(first, count)
        if (count, changes, first) == (self.count, self.changes, self.first):
            return meta_changed
        # mapped after the rows: the writer flushes what rows refer to before the rows
        self._strings.grow()
        self._connections.grow()
        self._details.grow()
        self._learn()
        if changes != self.changes:
            self._entries.clear()
        self.count, self.changes, self.first = count, changes, first
        return True

    def _check_format(self) -> None:
        if self.meta.get("format") != layout.VERSION:
            raise IndexUnreadableError(
                f"{self.directory}: index format {self.meta.get('format')}, this version reads {layout.VERSION}"
            )
        if self.meta.get("stored") != layout.STORED_NAMES:
            raise IndexUnreadableError(f"{self.directory}: this index stores other attributes than this version reads")

    def stop_writer(self) -> None:
        """Tell the writer to stop reading. Raises OSError."""
        private.touch(self.directory / layout.STOP)

    def row(self, index: int) -> Row:
        """The columns of the row at `index` (from 0). Raises IndexError beyond the last row."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        return Row._make(layout.ROW.unpack_from(self._rows.data, (index + 1) * layout.ROW_SIZE))

    def rows(self, start: int, stop: int) -> Iterator[Row]:
        """The rows [start, stop), in order."""
        return map(Row._make, layout.ROW.iter_unpack(self.raw(start, stop)))

    def stored(self, index: int, name: str) -> int:
        """The value of the stored attribute `name` in the row at `index` (from 0), or NOT_THERE or NOT_KNOWN."""
        code, offset, _ = layout.COLUMNS[name]
        (value,) = struct.unpack_from(f"<{code}", self._rows.data, (index + 1) * layout.ROW_SIZE + offset)
        return int(value)

    def raw(self, start: int, stop: int) -> bytes:
        """A copy of the bytes of the rows [start, stop)."""
        stop = min(stop, self.count)
        if start >= stop:
            return b""
        return self._rows.data[(start + 1) * layout.ROW_SIZE : (stop + 1) * layout.ROW_SIZE]

    def string(self, identifier: int) -> str:
        """The string with this id; "" if the id is unknown."""
        text = self._cache.get(identifier)
        if text is not None:
            return text
        at = identifier * 4
        if at + layout.STRING_LENGTH.size > self._strings.size:
            return ""
        (length,) = layout.STRING_LENGTH.unpack_from(self._strings.data, at)
        start = at + layout.STRING_LENGTH.size
        text = self._strings.data[start : start + min(length, layout.STRING_LIMIT)].decode("utf-8", "replace")
        if len(self._cache) >= STRINGS_CACHED:
            self._cache = {0: ""}
        self._cache[identifier] = text
        return text

    def protocol(self, row: Row) -> str | None:
        """The name of the dialect of a row's exchange, None for Kafka."""
        if not row.protocol:
            return None
        names = self.meta.get("protocols", ())
        return str(names[row.protocol - 1]) if row.protocol <= len(names) else UNKNOWN_PROTOCOL

    def connection(self, number: int) -> ConnectionEntry:
        """The entry of the connection with this number (from 1); an empty entry if the number is unknown."""
        entry = self._entries.get(number)
        if entry is not None:
            return entry
        at = layout.CONNECTIONS_HEADER.size + (number - 1) * layout.CONNECTION_SIZE
        if number < 1 or at + layout.CONNECTION_SIZE > self._connections.size:
            return ConnectionEntry(0, 0, 0, layout.NO_NODE, 0)
        entry = ConnectionEntry._make(layout.CONNECTION.unpack_from(self._connections.data, at))
        if len(self._entries) >= STRINGS_CACHED:
            self._entries.clear()
        self._entries[number] = entry
        return entry

    def detail(self, row: Row) -> Detail:
        """The details that a row refers to: spans, problems, comments."""
        detail = Detail()
        position = (row.details | row.details_high << 32) * 8
        if not position or position + layout.DETAIL.size > self._details.size:
            return detail
        data = self._details.data
        length, sides, _, _, text_length, _ = layout.DETAIL.unpack_from(data, position)
        position += layout.DETAIL.size
        end = min(position + length, self._details.size)
        for side in (Side.CLIENT, Side.BROKER):
            if sides & (1 << side):
                frame, position = self._frame(side, position, end)
                if side is Side.CLIENT:
                    detail.request = frame
                else:
                    detail.response = frame
        if text_length:
            self._extra(detail, data[position : min(position + text_length, end)])
        return detail

    def problems(self) -> Iterator[dict[str, Any]]:
        """All kproxy.problem/1 objects that the index holds, from the first on; an incomplete last line is left out."""
        with contextlib.suppress(FileNotFoundError), (self.directory / layout.PROBLEMS).open("rb") as file:
            file.seek(self.meta.get("problems_from", 0))
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for mapped in (self._rows, self._strings, self._connections, self._details):
            mapped.close()

    def _forget(self) -> None:
        """Close the files, so that the files of another writer can be mapped."""
        self.close()
        self.count = self.changes = self.first = 0
        self._cache = {0: ""}
        self._entries.clear()
        self.knowledge = Knowledge()
        self._known = 0

    def _learn(self) -> None:
        """Read the facts written since the last call; indexes of earlier releases have no file of facts."""
        with contextlib.suppress(FileNotFoundError), (self.directory / layout.KNOWLEDGE).open("rb") as file:
            file.seek(self._known)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._known += len(line)
                line_fact = json.loads(line)
                self.knowledge.take(Fact(line_fact["fact"]), line_fact["about"], line_fact["known"])

    def _frame(self, side: Side, position: int, end: int) -> tuple[Frame | None, int]:
        if position + layout.SIDE.size > end:
            return None, end
        offset, first, last, at, size, missing, spans = layout.SIDE.unpack_from(self._details.data, position)
        position += layout.SIDE.size
        spans = min(spans, (end - position) // layout.SPAN.size)
        stop = position + spans * layout.SPAN.size
        pieces = list(layout.SPAN.iter_unpack(self._details.data[position:stop]))
        return Frame(side, offset, size, first, last, at, pieces, (), missing), stop

    def _extra(self, detail: Detail, text: bytes) -> None:
        extra = json.loads(text)
        for problem in extra.get("problems", ()):
            detail.problems.append(
                Problem(problem["where"], problem["offset"], problem["path"], problem["message"], Code(problem["code"]))
            )
        comments = extra.get("comments", {})
        if detail.request is not None:
            detail.request.comments = tuple(comments.get("request", ()))
        if detail.response is not None:
            detail.response.comments = tuple(comments.get("response", ()))
        detail.reason = extra.get("reason")
        detail.throttle_ms = extra.get("throttle_ms", 0)
        detail.errors = extra.get("errors", [])
        detail.truths = extra.get("truths", "")
        if "session" in extra:
            from kproxy.decoders.sasl.session import Session

            detail.session = Session.from_json(extra["session"])
        if extra.get("asked_by") == "broker":
            detail.asked_by = Side.BROKER
            for frame in (detail.request, detail.response):
                if frame is not None:
                    frame.side = Side(1 - frame.side)

    def _read_meta(self) -> bool:
        path = self.directory / layout.META
        try:
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino)
            if stamp == self._meta_stamp:
                return False
            meta = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return False
        self._meta_stamp = stamp
        changed = bool(meta != self.meta)
        self.meta = meta
        return changed
