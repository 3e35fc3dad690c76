"""Copying: the menu that screens share, and what can be copied from the exchanges screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.widget import Widget

from kproxy.captures.errors import CaptureError
from kproxy.decoders.stream import Side
from kproxy.tui.detail.records import RecordLine
from kproxy.tui.output.copying import Copy, byte_copies, frame_copies, json_copy, record_copies
from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.screens.shared import Shared
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.detail import Detail
from kproxy.tui.widgets.overview import Overview

if TYPE_CHECKING:
    from kproxy.tui.screens.exporting import Exporting


class Copying:
    """Copies by key or from a menu; `copies` returns what can be copied now, first what the key `y` copies."""

    def __init__(self, screen: KproxyScreen, cells: Cells, copies: Callable[[], list[Copy]]) -> None:
        self._screen = screen
        self._cells = cells
        self._copies = copies

    def action_copy_menu(self) -> None:
        from kproxy.tui.screens.menu import Choice, ChoiceMenu

        copies = self._copies()
        if not copies:
            self._screen.notify("nothing here to copy", timeout=3)
            return
        menu = ChoiceMenu(self._cells, "Copy", [Choice(copy.name, copy.said) for copy in copies])
        self._screen.app.push_screen(menu, partial(self._chosen, copies))

    def _chosen(self, copies: list[Copy], index: int | None) -> None:
        if index is not None:
            self._copy(copies[index])

    def action_yank(self) -> None:
        copies = self._copies()
        if copies:
            self._copy(copies[0])

    def _copy(self, copy: Copy) -> None:
        """Copy in a thread: reading a capture and calling tmux may take a while."""
        self._screen.run_worker(partial(self._make, copy), thread=True, exclusive=True, group="copy")

    def _make(self, copy: Copy) -> None:
        app, notify = self._screen.app, self._screen.notify
        try:
            app.call_from_thread(app.copy, copy.make())
        except CaptureError as error:
            app.call_from_thread(notify, f"the capture cannot be read: {error}", severity="error", timeout=4)


def copies_of(shared: Shared, exporting: Exporting) -> list[Copy]:
    """The copies that the focused pane offers, those that the selected exchange offers, then those of the list."""
    return [*_copies_of_exchange(shared), *exporting.commands("export", filters=exporting.shown())]


def _copies_of_exchange(shared: Shared) -> list[Copy]:
    found = _copies_of_pane(shared, shared.screen.focused)
    index, row_number, opener = shared.index, shared.pane.selected, shared.opener
    if index is None or row_number is None or opener is None:
        return found
    row = index.row(row_number)
    detail = index.detail(row)
    line = shared.pane.line_text(shared.pane.cursor)
    found.append(Copy("line", line, lambda: line))
    found.append(json_copy(index, shared.definitions, row_number, show_secrets=shared.show_secrets))
    for name, side in (("request", Side.CLIENT), ("response", Side.BROKER)):
        found += frame_copies(name, opener.open(row, detail, side))
    found.append(Copy("filter", f"exchange == {row_number + 1}", lambda: f"exchange == {row_number + 1}"))
    return found


def _copies_of_pane(shared: Shared, pane: Widget | None) -> list[Copy]:
    detail = shared.detail
    if pane is detail.fields or pane is detail.hex:
        return _field_copies(detail, value_first=pane is detail.fields)
    if pane in detail.records.panes and isinstance(line := detail.records.table.line, RecordLine):
        if detail.records.withholds(line):
            return []
        row = shared.pane.selected
        return list(record_copies(line, "" if row is None else shared.broker_of(row)))
    if isinstance(pane, Overview):
        text = pane.line_text(pane.cursor)
        return [Copy("line", text, lambda: text)]
    return []


def _field_copies(detail: Detail, *, value_first: bool) -> list[Copy]:
    node = detail.fields.node
    found = []
    if node is not None and not node.secret:
        value = detail.fields.value_text(node)
        if value:
            found.append(Copy("value", value, lambda: value))
    data = detail.hex.marked_bytes()
    if data:
        found += byte_copies("field", data)
    if node is not None and node.path:
        path = f"{detail.side_name}.body.{node.path}"
        found.append(Copy("path", path, lambda: path))
    return found if value_first else sorted(found, key=lambda copy: copy.name == "value")
