"""The application: creates the parts and switches between screens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from kproxy.captures.period import Period
from kproxy.tui.actions.registry import HELD
from kproxy.tui.application import Application
from kproxy.tui.output.commands import Exporter, Opener, OtherCapture, UnopenedError
from kproxy.tui.settings.keeping import History
from kproxy.tui.settings.live import RunInfo
from kproxy.tui.settings.preferences import Preferences
from kproxy.tui.settings.remembered import Remembered
from kproxy.tui.showing import Showing

if TYPE_CHECKING:
    from textual.await_complete import AwaitComplete

    from kproxy.tui.detail.viewing import Viewers
    from kproxy.tui.screens.exchanges import ExchangesScreen
    from kproxy.tui.views.analysis import Analysis

MOUNTING_SECONDS = 0.01
"""Seconds between checks whether a screen has its panes."""


class KproxyApp(Application):
    """The terminal interface; `run` returns whether the user wants a running proxy to go on."""

    def __init__(
        self,
        index_dir: Path,
        *,
        live: RunInfo | None = None,
        filter_text: str = "",
        release: str | None = None,
        user_definitions: Sequence[str] = (),
        show_secrets: bool = False,
        viewers: Viewers | None = None,
        arrived: Event | None = None,
        ascii_only: bool | None = None,
        preferences: Preferences | None = None,
        exporter: Exporter | None = None,
        opener: Opener | None = None,
    ) -> None:
        preferences = preferences or Preferences()
        super().__init__(preferences, ascii_only=ascii_only)
        if preferences.read_only:
            exporter = opener = None
            live = None if live is None else replace(live, ours=False, held=None)
        self._opener = opener
        self._shows = partial(
            Showing,
            cells=self._cells,
            release=release,
            user_definitions=user_definitions,
            show_secrets=show_secrets,
            looks_for_findings=preferences.looks_for_findings,
            viewers=viewers,
            arrived=arrived,
            saved=self.saved,
            history=History(preferences.kept("filter-history")),
            writes_notes=not preferences.read_only,
            remembered=Remembered(preferences.kept("layout.json")),
        )
        self._shown = [self._shows(index_dir, live=live, filter_text=filter_text, exporter=exporter)]
        """Stack of opened indexes: the last one is on screen, and leaving it shows the previous one."""

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

    @property
    def applied_filter(self) -> str:
        return self.main.bar.applied

    @property
    def period(self) -> Period:
        return self._showing.captions.period

    def limit(self, period: Period) -> None:
        self._showing.limit(period)

    def on_mount(self) -> None:
        self.push_screen(self.main)

    def on_unmount(self) -> None:
        for shown in reversed(self._shown):
            shown.close()

    # going from screen to screen

    def action_go(self, name: str) -> None:
        if name == "exchanges":
            self.main.chosen()
        self.go(name)

    def go(self, name: str) -> None:
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
        found = self.main.lead_to(number, came_from)
        if found:
            self.go("exchanges")
        return found

    def filter_by(self, text: str, came_from: str, *, prepared: bool = False) -> None:
        self.main.filter_by(text, came_from, prepared=prepared)
        self.go("exchanges")

    # interception

    @property
    def intercepts(self) -> bool:
        return self._showing.intercepts

    def intercept(self, expression: str) -> None:
        from kproxy.tui.screens.held import HeldScreen

        self.go(HELD)
        screen = self._showing.view(HELD)
        assert isinstance(screen, HeldScreen)  # noqa: S101 (`Showing` makes one)
        self.call_after_refresh(screen.intercept, expression)

    # other captures

    @property
    def opens(self) -> bool:
        """Whether other captures can be opened."""
        return self._opener is not None

    def open_captures(self, paths: Sequence[Path]) -> None:
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
            self.pop_screen()  # the dialog is about the captures that were shown before
        shown = self._shows(
            other.index_dir, exporter=other.exporter, back_to=self._showing.captions.name, close=opening.pop_all().close
        )
        self._shown.append(shown)
        self.push_screen(shown.main)
        return True

    def leave_captures(self) -> bool:
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
        for shown in self._shown:
            if shown.main.is_mounted:
                shown.main.detail.records.viewers_changed()
