"""The tables of a view in a file, which a screen maps into memory: rows are read as they are painted.

The file is an 8-byte length (little-endian), a JSON header of that length, then the data, at a multiple of 8. The
header is {"facts": the snapshot's members as in captures.analysis.snapshots, "blobs": {name: [offset in the data,
number of bytes]}, "tables": {name: {"rows", "left_out", "widest"}}}. "widest" are the cells of each column's widest
text.

Blobs: "lines" has the view's JSON objects, one a line of text. "NAME/cells" has a line for each row: the letters of its
cells' severities, then the cells' texts, separated by tabs. "lines/ends" and "NAME/ends" are the offsets at which those
lines end. For each row, "NAME/line" is the number of the JSON object that the row is made from, "NAME/part" the row's
number among the rows of that object, and "NAME/key" an 8-byte hash of the row's key. "NAME/least/COLUMN" and
"NAME/greatest/COLUMN" are the rows ordered by a column, least or greatest value first. Numbers are in the machine's
byte order: the machine that writes a file also reads it.
"""

from __future__ import annotations

import json
import mmap
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from kproxy.captures.analysis.columns.column import Table
from kproxy.captures.views import Line

LENGTH: Final = 8
ALIGNED: Final = 8
HASH: Final = 8
Code: TypeAlias = Literal["B", "i", "q"]
ROWS: Final = "i"
"""Type code of row numbers, as of `array.array`."""
OFFSETS: Final = "q"
"""Type code of offsets, as of `array.array`."""
PLAIN: Final = "."
"""Stands for a cell without a severity."""
KEPT_LINES: Final = 64
"""Maximum number of decoded JSON objects that are cached."""


class UnreadableError(Exception):
    """A file that is not as the module's docstring describes."""


class Stored:
    """The tables of a file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file cannot be read, UnreadableError if it is damaged."""
        with path.open("rb") as file:
            try:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as problem:  # the file is empty
                raise UnreadableError(str(problem)) from None
        self._memory = memoryview(self._map)
        size = int.from_bytes(self._map[:LENGTH], "little")
        self._start = LENGTH + size
        try:
            header = json.loads(self._map[LENGTH : self._start])
            self.facts: dict[str, Any] = header["facts"]
            self._heads: dict[str, dict[str, Any]] = header["tables"]
            self._blobs: dict[str, tuple[int, int]] = header["blobs"]
            self._ends = self.numbers("lines/ends", OFFSETS)
        except (ValueError, KeyError, TypeError) as problem:
            raise UnreadableError(str(problem)) from None
        self._line = lru_cache(maxsize=KEPT_LINES)(self._line_at)

    def rows(self, table: Table) -> Rows | None:
        """The rows of a table; None if the file does not contain the table, or its bytes are damaged."""
        try:
            return Rows(self, table, self._heads[table.name])
        except (KeyError, TypeError, ValueError):
            return None

    def numbers(self, blob: str, code: Code) -> Sequence[int]:
        """The numbers of a blob; `code` is their type code. Raises KeyError or TypeError in a damaged file."""
        start, end = self._place(blob)
        return cast("Sequence[int]", self._memory[start:end].cast(code))

    def text_line(self, blob: str, ends: Sequence[int], number: int) -> bytes:
        """A line of a blob, without its newline."""
        start, _ = self._place(blob)
        begin = ends[number - 1] if number else 0
        return self._map[start + begin : start + ends[number] - 1]

    def line(self, number: int) -> Line:
        """One of the view's JSON objects."""
        return self._line(number)

    def size(self, number: int) -> int:
        """The size in bytes of one of the view's JSON objects."""
        return self._ends[number] - (self._ends[number - 1] if number else 0)

    def lines(self) -> list[Line]:
        """All of the view's JSON objects."""
        return [self._line_at(number) for number in range(len(self._ends))]

    def find(self, blob: str, sought: bytes, *, text: bool = False) -> list[int]:
        """The offsets in a blob at which `sought` occurs; with `text`, ASCII letters match in either case."""
        start, end = self._place(blob)
        pattern = re.compile(re.escape(sought), re.IGNORECASE if text else re.NOFLAG)
        return [found.start() - start for found in pattern.finditer(self._map, start, end)]

    def _place(self, blob: str) -> tuple[int, int]:
        """Where a blob begins and ends in the file."""
        at, size = self._blobs[blob]
        return self._start + at, self._start + at + size

    def _line_at(self, number: int) -> Line:
        return cast("Line", json.loads(self.text_line("lines", self._ends, number)))


class Rows:
    """The rows of one table, numbered in the order in which they were stored."""

    def __init__(self, stored: Stored, table: Table, head: Mapping[str, Any]) -> None:
        self._stored = stored
        self.table = table
        self.count: int = head["rows"]
        self.left_out: int = head["left_out"]
        self.widest: list[int] = head["widest"]
        self._ends = stored.numbers(f"{table.name}/ends", OFFSETS)
        self._numbers = stored.numbers(f"{table.name}/line", ROWS)
        self._parts = stored.numbers(f"{table.name}/part", ROWS)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The members of the snapshot that hold for all its tables."""
        return self._stored.facts

    def cells(self, row: int) -> tuple[str, list[str]]:
        """(letters of severity, texts) of a row's cells."""
        marks, *texts = self._stored.text_line(f"{self.table.name}/cells", self._ends, row).decode().split("\t")
        return marks, texts

    def line(self, row: int) -> Line:
        """The view's JSON object that a row is made from."""
        return self._stored.line(self._numbers[row])

    def size(self, row: int) -> int:
        """The size in bytes of the JSON object that a row is made from."""
        return self._stored.size(self._numbers[row])

    def values(self, row: int) -> Line:
        """The mapping from which the row's columns take their values."""
        return next(found for part, found in enumerate(self.table.rows(self.line(row))) if part == self._parts[row])

    def key(self, row: int) -> bytes:
        """The hash that identifies the row's thing across snapshots."""
        keys = self._stored.numbers(f"{self.table.name}/key", "B")
        return bytes(keys[row * HASH : (row + 1) * HASH])

    def find(self, key: bytes) -> int | None:
        """The row with this key; None if there is none."""
        found = self._stored.find(f"{self.table.name}/key", key)
        return next((at // HASH for at in found if at % HASH == 0), None)

    def order(self, column: str, *, descending: bool) -> Sequence[int]:
        """The rows in the order of a column's values."""
        return self._stored.numbers(f"{self.table.name}/{'greatest' if descending else 'least'}/{column}", ROWS)

    def with_text(self, text: str) -> set[int]:
        """The rows whose cells contain a text; ASCII letters match in either case."""
        found = self._stored.find(f"{self.table.name}/cells", text.encode(errors="replace"), text=True)
        rows = ((bisect_right(self._ends, at), at) for at in found)
        letters = len(self.widest)
        return {row for row, at in rows if at - (self._ends[row - 1] if row else 0) > letters}
