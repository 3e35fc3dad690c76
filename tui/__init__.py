"""The terminal interface: maps an index, decodes what is on screen, never touches traffic.

`run` is what commands call. Importing this package is cheap; the toolkit is imported by the call.
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

# A key that changes several panes takes two of the toolkit's frames, which at its 60 a second are 33 ms.
os.environ.setdefault("TEXTUAL_FPS", "250")

SWITCH_SECONDS = 0.001
"""After which a thread that waits gets its turn: what writes to the terminal, and keys while another decodes."""

__all__ = ["Exporter", "HungUpError", "Preferences", "RunInfo", "run"]


class HungUpError(BrokenPipeError):
    """The terminal is gone: `errno` is EIO, as of a write to it."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, os.strerror(errno.EIO))


def run(
    index_dir: Path | str,
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
) -> bool:
    """Show the index in `index_dir` until the user leaves; rows appear while its writer works.

    Returns whether the user wants the traffic of `live`, a running proxy of the caller's, to go on; leaving asks first
    then. The index need not exist yet: the screen waits for it. `filter_text` is applied at once. `given` are
    definitions beside Kafka's (captures.definitions). `viewers` show keys and values of records, without any they are
    text or bytes; whoever sets `arrived`, from any thread, has them asked again. `ascii_only` None asks the locale.
    `preferences` are what the user has set up; without an `exporter` there is no export, without an `opener`
    no other capture can be opened. SIGTERM is leaving. Raises HungUpError once the terminal is gone, or SIGHUP says so,
    and whatever error has ended the interface.
    """
    name_process("ui")
    with few_collections():
        from kproxy.tui.app import KproxyApp

        app = KproxyApp(
            Path(index_dir),
            live=live,
            filter_text=filter_text,
            release=release,
            given=given,
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
    """A signal handler."""
    end()
