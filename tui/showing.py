"""An index on screen: its exchanges, and the screens beside them, made once somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.tui.captions import Captions
from kproxy.tui.screens.exchanges import ExchangesScreen
from kproxy.tui.views.analysis import Analysis

if TYPE_CHECKING:
    from kproxy.tui.screens.tabbed import TabbedScreen
    from kproxy.tui.settings.live import RunInfo
    from kproxy.tui.terminal.cells import Cells


class Showing:
    """The screens of one index; each keeps its cursor and what is folded."""

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
        """`options` are those of the exchanges; `close` is called at the end, when nothing looks at the index any more.

        `back_to` names what is shown once this is left, where that is no shell.
        """
        self._cells = cells
        self._live = live
        self._close = close
        self.captions = Captions(live, back_to)
        self.analysis = Analysis(index_dir)
        self.main = ExchangesScreen(index_dir, cells, self.captions, live=live, **options)
        self.views: dict[str, TabbedScreen] = {}
        """The screens beside the exchanges that were made, by their names in tui.actions.SCREENS."""

    def view(self, name: str) -> TabbedScreen:
        """A screen of tui.actions.SCREENS beside the exchanges."""
        if name not in self.views:
            self.views[name] = self._made(name)
        return self.views[name]

    def _made(self, name: str) -> TabbedScreen:
        # imported once somebody looks: the list is painted before
        if name == "health":
            from kproxy.tui.screens.views import HealthScreen
            from kproxy.tui.views.health import Health

            return HealthScreen(name, self._cells, self.captions, Health(self.captions, self._live))
        if name == "records":
            from kproxy.tui.screens.records import RecordsScreen

            return RecordsScreen(name, self._cells, self.captions, self.main)
        if name == "stats":
            from kproxy.tui.screens.stats import StatsScreen

            return StatsScreen(name, self._cells, self.captions, self.analysis)
        from kproxy.tui.screens.views import AnalysisScreen

        return AnalysisScreen(name, self._cells, self.captions, self.analysis)

    def close(self) -> None:
        """End what works for these screens, which are gone. May take seconds."""
        self.analysis.stop()
        self._close()
