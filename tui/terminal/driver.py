"""Drivers for Textual, of a terminal and of a browser, that end the interface when the other side is gone.

SIGHUP does not suffice: it may be ignored, and only a controlling terminal sends it.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Full, Queue
from threading import Lock, Thread
from typing import Any, Protocol, cast

from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver

from kproxy.tui.terminal import input as terminal_input

terminal_input.install()

STUCK_SECONDS = 0.5
"""Longest wait at the end for a terminal that accepts no output."""


class Interface(Protocol):
    """An application that its terminal or browser may end."""

    def hang_up(self) -> None:
        """End because the terminal has hung up."""

    def fail(self, error: Exception) -> None:
        """End because of an error."""


class Output:
    """Writes to a file descriptor; when a write fails, calls `gone` and drops all further output.

    Threads may write at once: the output of each call stays in one piece.
    """

    def __init__(self, fileno: int, encoding: str, gone: Callable[[], None]) -> None:
        self._fileno = fileno
        self._encoding = encoding
        self._gone = gone
        self._is_gone = False
        self._writing = Lock()

    def fileno(self) -> int:
        return self._fileno

    def isatty(self) -> bool:
        return os.isatty(self._fileno)

    def write(self, text: str) -> int:
        self.put(text.encode(self._encoding, "replace"))
        return len(text)

    def put(self, data: bytes) -> None:
        with self._writing:
            if self._is_gone:
                return
            try:
                while data:
                    data = data[os.write(self._fileno, data) :]
            except OSError:
                self._is_gone = True
                self._gone()

    def flush(self) -> None:
        """Do nothing: output is not buffered."""


class TerminalDriver(LinuxDriver):
    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._interface = cast("Interface", app)
        out = sys.__stdout__
        assert out is not None  # noqa: S101 (the base class has it)
        # the base class writes to standard error, which may be redirected to a log
        self._file: Any = Output(out.fileno(), out.encoding, self._gone)
        self._ending = False
        Thread(target=self._watch, name="hang-up", daemon=True).start()

    def _watch(self) -> None:
        """Wait for the terminal to hang up. Reads do not report that: they return b"" again and again."""
        poll = select.poll()
        poll.register(self.fileno, 0)
        poll.poll()
        self._gone()

    def _gone(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._interface.hang_up)

    def run_input_thread(self) -> None:
        try:
            super().run_input_thread()
        except OSError:
            self._gone()
        except Exception as error:  # noqa: BLE001 (the application decides what becomes of it)
            self._app.call_later(self._interface.fail, error)

    def _sigcont_application(self, *_: Any) -> None:
        """Go on after ctrl+z, or after a SIGCONT without one, such as that of `kill -STOP` and `fg`.

        In the second case the application mode is still on. It is left first, because Textual would start another
        thread that reads keys, which would take keys from the first one and keep the process from ending.
        """
        if self._ending or self._key_thread is None:
            return
        if self._auto_restart and not self._must_signal_resume:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()

    # a terminal that accepts no output blocks painting

    def end(self) -> None:
        """Make sure that the interface can end although the terminal is stopped (ctrl+s)."""
        self._ending = True
        Thread(target=self._unblock, name="unblock", daemon=True).start()

    @property
    def _waiting(self) -> Queue[str | None]:
        """The queue of output that the terminal has not accepted yet; `put` may block for ever."""
        assert self._writer_thread is not None  # noqa: S101 (it lives while there is output)
        return self._writer_thread._queue  # noqa: SLF001 (Textual offers no other access)

    def _unblock(self) -> None:
        time.sleep(STUCK_SECONDS)
        if self._writer_thread is not None and self._waiting.full():
            self._waiting.get()

    def write(self, data: str) -> None:
        if not self._ending or not self._waiting.full():
            super().write(data)

    def close(self) -> None:
        if not self._ending:
            super().close()
        elif self._writer_thread is not None:
            with suppress(Full):
                self._waiting.put_nowait(None)
            self._writer_thread.join(STUCK_SECONDS)


class BrowserDriver(WebDriver):
    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._interface = cast("Interface", app)
        # painting and the thread that delivers files both write packets
        self._write: Any = Output(self.fileno, "utf-8", self._gone).put

    def _gone(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._interface.hang_up)

    def run_input_thread(self) -> None:
        try:
            super().run_input_thread()
        except Exception as error:  # noqa: BLE001 (the application decides what becomes of it)
            self._app.call_later(self._interface.fail, error)
        else:
            if not self.exit_event.is_set():
                self._gone()

    def end(self) -> None:
        """Do nothing: no stopped terminal can block a browser's interface."""


DRIVERS: dict[type[Driver], type[Driver]] = {LinuxDriver: TerminalDriver, WebDriver: BrowserDriver}
"""Replacements for Textual's drivers."""
