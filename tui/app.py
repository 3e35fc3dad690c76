"""The application: puts the parts together, and goes from screen to screen."""

from __future__ import annotations

import asyncio
import locale
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from textual.driver import Driver
from textual.filter import LineFilter

from tui import garbage
from tui.analysis import Analysis
from tui.captions import Captions
from tui.cells import Cells
from tui.clipboard import copy
from tui.in_turn import KeysInTurn
from tui.keeping import History, SavedFilters
from tui.keymap import Keymap
from tui.live import RunInfo
from tui.outside import Exporter
from tui.preferences import SAVED_FILTERS, Preferences
from tui.screens.exchanges import ExchangesScreen
from tui.terminal import DRIVERS, BrowserDriver, TerminalDriver
from tui.themes import THEMES, ThemeFilter

if TYPE_CHECKING:
    from tui.screens.tabbed import TabbedScreen
    from tui.viewing import Viewers

SETTLED_SECONDS = 1.0
"""After which all is there that stays until the user leaves."""


class KproxyApp(KeysInTurn):
    """kproxy in a terminal, in that terminal's own colours; returns whether traffic is to go on."""

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
    ) -> None:
        super().__init__(ansi_color=True)
        preferences = preferences or Preferences()
        self._theme_filter = ThemeFilter(THEMES[preferences.theme])
        self.keymap = Keymap(preferences.keymap)
        self.set_keymap(self.keymap.bindings())
        self.commands = History(preferences.kept("command-history"))
        """What was run on the command line."""
        self.saved = SavedFilters(preferences.filters, preferences.kept(SAVED_FILTERS))
        self.animation_level = "none"
        self.theme = "ansi-dark"
        self._cells = cells = Cells(
            ascii_only=not _speaks_unicode() if ascii_only is None else ascii_only, plain=preferences.plain
        )
        self.hung_up = False
        """Whether the terminal has gone."""
        self._live = live
        self._captions = Captions(live)
        self.analysis = Analysis(index_dir)
        self._views: dict[str, TabbedScreen] = {}
        self.main = ExchangesScreen(
            index_dir,
            cells,
            self._captions,
            live=live,
            filter_text=filter_text,
            release=release,
            given=given,
            show_secrets=show_secrets,
            viewers=viewers,
            arrived=arrived,
            saved=self.saved,
            history=History(preferences.kept("filter-history")),
            exporter=exporter,
        )

    def on_mount(self) -> None:
        self.push_screen(self.main)
        self.set_timer(SETTLED_SECONDS, self._begin_tidying)
        for problem in self.keymap.problems:
            self.notify(f"keymap: {problem}", severity="warning", timeout=6)

    def on_unmount(self) -> None:
        garbage.unsettle()
        self.analysis.stop()

    def _begin_tidying(self) -> None:
        garbage.settle()
        self.set_interval(garbage.SECONDS, self._tidy)

    def _tidy(self) -> None:
        if not self.keys_at_work:
            garbage.collect()

    # the terminal

    def get_driver_class(self) -> type[Driver]:
        chosen = super().get_driver_class()
        return DRIVERS.get(chosen, chosen)

    @property
    def suspends(self) -> bool:
        """Whether what is painted on can be given back for a while."""
        return self._driver is not None and self._driver.can_suspend

    def hang_up(self) -> None:
        """The terminal is gone, and nobody is left to look; may be called by a signal handler."""
        self.hung_up = True
        self.end()

    def end(self) -> None:
        """Leave as if the user had, whatever is being done; may be called by a signal handler."""
        driver = self._driver
        if isinstance(driver, TerminalDriver | BrowserDriver):
            driver.end()
        asyncio.get_running_loop().call_soon_threadsafe(self.exit)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, then the theme's; NO_COLOR leaves nothing for a theme to paint."""
        own = super().get_line_filters()
        return own if self.no_color or not self._theme_filter.enabled else [*own, self._theme_filter]

    def paint_as(self, theme: str) -> None:
        """Paint everything in a theme of tui.themes.THEMES."""
        self._theme_filter = ThemeFilter(THEMES[theme])
        for screen in self.screen_stack:
            for widget in screen.walk_children(with_self=True):
                widget.refresh(layout=True)

    def copy(self, text: str) -> None:
        """Copy a text, and say what was done."""
        try:
            self.notify(copy(text, self.copy_to_clipboard), timeout=3)
        except OSError as error:
            self.notify(f"not copied: {error.strerror or error}", severity="error", timeout=4)

    # going from screen to screen

    def action_go(self, name: str) -> None:
        if name == "exchanges":
            self.main.chosen()
        self.go(name)

    def go(self, name: str) -> None:
        """Show a screen of tui.actions.SCREENS; each keeps its cursor and what is folded."""
        if self.screen is not self.main and self.screen not in self._views.values():
            return
        if name == "exchanges":
            if self.screen is not self.main:
                self.pop_screen()
            return
        view = self._view(name)
        if self.screen is self.main:
            self.push_screen(view)
        elif self.screen is not view:
            self.switch_screen(view)

    def lead_to(self, number: int, came_from: str) -> bool:
        """Go to an exchange in the list; False where it is not there."""
        found = self.main.lead_to(number, came_from)
        if found:
            self.go("exchanges")
        return found

    def filter_by(self, text: str, came_from: str) -> None:
        """Show the exchanges that a filter selects."""
        self.main.filter_by(text, came_from)
        self.go("exchanges")

    def _view(self, name: str) -> TabbedScreen:
        view = self._views.get(name)
        if view is None:
            # imported once somebody looks: the list is painted before
            if name == "health":
                from tui.health import Health
                from tui.screens.views import HealthScreen

                view = HealthScreen(name, self._cells, self._captions, Health(self._captions, self._live))
            elif name == "records":
                from tui.screens.records import RecordsScreen

                view = RecordsScreen(name, self._cells, self._captions, self.main)
            elif name == "stats":
                from tui.screens.stats import StatsScreen

                view = StatsScreen(name, self._cells, self._captions, self.analysis)
            else:
                from tui.screens.views import AnalysisScreen

                view = AnalysisScreen(name, self._cells, self._captions, self.analysis)
            self._views[name] = view
            # an installed screen lives on when another one is shown
            self.install_screen(view, name)
        return view


def _speaks_unicode() -> bool:
    encoding = getattr(sys.__stdout__, "encoding", None) or locale.getpreferredencoding(do_setlocale=False)
    return "utf" in encoding.lower()
