"""The application: creates the parts and switches between screens."""

from __future__ import annotations

import asyncio
import locale
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import ModalScreen

from kproxy.tui.actions.keymap import Keymap
from kproxy.tui.output.commands import Exporter, Opener, OtherCapture, UnopenedError
from kproxy.tui.screens.composed import Composed
from kproxy.tui.settings.keeping import History, SavedFilters
from kproxy.tui.settings.live import RunInfo
from kproxy.tui.settings.preferences import SAVED_FILTERS, Preferences
from kproxy.tui.showing import Showing
from kproxy.tui.terminal import garbage
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.terminal.clipboard import copy
from kproxy.tui.terminal.driver import DRIVERS, BrowserDriver, TerminalDriver
from kproxy.tui.terminal.key_queue import KeysInTurn
from kproxy.tui.terminal.themes import THEMES, ThemeFilter

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.await_complete import AwaitComplete
    from textual.dom import DOMNode

    from kproxy.tui.detail.viewing import Viewers
    from kproxy.tui.screens.exchanges import ExchangesScreen
    from kproxy.tui.views.analysis import Analysis

MOUNTING_SECONDS = 0.01
"""Seconds between checks whether a screen has its panes."""
SETTLED_SECONDS = 1.0
"""Seconds after the start at which all long-lived objects exist, so that garbage collection can skip them."""


class KproxyApp(KeysInTurn):
    """kproxy in a terminal, in that terminal's own colours; `run` returns whether traffic is to go on."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "kproxy"
    CSS = """
    ToastRack { margin-bottom: 4; }
    Toast, Toast.-information, Toast.-warning, Toast.-error {
        background: ansi_default; border-left: none; padding: 0 1; margin-top: 0; text-style: reverse;
    }
    """
    BINDINGS: ClassVar = []

    def __init__(
        self,
        index_dir: Path,
        *,
        live: RunInfo | None = None,
        filter_text: str = "",
        release: str | None = None,
        given: Sequence[str] = (),
        show_secrets: bool = False,
        viewers: Viewers | None = None,
        arrived: Event | None = None,
        ascii_only: bool | None = None,
        preferences: Preferences | None = None,
        exporter: Exporter | None = None,
        opener: Opener | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        preferences = preferences or Preferences()
        self._theme_filter = ThemeFilter(THEMES[preferences.theme])
        self.keymap = Keymap(preferences.keymap)
        self.set_keymap(self.keymap.bindings())
        self.commands = History(preferences.kept("command-history"))
        """Lines entered on the command line."""
        self.saved = SavedFilters(preferences.filters, preferences.kept(SAVED_FILTERS))
        self.animation_level = "none"
        self.theme = "ansi-dark"
        self._cells = cells = Cells(
            ascii_only=preferences.ascii_only or not _speaks_unicode() if ascii_only is None else ascii_only,
            plain=preferences.plain,
        )
        self.hung_up = False
        """Whether the terminal has hung up."""
        self.failure: Exception | None = None
        """The error that ended the interface."""
        self._opener = opener
        self._shows = partial(
            Showing,
            cells=cells,
            release=release,
            given=given,
            show_secrets=show_secrets,
            viewers=viewers,
            arrived=arrived,
            saved=self.saved,
            history=History(preferences.kept("filter-history")),
        )
        self._shown = [self._shows(index_dir, live=live, filter_text=filter_text, exporter=exporter)]
        """Stack of opened indexes: the last one is on screen, leaving it returns to the one before."""

    @property
    def _showing(self) -> Showing:
        return self._shown[-1]

    @property
    def main(self) -> ExchangesScreen:
        """The exchanges screen of the index on screen."""
        return self._showing.main

    @property
    def analysis(self) -> Analysis:
        """The analysis of the index on screen."""
        return self._showing.analysis

    def on_mount(self) -> None:
        self.push_screen(self.main)
        self.set_timer(SETTLED_SECONDS, self._begin_tidying)
        for problem in self.keymap.problems:
            self.notify(f"keymap: {problem}", severity="warning", timeout=6)

    def on_unmount(self) -> None:
        garbage.unsettle()
        for shown in reversed(self._shown):
            shown.close()

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
        if self._exception is None:  # `run_test` raises this one
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()

    def hang_up(self) -> None:
        """End the interface because the terminal has hung up. Signal handlers may call this."""
        self.hung_up = True
        self.end()

    def end(self) -> None:
        """Leave as if the user had, whatever is going on. Signal handlers may call this."""
        driver = self._driver
        if isinstance(driver, TerminalDriver | BrowserDriver):
            driver.end()
        asyncio.get_running_loop().call_soon_threadsafe(self.exit)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own filters, then the theme's; with NO_COLOR the theme's is left out."""
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
        """Send a written file to the browser; do nothing in a terminal, whose user has it already."""
        if isinstance(self._driver, BrowserDriver) and path.is_file():
            self.deliver_binary(path)

    # going from screen to screen

    def action_go(self, name: str) -> None:
        if name == "exchanges":
            self.main.chosen()
        self.go(name)

    def go(self, name: str) -> None:
        """Show a screen of tui.actions.registry.SCREENS; each screen keeps its cursor and folds."""
        shown = self._showing
        if self.screen is not shown.main and self.screen not in shown.views.values():
            return
        if name == "exchanges":
            if self.screen is not self.main:
                self.pop_screen()
            return
        view = shown.view(name)
        if not self.is_screen_installed(view):
            # Textual removes a screen that is not installed when another one is shown
            self.install_screen(view, f"{len(self._shown)}:{name}")
        if self.screen is self.main:
            self.push_screen(view)
        elif self.screen is not view:
            self.switch_screen(view)

    def lead_to(self, number: int, came_from: str) -> bool:
        """Go to an exchange in the list; going back leads to screen `came_from`. False if it is not in the list."""
        found = self.main.lead_to(number, came_from)
        if found:
            self.go("exchanges")
        return found

    def filter_by(self, text: str, came_from: str, *, prepared: bool = False) -> None:
        """Show the exchanges that a filter selects; with `prepared` only put the filter into the filter bar."""
        self.main.filter_by(text, came_from, prepared=prepared)
        self.go("exchanges")

    # other captures

    @property
    def opens(self) -> bool:
        """Whether other captures can be opened."""
        return self._opener is not None

    def open_captures(self, paths: Sequence[Path]) -> None:
        """Show other captures on top of the present ones, which stay open; `leave_captures` returns to these."""
        if self._opener is not None:
            self.notify(f"opening {paths[0].name}", timeout=3)
            self.run_worker(partial(self._open_aside, self._opener, paths), thread=True, group="open", exclusive=True)

    def _open_aside(self, opener: Opener, paths: Sequence[Path]) -> None:
        with ExitStack() as opening:
            try:
                other = opening.enter_context(opener(paths))
            except UnopenedError as error:
                self.call_from_thread(self.notify, str(error), severity="error", timeout=6)
                return
            while not self.call_from_thread(self._show_captures, other, opening):
                time.sleep(MOUNTING_SECONDS)

    def _show_captures(self, other: OtherCapture, opening: ExitStack) -> bool:
        """Show opened captures; False while the present screen has no panes yet, as removing it would then fail."""
        if not self.screen.is_mounted:
            return False
        if isinstance(self.screen, ModalScreen):
            self.pop_screen()  # its question is about the captures before
        shown = self._shows(
            other.index_dir, exporter=other.exporter, back_to=self._showing.captions.name, close=opening.pop_all().close
        )
        self._shown.append(shown)
        self.push_screen(shown.main)
        return True

    def leave_captures(self) -> bool:
        """Return to the captures that were shown before; False if no others were opened."""
        if len(self._shown) == 1:
            return False
        if self.screen is self.main:
            self.run_worker(self._leave(self._shown.pop(), self.pop_screen()))
        return True

    async def _leave(self, shown: Showing, left: AwaitComplete) -> None:
        await left
        for view in shown.views.values():
            self.uninstall_screen(view)
            if view.is_running:
                await view.remove()
        await asyncio.to_thread(shown.close)

    def viewers_changed(self) -> None:
        """Show keys and values of records again: the viewers have changed."""
        for shown in self._shown:
            if shown.main.is_mounted:
                shown.main.detail.records.viewers_changed()


def _speaks_unicode() -> bool:
    if sys.flags.utf8_mode and "PYTHONUTF8" not in os.environ:
        return False  # in the C locale Python turns on UTF-8 mode by itself; the terminal may know ASCII alone
    encoding = getattr(sys.__stdout__, "encoding", None) or locale.getpreferredencoding(do_setlocale=False)
    return "utf" in encoding.lower()
