"""The part of the application that needs no particular screen: terminal, browser, and what screens may call."""

from __future__ import annotations

import asyncio
import locale
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.driver import Driver
from textual.filter import LineFilter

from kproxy.captures.period import Period
from kproxy.tui.actions.keymap import Keymap
from kproxy.tui.screens.composed import Composed
from kproxy.tui.settings.keeping import History, SavedFilters
from kproxy.tui.settings.preferences import SAVED_FILTERS, Preferences
from kproxy.tui.terminal import garbage
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.terminal.clipboard import copy
from kproxy.tui.terminal.driver import DRIVERS, BrowserDriver, TerminalDriver
from kproxy.tui.terminal.key_queue import KeysInTurn
from kproxy.tui.terminal.themes import THEMES, ThemeFilter

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode

SETTLED_SECONDS = 1.0
"""Seconds after the start at which all present objects are exempted from garbage collection, as they are long-lived."""


class Application(KeysInTurn):
    """A Textual application in the terminal's own colours; a subclass creates screens and switches between them."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "kproxy"
    CSS = """
    ToastRack { margin-bottom: 4; }
    Toast, Toast.-information, Toast.-warning, Toast.-error {
        background: ansi_default; border-left: none; padding: 0 1; margin-top: 0; text-style: reverse;
    }
    """
    BINDINGS: ClassVar = []

    def __init__(self, preferences: Preferences, *, ascii_only: bool | None = None) -> None:
        super().__init__(ansi_color=True)
        self._theme_filter = ThemeFilter(THEMES[preferences.theme])
        self.keymap = Keymap(preferences.keymap)
        self.set_keymap(self.keymap.bindings())
        self.commands = History(preferences.kept("command-history"))
        """Lines entered on the command line."""
        self.saved = SavedFilters(preferences.filters, preferences.kept(SAVED_FILTERS))
        self.animation_level = "none"
        self.theme = "ansi-dark"
        self._cells = Cells(
            ascii_only=preferences.ascii_only or not _speaks_unicode() if ascii_only is None else ascii_only,
            plain=preferences.plain,
        )
        self.hung_up = False
        """Whether the terminal has hung up."""
        self.failure: Exception | None = None
        """The error that ended the interface."""

    def on_mount(self) -> None:
        self.set_timer(SETTLED_SECONDS, self._begin_tidying)
        for problem in self.keymap.problems:
            self.notify(f"keymap: {problem}", severity="warning", timeout=6)

    def on_unmount(self) -> None:
        garbage.unsettle()

    # Methods that screens may call.

    @property
    def applied_filter(self) -> str:
        """The filter of the list; empty without one."""
        raise NotImplementedError

    @property
    def period(self) -> Period:
        """The period that limits all screens but Health."""
        raise NotImplementedError

    def limit(self, period: Period) -> None:
        """Show only exchanges of a period, on all screens but Health; an empty period shows all."""
        raise NotImplementedError

    def go(self, name: str) -> None:
        """Show a screen of tui.actions.registry.SCREENS; each screen keeps its cursor and folds."""
        raise NotImplementedError

    def lead_to(self, number: int, came_from: str) -> bool:
        """Go to exchange `number` in the list; going back returns to screen `came_from`. False if the list lacks it."""
        raise NotImplementedError

    def filter_by(self, text: str, came_from: str, *, prepared: bool = False) -> None:
        """Show the exchanges that a filter selects; with `prepared` only put the filter into the filter bar."""
        raise NotImplementedError

    @property
    def intercepts(self) -> bool:
        """Whether frames of the running proxy can be intercepted."""
        raise NotImplementedError

    def intercept(self, expression: str) -> None:
        """Show the intercepted frames; with an expression, intercept requests that match it."""
        raise NotImplementedError

    def open_captures(self, paths: Sequence[Path]) -> None:
        """Show other captures on top of the present ones, which stay open; `leave_captures` returns to these."""
        raise NotImplementedError

    def leave_captures(self) -> bool:
        """Return to the captures that were shown before; False if no others were opened."""
        raise NotImplementedError

    def viewers_changed(self) -> None:
        """Repaint keys and values of records after the viewers have changed."""
        raise NotImplementedError

    def _begin_tidying(self) -> None:
        garbage.settle()
        self.set_interval(garbage.SECONDS, self._tidy)

    def _tidy(self) -> None:
        if not self.keys_at_work:
            garbage.collect()

    # the terminal

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent) and not self.screen_stack:
            return  # the application has ended
        if not isinstance(event, events.MouseEvent) or event.is_forwarded:
            await super().on_event(event)
            return
        if isinstance(event, events.MouseDown):
            # Textual sets this too, but inside super().on_event, where a pane that regains focus would lose it again
            self.app_focus = True
        focused = self.focused
        await super().on_event(event)
        if focused is not None and self.focused is None:
            # a click where nothing is painted, as beyond the edge of a terminal that was just made smaller, makes
            # Textual drop the focus: a menu would get no more keys
            self.set_focus(focused)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        if isinstance(action, str) and action.startswith("focused.") and self.focused is None:
            return False  # a key in the help bar was clicked whose pane has lost the focus
        if isinstance(self.screen, Composed) and not self.screen.stands:
            return False  # its actions would query panes that do not exist
        return await super().run_action(action, default_namespace, namespaces)

    def get_driver_class(self) -> type[Driver]:
        chosen = super().get_driver_class()
        return DRIVERS.get(chosen, chosen)

    @property
    def suspends(self) -> bool:
        """Whether the application can be suspended: a terminal can be given back to the shell for a while."""
        return self._driver is not None and self._driver.can_suspend

    def fail(self, error: Exception) -> None:
        """End the interface because of an error and keep it as `failure`."""
        self._handle_exception(error)

    def _handle_exception(self, error: Exception) -> None:
        """Textual calls this with a handler's exception. Unlike Textual's, prints nothing: locals may hold secrets."""
        self.failure = self.failure or error
        self._return_code = 1
        if self._exception is None:  # Textual's `run_test` raises the exception that is stored here.
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()

    def hang_up(self) -> None:
        """End the interface because the terminal has hung up. Signal handlers may call this."""
        self.hung_up = True
        self.end()

    def end(self) -> None:
        """End the interface from any state, as if the user had left it. Signal handlers may call this."""
        driver = self._driver
        if isinstance(driver, TerminalDriver | BrowserDriver):
            driver.end()
        asyncio.get_running_loop().call_soon_threadsafe(self.exit)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's line filters, followed by the filter that paints the theme's colours, unless NO_COLOR is set."""
        own = super().get_line_filters()
        return own if self.no_color or not self._theme_filter.enabled else [*own, self._theme_filter]

    def paint_as(self, theme: str) -> None:
        """Paint everything in a theme of tui.terminal.themes.THEMES."""
        self._theme_filter = ThemeFilter(THEMES[theme])
        for screen in self.screen_stack:
            for widget in screen.walk_children(with_self=True):
                widget.refresh(layout=True)

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard, and notify the user of the result."""
        try:
            self.notify(copy(text, self.copy_to_clipboard), timeout=3)
        except OSError as error:
            self.notify(f"not copied: {error.strerror or error}", severity="error", timeout=4)

    def hand_over(self, path: Path) -> None:
        """Send a written file to the browser; do nothing in a terminal, whose user has the file already."""
        if isinstance(self._driver, BrowserDriver) and path.is_file():
            self.deliver_binary(path)


def _speaks_unicode() -> bool:
    if sys.flags.utf8_mode and "PYTHONUTF8" not in os.environ:
        return False  # in the C locale Python turns on UTF-8 mode by itself, but the terminal may support ASCII only
    encoding = getattr(sys.__stdout__, "encoding", None) or locale.getpreferredencoding(do_setlocale=False)
    return "utf" in encoding.lower()
