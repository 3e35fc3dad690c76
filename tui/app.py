"""The application: puts the parts together, nothing else."""

from __future__ import annotations

import locale
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import ClassVar

from textual.app import App

from tui.cells import Cells
from tui.live import RunInfo
from tui.screens.exchanges import ExchangesScreen
from tui.viewing import Viewers


class KproxyApp(App[bool]):
    """kproxy in a terminal, in that terminal's own colours; returns whether traffic is to go on."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "kproxy"
    CSS = """
    Toast { background: ansi_default; }
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
    ) -> None:
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self.theme = "ansi-dark"
        cells = Cells(ascii_only=not _speaks_unicode() if ascii_only is None else ascii_only)
        self.main = ExchangesScreen(
            index_dir,
            cells,
            live=live,
            filter_text=filter_text,
            release=release,
            given=given,
            show_secrets=show_secrets,
            viewers=viewers,
            arrived=arrived,
        )

    def on_mount(self) -> None:
        self.push_screen(self.main)


def _speaks_unicode() -> bool:
    encoding = getattr(sys.__stdout__, "encoding", None) or locale.getpreferredencoding(do_setlocale=False)
    return "utf" in encoding.lower()
