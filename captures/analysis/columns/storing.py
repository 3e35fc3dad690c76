"""Writes the tables of a view into a file, in the form that captures.analysis.columns.stored reads."""

from __future__ import annotations

import json
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from kproxy.captures.analysis.columns.column import Table
from kproxy.captures.analysis.columns.ordering import both_orders
from kproxy.captures.analysis.columns.stored import ALIGNED, LENGTH, OFFSETS, PLAIN, ROWS
from kproxy.captures.views import Clock, Line
from kproxy.decoders.escaping import escape

MOST_ROWS: Final = 100_000
"""Maximum number of rows of a table; further ones are counted as left out."""


def store(facts: Mapping[str, Any], lines: Sequence[Line], tables: Iterable[Table], clock: Clock) -> bytes:
    """The content of a file with the tables of a view's JSON objects; `clock` formats times."""
    blobs: dict[str, bytes | bytearray] = {}
    heads = {table.name: _put_table(blobs, table, lines, clock) for table in tables}
    _put_lines(blobs, "lines", "lines/ends", (json.dumps(line, separators=(",", ":")) for line in lines))
    places: dict[str, tuple[int, int]] = {}
    pieces: list[bytes | bytearray] = []
    at = 0
    for name, blob in blobs.items():
        padding = bytes(-len(blob) % ALIGNED)
        places[name] = at, len(blob)
        pieces += [blob, padding]
        at += len(blob) + len(padding)
    header = json.dumps({"facts": facts, "blobs": places, "tables": heads}).encode()
    header += b" " * (-len(header) % ALIGNED)
    return b"".join([len(header).to_bytes(LENGTH, "little"), header, *pieces])


def _put_table(
    blobs: dict[str, bytes | bytearray], table: Table, lines: Sequence[Line], clock: Clock
) -> dict[str, Any]:
    """Add the blobs of a table; returns the table's entry in the header."""
    numbers, parts = array(ROWS), array(ROWS)
    rows: list[Line] = []
    left_out = 0
    for number, line in enumerate(lines):
        if line["schema"] != table.schema:
            continue
        for part, row in enumerate(table.rows(line)):
            if len(rows) >= MOST_ROWS:
                left_out += 1
                continue
            numbers.append(number)
            parts.append(part)
            rows.append(row)
    widest = [0] * len(table.columns)
    _put_lines(blobs, f"{table.name}/cells", f"{table.name}/ends", _texts(table, rows, widest, clock))
    # one column at a time, as the values of all columns would take much memory
    for column in table.columns:
        for way, order in zip(("least", "greatest"), both_orders([column.value(row) for row in rows]), strict=True):
            blobs[f"{table.name}/{way}/{column.name}"] = array(ROWS, order).tobytes()
    blobs[f"{table.name}/line"], blobs[f"{table.name}/part"] = numbers.tobytes(), parts.tobytes()
    identity = table.identity
    blobs[f"{table.name}/key"] = b"".join(_hash([row[name] for name in identity]) for row in rows)
    return {"rows": len(rows), "left_out": left_out, "widest": widest}


def _texts(table: Table, rows: Iterable[Line], widest: list[int], clock: Clock) -> Iterator[str]:
    """Yields each row's line in the blob of cells; updates `widest`, the cells of each column's widest text."""
    for row in rows:
        marks, cells = "", []
        for number, column in enumerate(table.columns):
            value = column.value(row)
            text = escape(column.text(value, clock))
            marks += column.severity(value) or PLAIN
            cells.append(text)
            widest[number] = max(widest[number], _cells(text))
        yield "\t".join((marks, *cells))


def _put_lines(blobs: dict[str, bytes | bytearray], name: str, ends: str, texts: Iterable[str]) -> None:
    data, places = bytearray(), array(OFFSETS)
    for text in texts:
        data += text.encode(errors="replace") + b"\n"
        places.append(len(data))
    blobs[name], blobs[ends] = data, places.tobytes()


def _cells(text: str) -> int:
    """The width of a text in the cells of a terminal."""
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(one) in "WF") for one in text)


def _hash(key: object) -> bytes:
    return blake2b(json.dumps(key).encode(), digest_size=8).digest()
