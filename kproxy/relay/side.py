"""One of the two transports of a link, and the transport of a client that is refused."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any, Protocol

from kproxy.core.compiled import Side
from kproxy.core.leaks import Address
from kproxy.tls.layer import Layer

_LINGER_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER's value with which closing a socket sends RST."""


class Joined(Protocol):
    """The part of a link's interface that its sides use (`kproxy.relay.link.Link`)."""

    @property
    def high_water(self) -> int:
        """How many bytes may wait for a slow reader before kproxy stops reading from the other side."""

    def connected(self, side: int) -> None:
        """Called when `side` is connected."""

    def received(self, side: int, data: bytes) -> None:
        """Called with bytes of `side` that do not pass unchanged."""

    def full(self, side: int, full: bool) -> None:
        """Called when the write buffer of `side` becomes full, or is not full any more."""

    def ended(self, side: int) -> None:
        """Called when `side` has sent FIN."""

    def lost(self, side: int, error: Exception | None) -> None:
        """Called when the connection of `side` is gone."""


class LinkSide(Side, asyncio.Protocol):
    """One of the two transports of a link. `peer` is the (host, port) of the client or broker at its other end."""

    __slots__ = ("_link", "peer")

    def __init__(self, link: Joined, side: int, passed: list[int]) -> None:
        super().__init__(side, passed)
        self._link = link
        self.peer: Address | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.peer = None if peer is None else (peer[0], peer[1])
        transport.set_write_buffer_limits(high=self._link.high_water)
        raw = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # keep-alives do not pass the relay, so it sends its own
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._link.connected(self.side)

    def unlike(self, data: bytes) -> None:
        self._link.received(self.side, data)

    def eof_received(self) -> bool:
        self._link.ended(self.side)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._link.lost(self.side, exc)

    def pause_writing(self) -> None:
        self._link.full(self.side, True)

    def resume_writing(self) -> None:
        self._link.full(self.side, False)

    def pause(self, paused: bool) -> None:
        """Stops reading from this transport if `paused`, else resumes it."""
        if self.transport is None or self.transport.is_closing():
            return
        with contextlib.suppress(RuntimeError):
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def write_eof(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            with contextlib.suppress(OSError, RuntimeError):
                self.transport.write_eof()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def cut(self) -> None:
        """Ends the connection with FIN, without a close_notify of TLS."""
        if isinstance(self.transport, Layer):
            self.transport.cut()
        else:
            self.close()

    def reset(self) -> None:
        """Ends the connection with RST."""
        if self.transport is not None:
            _reset(self.transport)


class Refused(asyncio.Protocol):
    """Resets a client's connection at once."""

    def connection_made(self, transport: Any) -> None:
        _reset(transport)


def _reset(transport: Any) -> None:
    raw = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, TypeError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
    transport.abort()
