"""Following a connection, partition, record key, group, transaction, producer id or client through the list."""

from __future__ import annotations

from kproxy.tui.detail.records import RecordLine
from kproxy.tui.screens.filtering import Filtering
from kproxy.tui.screens.shared import Shared


class Following:
    def __init__(self, shared: Shared, filtering: Filtering) -> None:
        self._shared = shared
        self._filtering = filtering
        self._followed_from: list[tuple[str, int | None, str | None]] = []
        """Stack of what following replaced: filter, selected index row, screen that led here."""

    @property
    def follows(self) -> bool:
        return bool(self._followed_from)

    def action_follow(self) -> None:
        from kproxy.tui.screens.follow import FollowScreen
        from kproxy.tui.search.subjects import filters, producer_of

        shared, detail = self._shared, self._shared.detail
        in_records = shared.screen.focused in detail.records.panes
        line = detail.records.table.line if in_records else None
        node = detail.fields.node if detail.side is not None else None

        def of_exchange() -> int | None:
            number = shared.pane.selected
            if number is None or shared.index is None:
                return None
            return producer_of(shared.index, number, shared.definitions)

        found = filters(self._filtering.clauses(), node, line if isinstance(line, RecordLine) else None, of_exchange)
        shared.screen.app.push_screen(FollowScreen(shared.cells, found), self._follow)

    def _follow(self, text: str | None) -> None:
        if text:
            self._followed_from.append((self._shared.bar.applied, self._shared.pane.selected, self._shared.came_from))
            self._shared.came_from = None
            self._shared.bar.set_text(text)

    def end(self) -> None:
        self._followed_from.clear()

    def back(self) -> bool:
        """Undo the last step of following a subject; returns False if no subject is followed."""
        if not self._followed_from:
            return False
        text, row, self._shared.came_from = self._followed_from.pop()
        self._shared.bar.set_text(text)
        self._shared.return_to = row
        return True
