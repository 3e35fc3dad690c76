"""The terminal interface: maps an index, decodes what is on screen, never touches traffic.

Commands call `run`. Importing this package is cheap: `run` imports Textual.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from kproxy.captures.garbage import few_collections
from kproxy.captures.processes import name_process
from kproxy.tui.output.commands import Exporter, Opener
from kproxy.tui.settings.live import RunInfo
from kproxy.tui.settings.preferences import Preferences

if TYPE_CHECKING:
    from kproxy.tui.detail.viewing import Viewers

# A key that changes several panes takes two of Textual's frames: 33 ms at its default of 60 frames a second.
os.environ.setdefault("TEXTUAL_FPS", "250")

SWITCH_SECONDS = 0.001
"""Switch interval of the interpreter: how long terminal output and keys may wait for a thread that decodes."""

__all__ = ["Exporter", "HungUpError", "Preferences", "RunInfo", "run"]


class HungUpError(BrokenPipeError):
    """The terminal has hung up; `errno` is EIO, as for a write to it."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, os.strerror(errno.EIO))


def run(
    index_dir: Path | str,
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
) -> bool:
    """Show the index in `index_dir` until the user leaves; rows appear while its writer works.

    Returns whether the caller's running proxy, `live`, goes on: the interface asks the user when leaving. The
    index need not exist yet: the screen waits for it. `filter_text` is applied at once. `user_definitions` are
    definitions beside Kafka's (captures.definitions). `viewers` show keys and values of records; without them these are
    shown as text or bytes. Setting `arrived`, from any thread, makes the panes ask the viewers again. With `ascii_only`
    None the locale decides. `preferences` are the user's settings. Without an `exporter` nothing can be exported,
    without an `opener` no other capture can be opened. SIGTERM leaves. Raises HungUpError if the terminal hangs up or
    SIGHUP arrives, and any error that has ended the interface.
    """
    name_process("ui")
    with few_collections():
        from kproxy.tui.app import KproxyApp

        app = KproxyApp(
            Path(index_dir),
            live=live,
            filter_text=filter_text,
            release=release,
            user_definitions=user_definitions,
            show_secrets=show_secrets,
            viewers=viewers,
            arrived=arrived,
            ascii_only=ascii_only,
            preferences=preferences,
            exporter=exporter,
            opener=opener,
        )
        endings = {signal.SIGTERM: app.end, signal.SIGHUP: app.hang_up}
        before = {number: signal.signal(number, partial(_run, end)) for number, end in endings.items()}
        interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            answer = app.run(mouse=preferences is None or preferences.mouse)
        finally:
            sys.setswitchinterval(interval)
            for number, handler in before.items():
                signal.signal(number, handler)
    if app.hung_up:
        raise HungUpError
    if app.failure is not None:
        raise app.failure
    return answer is True


def _run(end: Callable[[], None], *_: object) -> None:
    """A signal handler that calls `end`."""
    end()
