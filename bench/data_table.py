"""The rows of an index in Textual's DataTable, for bench.interface: python -m bench.data_table INDEX_DIR ROWS."""

from __future__ import annotations

import sys
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import DataTable

from kproxy.captures.definitions import definitions
from kproxy.captures.index.reader import IndexReader
from kproxy.tui.listing.columns import COLUMNS
from kproxy.tui.listing.rows import RowText


class Table(App[None]):
    """The first `rows` rows of an index."""

    def __init__(self, index: Path, rows: int) -> None:
        super().__init__()
        self._index = IndexReader(index)
        self._rows = rows

    def compose(self) -> ComposeResult:
        yield DataTable(cursor_type="row")

    def on_mount(self) -> None:
        text = RowText(self._index, definitions())
        table = self.query_one(DataTable)
        table.add_columns(*(column.title for column in COLUMNS))
        rows = (self._index.row(number) for number in range(self._rows))
        table.add_rows(
            [
                text.times.text(self._index, at, row, None)
                if column.name == "time"
                else text.cell(column.name, at + 1, row)
                for column in COLUMNS
            ]
            for at, row in enumerate(rows)
        )
        table.focus()
        self.animation_level = "none"


if __name__ == "__main__":
    Table(Path(sys.argv[1]), int(sys.argv[2])).run()
