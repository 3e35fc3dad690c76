"""Finding texts and bytes in the focused pane of a screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kproxy.tui.screens.asking import Asking
from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.screens.jumping import Jumping
from kproxy.tui.screens.shared import Shared
from kproxy.tui.search.searching import ListSearch, in_bytes, in_lines
from kproxy.tui.terminal import look
from kproxy.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from kproxy.tui.search import patterns
    from kproxy.tui.widgets.chrome import Part


class Finding:
    """Asks for a text, and finds it in the focused pane; if no pane has the focus, in the pane from `first_pane`.

    `find` goes to the next (1) or previous (-1) match in a pane.
    """

    def __init__(
        self,
        screen: KproxyScreen,
        asking: Asking,
        first_pane: Callable[[], Lines],
        find: Callable[[Lines, patterns.Sought, int], None],
    ) -> None:
        self._screen = screen
        self._asking = asking
        self._first_pane = first_pane
        self._find = find
        self._sought: patterns.Sought | None = None

    @property
    def pane(self) -> Lines:
        """The pane to search."""
        focused = self._screen.focused
        return focused if isinstance(focused, Lines) else self._first_pane()

    def parts(self) -> list[Part]:
        """Parts of the status line."""
        return [] if self._sought is None else [(f"  [find: {self._sought.words}]", look.PLAIN)]

    def action_ask_what(self) -> None:
        self._asking.ask(self._read)

    def _read(self, text: str) -> Callable[[], None] | None:
        if not text:
            return None
        from kproxy.tui.search import patterns

        return partial(self._begin, patterns.read(text))

    def _begin(self, sought: patterns.Sought) -> None:
        self._sought = sought
        self.action_found(1)

    def action_found(self, by: int) -> None:
        if self._sought is not None:
            self._find(self.pane, self._sought, by)


class ExchangeFinder:
    """Searches the panes of the exchanges screen; the list is searched slice by slice, between key presses."""

    def __init__(self, shared: Shared, jumping: Jumping) -> None:
        self._shared = shared
        self._jumping = jumping
        self.search: ListSearch | None = None

    def parts(self) -> list[Part]:
        """Parts of the status line about a search that goes on."""
        search = self.search
        if search is None or search.over:
            return []
        return [(f"  finding {search.sought.words}: {search.looked_at:,} looked at", look.PLAIN)]

    def find(self, pane: Lines, sought: patterns.Sought, by: int) -> None:
        detail = self._shared.detail
        if pane is self._shared.pane:
            self._begin(sought, by)
            return
        if pane is detail.hex or (sought.bytes_only and pane is detail.fields):
            place = in_bytes(detail.hex, sought, by)
            if place is not None:
                detail.hex.go_to(place)
        else:
            place = in_lines(pane, sought, by)
            if place is not None:
                pane.move_to(place)
        if place is None:
            not_found(self._shared.screen, sought)

    def _begin(self, sought: patterns.Sought, by: int) -> None:
        index, opener, pane = self._shared.index, self._shared.opener, self._shared.pane
        if pane.rows_shown is not None and pane.text is not None and index is not None and opener is not None:
            self.search = ListSearch(pane.rows_shown, index, pane.text, opener.bytes_of, sought, pane.cursor, by)
            self._search_slice(self.search)

    def _search_slice(self, search: ListSearch) -> None:
        """Search a slice of the list, then yield to key presses."""
        screen, pane = self._shared.screen, self._shared.pane
        if search is not self.search or not screen.is_attached:
            return
        search.go_on()
        if not search.over:
            screen.set_timer(0.002, lambda: self._search_slice(search))
        elif search.found is None:
            not_found(screen, search.sought)
        elif pane.rows_shown is not None and search.found < pane.count:
            self._jumping.jump(pane.rows_shown.row_number(search.found))
        screen.show_chrome()


def not_found(screen: KproxyScreen, sought: patterns.Sought) -> None:
    screen.notify(f"not found here: {sought.words}", timeout=3)
