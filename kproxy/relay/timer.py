"""A timer beside the event loop's own, for what is due all the time.

While one of the loop's is set, each wait for sockets sets a timer of the kernel's and takes it back, some microseconds
that every message pays. A timerfd is set once, and then is one more descriptor among those that are waited for.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import time
from collections.abc import Callable

Schedule = Callable[[float, Callable[[], None]], object]
"""(seconds, callback), as asyncio's `call_later`."""

_SPEC = struct.Struct("@4l")
"""struct itimerspec: the interval in seconds and nanoseconds (0 is once), then the time of the first."""


class Timer:
    """Calls back once, some seconds after it is called; called again before that, it forgets what was due."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises AttributeError where the system has no such timers, OSError where it gives none."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._set = libc.timerfd_settime
        self._descriptor = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._callback: Callable[[], None] | None = None
        loop.add_reader(self._descriptor, self._due)

    def __call__(self, seconds: float, callback: Callable[[], None]) -> None:
        self._callback = callback
        whole, part = divmod(max(round(seconds * 1e9), 1), 10**9)
        self._set(self._descriptor, 0, _SPEC.pack(0, 0, whole, part), None)

    def _due(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:  # it was set again meanwhile
            return
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


def timer(loop: asyncio.AbstractEventLoop) -> Schedule:
    """A timer of its own, the loop's where there is none."""
    try:
        return Timer(loop)
    except (AttributeError, OSError):
        return loop.call_later
