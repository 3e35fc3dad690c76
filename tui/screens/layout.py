"""The layout of the exchanges screen: list and detail share the terminal, or one of them fills it."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.widget import Widget

from kproxy.tui.screens.shared import Shared
from kproxy.tui.settings.remembered import Remembered
from kproxy.tui.widgets.filter_line import FilterInput
from kproxy.tui.widgets.find_bar import FindInput
from kproxy.tui.widgets.painted import Ground

SPLIT_COLUMNS, SPLIT_ROWS = 100, 30
"""Smallest terminal, in cells, in which list and detail share the screen."""
WIDE_COLUMNS = 160
"""Smallest width, in cells, at which the list stands left of the detail."""
LAYOUTS = ("auto", "above", "beside")
"""Where the list stands when it shares the screen: "auto" decides by the terminal's size."""
LIST_SHARE, STEP_SHARE = 40, 10
"""Percent of the shared screen that the list above the detail has at first, and the step of resizing."""
LEAST_SHARE, MOST_SHARE = 10, 90


class Layout:
    def __init__(self, shared: Shared, root: Ground, show_selected: Callable[[], None], remembered: Remembered) -> None:
        """`show_selected` shows the selected exchange in the detail. `remembered` stores the user's choices."""
        self._shared = shared
        self._screen = shared.screen
        self.root = root
        self._show_selected = show_selected
        self._maximised = False
        self._remembered = remembered
        self._layout = remembered.layout if remembered.layout in LAYOUTS else LAYOUTS[0]
        self._share = None if remembered.share is None else max(LEAST_SHARE, min(remembered.share, MOST_SHARE))
        """Percent of the shared screen that the user has given the list."""
        self._dragging = False

    @property
    def reading(self) -> bool:
        """Whether the user has opened the detail, which has the screen alone or shares it."""
        return self.root.has_class("-reading")

    @property
    def is_shared(self) -> bool:
        """Whether list and detail share the screen."""
        return self.root.has_class("-split")

    @property
    def detail_shown(self) -> bool:
        return self.reading or self.is_shared

    def open(self) -> None:
        """Open the detail and give it the focus."""
        self.root.add_class("-reading")
        self._show_selected()
        self._shared.detail.panes[0].focus()

    def close(self) -> None:
        """Go back from the detail to the list."""
        self.root.remove_class("-reading")
        self._shared.pane.focus()
        self.apply()

    def focus_panes(self) -> None:
        if self.reading and not self.is_shared:
            self._shared.detail.panes[0].focus()
        else:
            self._shared.pane.focus()

    def apply(self) -> None:
        """Apply the layout for the terminal's size."""
        was_split = self.is_shared
        self.arrange()
        self._give_shares()
        if self.is_shared and not was_split:
            self._show_selected()
        # a pane that was hidden can take the focus only once the new styles are applied
        self._screen.call_after_refresh(self._keep_focus)

    def arrange(self) -> None:
        """Choose the layout for the terminal's size.

        `compose` calls this before list and detail are mounted, so that Textual computes their styles once.
        """
        width, height = self._screen.app.size
        split = width >= SPLIT_COLUMNS and height >= SPLIT_ROWS and not self._maximised and not self._shared.cells.plain
        side = split and (width >= WIDE_COLUMNS if self._layout == "auto" else self._layout == "beside")
        self.root.update_classes({"-split": split, "-side": side}, update=self.root.is_attached)
        self._shared.detail.lay_out(width, tall=side)

    def _give_shares(self) -> None:
        """Give list and detail the shares of the screen that the user has chosen, if any."""
        for pane in (self._shared.pane, self._shared.detail):
            pane.styles.clear_rule("width")
            pane.styles.clear_rule("height")
            if self._share is not None and self.is_shared:
                part = f"{self._share if pane is self._shared.pane else 100 - self._share}fr"
                if self.root.has_class("-side"):
                    pane.styles.width = part
                else:
                    pane.styles.height = part

    def _keep_focus(self) -> None:
        """Move the focus if the pane that has it is hidden."""
        focused = self._screen.focused
        if isinstance(focused, FilterInput | FindInput) or self.root.has_class("-tiny"):
            return
        in_list = focused is self._shared.pane or focused is None
        if self.reading and not self.is_shared and in_list:
            self._shared.detail.panes[0].focus()
        elif focused is None or (not self.detail_shown and not in_list):
            self._shared.pane.focus()
        elif not in_list and focused not in self._shared.detail.panes:
            self._shared.detail.panes[0].focus()

    def action_pane(self, by: int) -> None:
        panes: list[Widget] = []
        if self._shared.pane.display and not (self.reading and not self.is_shared):
            panes.append(self._shared.pane)
        if self.detail_shown:
            panes += self._shared.detail.panes
        if self._screen.focused in panes:
            panes[(panes.index(self._screen.focused) + by) % len(panes)].focus()
        else:
            panes[0].focus()

    def action_maximise(self) -> None:
        width, height = self._screen.app.size
        if width < SPLIT_COLUMNS or height < SPLIT_ROWS or self._shared.cells.plain:
            # one pane fills the screen already: switch to the other
            if self.reading:
                self.close()
            else:
                self._shared.pane.action_open()
            return
        self._maximised = not self._maximised
        self.root.set_class(self._maximised and self._screen.focused is not self._shared.pane, "-reading")
        self.apply()

    def action_layout(self) -> None:
        """Switch to the next of LAYOUTS."""
        self._layout = LAYOUTS[(LAYOUTS.index(self._layout) + 1) % len(LAYOUTS)]
        self._share = None
        self._remember()
        self.apply()
        self._screen.notify(f"list {self._layout}", timeout=2)

    def action_resize(self, by: int) -> None:
        """Give the focused pane, list or detail, more room (1) or less (-1)."""
        by = by if self._screen.focused is self._shared.pane else -by
        share = self._share if self._share is not None else 50 if self.root.has_class("-side") else LIST_SHARE
        self._take_share(share + by * STEP_SHARE)
        self._remember()

    def _take_share(self, share: int) -> None:
        self._share = max(LEAST_SHARE, min(share, MOST_SHARE))
        self.apply()

    # dragging the border between list and detail

    def press(self, event: events.MouseDown) -> None:
        body = self._screen.query_one("#body").region
        x, y = event.screen_x - body.x, event.screen_y - body.y
        if not self.is_shared or event.button != 1 or not (0 <= x < body.width and 0 <= y < body.height):
            return
        detail = self._shared.detail.region
        if event.screen_x == detail.x if self.root.has_class("-side") else event.screen_y == detail.y:
            self._dragging = True
            self._screen.capture_mouse()

    def drag(self, event: events.MouseMove) -> None:
        if self._dragging:
            body = self._screen.query_one("#body").region
            if self.root.has_class("-side"):
                self._take_share(100 * (event.screen_x - body.x) // max(1, body.width))
            else:
                self._take_share(100 * (event.screen_y - body.y) // max(1, body.height))

    def release(self) -> None:
        if self._dragging:
            self._dragging = False
            self._remember()

    def _remember(self) -> None:
        self._remembered.choose_layout(self._layout, self._share)
