"""Copies of a table's row."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kproxy.captures.analysis.columns.stored import Rows
from kproxy.tui.output.copying import Copy


def row_copies(rows: Rows, row: int) -> Iterator[Copy]:
    """Copies of a row: its texts separated by tabs, its values as a JSON object, its details as a JSON object."""
    _, texts = rows.cells(row)
    yield Copy("row", "its columns separated by tabs", lambda: "\t".join(texts))
    values = rows.values(row)
    shown = {column.name: column.value(values) for column in rows.table.columns}
    yield Copy("row JSON", "a member for each column", lambda: json.dumps(shown))
    yield Copy("details JSON", "all that is known about the row", lambda: json.dumps(rows.line(row)))
