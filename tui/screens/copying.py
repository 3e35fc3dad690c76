"""Copying: the menu that screens share, and what can be copied from the exchanges screen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.widget import Widget

from kproxy.captures.errors import CaptureError
from kproxy.decoders.stream import Side
from kproxy.tui.actions import registry as actions
from kproxy.tui.detail.records import RecordLine
from kproxy.tui.output.copying import Copy, byte_copies, frame_copies, json_copy, record_copies
from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.screens.filtering import FilteringScreen
from kproxy.tui.widgets.overview import Overview

if TYPE_CHECKING:
    from kproxy.tui.detail.opened import Opener


class CopyMenu(KproxyScreen):
    """A screen with a menu of what can be copied; a subclass makes the entries."""

    BINDINGS: ClassVar = actions.bindings("copying")

    def _copies(self) -> list[Copy]:
        """What can be copied now; the key `y` copies the first."""
        raise NotImplementedError

    def action_copy_menu(self) -> None:
        from kproxy.tui.screens.menu import Choice, ChoiceMenu

        copies = self._copies()
        if not copies:
            self.notify("nothing here to copy", timeout=3)
            return
        menu = ChoiceMenu(self._cells, "Copy", [Choice(copy.name, copy.said) for copy in copies])
        self.app.push_screen(menu, partial(self._chosen, copies))

    def _chosen(self, copies: list[Copy], index: int | None) -> None:
        if index is not None:
            self._copy(copies[index])

    def action_yank(self) -> None:
        copies = self._copies()
        if copies:
            self._copy(copies[0])

    @work(thread=True, exclusive=True, group="copy")
    def _copy(self, copy: Copy) -> None:
        """Copy in a thread: reading a capture and calling tmux may take a while."""
        try:
            self.app.call_from_thread(self.app.copy, copy.make())
        except CaptureError as error:
            self.app.call_from_thread(self.notify, f"the capture cannot be read: {error}", severity="error", timeout=4)


class CopyingScreen(CopyMenu, FilteringScreen):
    """Copies from the panes of the exchanges screen."""

    _show_secrets: bool
    _opener: Opener | None

    def _copies(self) -> list[Copy]:
        """Copies of what the focused pane shows, then those of the exchange."""
        found = list(self._copies_of(self.focused))
        index, row_number, opener = self._index, self.pane.selected, self._opener
        if index is None or row_number is None or opener is None:
            return found
        row = index.row(row_number)
        detail = index.detail(row)
        line = self.pane.line_text(self.pane.cursor)
        found.append(Copy("line", line, lambda: line))
        found.append(json_copy(index, self._definitions, row_number, show_secrets=self._show_secrets))
        for name, side in (("request", Side.CLIENT), ("response", Side.BROKER)):
            found += frame_copies(name, opener.open(row, detail, side))
        found.append(Copy("filter", f"exchange == {row_number + 1}", lambda: f"exchange == {row_number + 1}"))
        return found

    def broker_of(self, row: int) -> str:
        """Address of the broker that index row `row` went to; "" if unknown."""
        index = self._index
        if index is None or not index.first <= row < index.count:
            return ""
        return index.string(index.connection(index.row(row).connection).broker)

    def _copies_of(self, pane: Widget | None) -> list[Copy]:
        detail = self.detail
        if pane is detail.fields or pane is detail.hex:
            return self._field_copies(value_first=pane is detail.fields)
        if pane in detail.records.panes and isinstance(line := detail.records.table.line, RecordLine):
            if detail.records.withholds(line):
                return []
            row = self.pane.selected
            return list(record_copies(line, "" if row is None else self.broker_of(row)))
        if isinstance(pane, Overview):
            text = pane.line_text(pane.cursor)
            return [Copy("line", text, lambda: text)]
        return []

    def _field_copies(self, *, value_first: bool) -> list[Copy]:
        detail = self.detail
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
