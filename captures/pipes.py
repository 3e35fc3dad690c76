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
    """The process at the other end is gone, or could not be started."""


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


def send(pipe: int, message: bytes) -> None:
    rest = framed(message)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def receive(pipe: int) -> bytes:
    """The next message. Raises Lost if the sender is gone."""
    (length,) = LENGTH.unpack(_exactly(pipe, LENGTH.size))
    return _exactly(pipe, length)


def _exactly(pipe: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.read(pipe, min(size - len(data), SIZE))
        if not piece:
            raise Lost
        data += piece
    return bytes(data)
