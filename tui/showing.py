"""The screens of an index: the exchanges, and the other screens, which are created when first shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.captures.period import Period
from kproxy.captures.views import FINDINGS
from kproxy.tui.actions.registry import HELD
from kproxy.tui.captions import Captions
from kproxy.tui.screens.exchanges import ExchangesScreen
from kproxy.tui.views.analysis import Analysis
from kproxy.tui.views.findings import Found

if TYPE_CHECKING:
    from kproxy.tui.screens.tabbed import TabbedScreen
    from kproxy.tui.settings.live import RunInfo
    from kproxy.tui.terminal.cells import Cells


class Showing:
    """The screens of one index; each keeps its cursor and folds."""

    def __init__(
        self,
        index_dir: Path,
        cells: Cells,
        *,
        live: RunInfo | None = None,
        back_to: str = "",
        close: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        """`options` are passed to ExchangesScreen; `close` is called at the end, when nothing reads the index any more.

        `back_to` names the captures that leaving returns to; empty if it returns to the shell.
        """
        self._cells = cells
        self._live = live
        self._close = close
        self.analysis = Analysis(index_dir)
        self.found = Found(self.analysis)
        self.captions = Captions(live, back_to, self.found)
        self.main = ExchangesScreen(index_dir, cells, self.captions, self.found, live=live, **options)
        self.views: dict[str, TabbedScreen] = {}
        """Screens other than the exchanges that were created, by their names: those of SCREENS, and HELD."""

    @property
    def intercepts(self) -> bool:
        """Whether frames can be intercepted."""
        return self._live is not None and self._live.held is not None

    def limit(self, period: Period) -> None:
        """Show only exchanges of a period, on all screens but Health."""
        self.captions.period = period
        self.main.filtering.limit()
        self.main.show_chrome()
        self.analysis.limit(period)
        for view in self.views.values():
            view.forget()
            view.show_chrome()

    def view(self, name: str) -> TabbedScreen:
        """A screen of tui.actions.registry.SCREENS other than the exchanges, or HELD; created at the first call."""
        if name not in self.views:
            self.views[name] = self._made(name)
        return self.views[name]

    def _made(self, name: str) -> TabbedScreen:
        # imported when first shown, so that the list is painted sooner
        if name == "health":
            from kproxy.tui.screens.views import HealthScreen
            from kproxy.tui.views.health import Health

            return HealthScreen(
                name, self._cells, self.captions, self.main.exporting, Health(self.captions, self._live)
            )
        if name == "records":
            from kproxy.tui.screens.records import RecordsScreen

            return RecordsScreen(name, self._cells, self.captions, self.main.exporting, self.main.shared)
        if name == "stats":
            from kproxy.tui.screens.stats import StatsScreen

            return StatsScreen(name, self._cells, self.captions, self.main.exporting, self.analysis)
        if name == HELD:
            from kproxy.tui.screens.held import HeldScreen

            assert self._live is not None  # noqa: S101 (`intercepts` was asked)
            assert self._live.held is not None  # noqa: S101
            return HeldScreen(name, self._cells, self.captions, self.main.exporting, self._live.held)
        if name == FINDINGS:
            from kproxy.tui.screens.views import FindingsScreen

            return FindingsScreen(
                name, self._cells, self.captions, self.main.exporting, self.analysis, self.found, self.main.shared
            )
        from kproxy.tui.screens.tables import TablesScreen

        return TablesScreen(name, self._cells, self.captions, self.main.exporting, self.analysis)

    def close(self) -> None:
        """Stop the analysis process, then call `close`; call this after the screens have ended. May take seconds."""
        self.analysis.stop()
        self._close()
