"""Pipes between processes: waiting for them, with any descriptor numbers, and messages with their length in front."""

from __future__ import annotations

import contextlib
import os
import select
import struct
from collections.abc import Sequence
from typing import Final

SIZE: Final = 1 << 20
"""Buffer of a pipe in bytes, if the system allows it: large enough that writer and reader rarely wait."""
LENGTH: Final = struct.Struct("=Q")


class Lost(Exception):  # noqa: N818
    """The process at the other end is gone, or could not be started; the message may say how."""


def ready(readable: Sequence[int], writable: Sequence[int] = (), *, wait: bool) -> list[int]:
    """The descriptors that can be read or written now, or have ended; with `wait`, blocks until there is one.

    `select.select` does not suffice: it refuses descriptors above 1023, and captures may have that many files.
    """
    ends = select.poll()
    for end in readable:
        ends.register(end, select.POLLIN)
    for end in writable:
        ends.register(end, select.POLLOUT)
    return [end for end, _ in ends.poll(None if wait else 0)]


def enlarge(pipe: int) -> None:
    """Give the pipe a buffer of `SIZE`, if the system allows it."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, SIZE)


def framed(message: bytes) -> memoryview:
    """The message with its length in front."""
    return memoryview(LENGTH.pack(len(message)) + message)


def send(pipe: int, message: bytes | bytearray | memoryview) -> None:
    for rest in (memoryview(LENGTH.pack(len(message))), memoryview(message)):  # apart, because joining copies
        while rest:
            rest = rest[os.write(pipe, rest) :]  # noqa: PLW2901


def receive(pipe: int) -> bytearray:
    """The next message. Raises Lost if the sender is gone."""
    return Incoming(pipe).next()


class Incoming:
    """The messages that come through a pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._in_message = False
        self._received = bytearray(LENGTH.size)
        """The length of a message, or a message."""
        self._rest = memoryview(self._received)
        """The part of it that is missing."""

    def next(self) -> bytearray:
        """The next message. Raises Lost if the sender is gone; BlockingIOError if a pipe that never blocks is empty."""
        while True:
            while self._rest:
                size = os.readv(self._pipe, [self._rest])
                if not size:
                    raise Lost
                self._rest = self._rest[size:]
            received, self._in_message = self._received, not self._in_message
            self._received = bytearray(LENGTH.unpack(received)[0] if self._in_message else LENGTH.size)
            self._rest = memoryview(self._received)
            if not self._in_message:
                return received
