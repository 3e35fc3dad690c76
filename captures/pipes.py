"""Pipes between processes: waits for any number of them, and passes messages, each with its length in front."""

from __future__ import annotations

import contextlib
import os
import select
import struct
from collections.abc import Sequence
from typing import Final

SIZE: Final = 1 << 20
"""Buffer size in bytes to ask the system for: large enough that writer and reader rarely wait."""
LENGTH: Final = struct.Struct("=Q")


class Lost(Exception):  # noqa: N818
    """The process at the other end of a pipe has ended or could not be started; the message may say how."""


def ready(readable: Sequence[int], writable: Sequence[int] = (), *, wait: bool) -> list[int]:
    """The descriptors that can be read or written without blocking, or are closed at the other end.

    With `wait`, blocks until there is one. `select.select` does not suffice: it refuses descriptors above 1023, and
    captures may have that many files.
    """
    ends = select.poll()
    for end in readable:
        ends.register(end, select.POLLIN)
    for end in writable:
        ends.register(end, select.POLLOUT)
    return [end for end, _ in ends.poll(None if wait else 0)]


def enlarge(pipe: int) -> None:
    """Set the pipe's buffer to SIZE bytes, if the system allows that."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, SIZE)


def framed(message: bytes) -> memoryview:
    """The message with its length in front of it, as LENGTH packs it."""
    return memoryview(LENGTH.pack(len(message)) + message)


def send(pipe: int, message: bytes | bytearray | memoryview) -> None:
    for rest in (memoryview(LENGTH.pack(len(message))), memoryview(message)):  # apart, because joining copies
        while rest:
            rest = rest[os.write(pipe, rest) :]  # noqa: PLW2901


def receive(pipe: int) -> bytearray:
    """The next message from a pipe. Raises Lost if the sender has ended."""
    return Incoming(pipe).next()


class Incoming:
    """The messages that arrive through a pipe, also in pieces."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._in_message = False
        self._received = bytearray(LENGTH.size)
        """Buffer for the length of the next message or for the message itself, as `_in_message` says."""
        self._rest = memoryview(self._received)
        """The part of `_received` that has not arrived yet."""

    def next(self) -> bytearray:
        """The next message.

        Raises Lost if the sender has ended, BlockingIOError if a non-blocking pipe does not hold the whole message yet.
        """
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
