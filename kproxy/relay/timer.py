"""A timer outside the event loop, for callbacks that are scheduled continually.

While a timer of the event loop is set, each wait for sockets sets and removes a kernel timer, which adds some
microseconds to every message. A timerfd is set once and is then one more descriptor that the loop waits for.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import time
from collections.abc import Callable

Schedule = Callable[[float, Callable[[], None]], object]
"""A function (seconds, callback) that calls `callback` after that time, like asyncio's `call_later`."""

_SPEC = struct.Struct("@4l")
"""The C struct itimerspec: interval in seconds and nanoseconds (0 fires once), then the time until the first expiry."""


class Timer:
    """Calls a callback once after some seconds; another call before that replaces the time and the callback."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises AttributeError if the system has no timerfd, OSError if it cannot create one."""
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
        except BlockingIOError:  # the timer was set again meanwhile
            return
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


def timer(loop: asyncio.AbstractEventLoop) -> Schedule:
    """A `Timer`, or the event loop's `call_later` if the system has no timerfd."""
    try:
        return Timer(loop)
    except (AttributeError, OSError):
        return loop.call_later
