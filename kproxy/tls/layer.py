"""TLS over one connection: between a transport with encrypted bytes and a protocol with plaintext bytes.

asyncio's own TLS supports no half-closed connections, and hides the first bytes of a peer that speaks another protocol.
Here a direction ends with close_notify or FIN, whichever comes first, and the other direction goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, cast

from kproxy.tls.contexts import Session

HANDSHAKE_SECONDS = 30.0
FIRST_BYTES = 8
_CONTENT_TYPES = {b"\x14", b"\x15", b"\x16", b"\x17"}
"""Possible first bytes of a TLS record (RFC 8446 section 5.1)."""
_PIECE = 1 << 16
"""Number of bytes that are encrypted at once, so that OpenSSL's buffers stay small and are reused."""
_RECORD = 16384
"""Maximum number of plaintext bytes in a TLS record, and so in one read."""

Address = tuple[str, int]
MakeSession = Callable[[ssl.MemoryBIO, ssl.MemoryBIO, asyncio.Transport], Session]
"""A function (incoming bytes, outgoing bytes, outer transport) that returns the TLS session."""


def _address(transport: asyncio.BaseTransport, which: str) -> Address | None:
    found = transport.get_extra_info(which)
    return None if not found else (found[0], found[1])


class HandshakeError(Exception):
    """A TLS handshake failed. `error` is None if the peer closed the connection, or with `late` missed the deadline.

    `first` holds the peer's first bytes.
    """

    def __init__(self, error: ssl.SSLError | None, first: bytes, *, late: bool = False) -> None:
        super().__init__("TLS handshake")
        self.error = error
        self.first = first
        self.late = late


class Layer(asyncio.Protocol):
    """The protocol of the outer transport, and the transport of the inner protocol.

    As a transport it has the methods that kproxy.relay.side and asyncio's streams use. The inner protocol's
    `connection_made` is called after the handshake. If the handshake fails, the inner protocol is never called and
    `ready` raises HandshakeError. Later failures reach it as the ssl.SSLError of `connection_lost`.
    """

    def __init__(self, inner: asyncio.Protocol, make: MakeSession) -> None:
        """Needs a running event loop. `make` makes the TLS session when the outer transport is connected.

        If `make` raises, the connection ends and the future `ready` raises the same exception.
        """
        loop = asyncio.get_running_loop()
        self._inner = inner
        self._make = make
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session: Session | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._first = b""
        self._open = False
        self._peer_ended = False
        self._ended = False
        self._error: ssl.SSLError | None = None
        self.outer: asyncio.Transport | None = None
        self.peer: Address | None = None
        self.own: Address | None = None
        self.ready: asyncio.Future[None] = loop.create_future()

    # --- the outer transport's protocol ------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.outer = transport
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self._too_late)
        self.peer, self.own = _address(transport, "peername"), _address(transport, "sockname")
        try:
            self._session = self._make(self._incoming, self._outgoing, transport)
        except Exception as error:  # noqa: BLE001 (whoever awaits `ready` gets it)
            self._fail(error)
            return
        self._shake_hands()

    def data_received(self, data: bytes) -> None:
        if self._session is None or self._error is not None or self._peer_ended or self.ready.cancelled():
            return  # nobody reads these bytes any more
        if len(self._first) < FIRST_BYTES:
            self._first += data[: FIRST_BYTES - len(self._first)]
        self._incoming.write(data)
        if len(self._first) < FIRST_BYTES and self._first[:1] not in _CONTENT_TYPES:
            return  # FIRST_BYTES are needed to recognise another protocol
        if self._open or self._shake_hands():
            self._read(self._session)

    def eof_received(self) -> bool:
        if self._open:
            self._end_of_peer()
        else:
            self._fail(HandshakeError(None, self._first))
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._open:
            self._inner.connection_lost(self._error or exc)
        else:
            self._fail(HandshakeError(None, self._first))
        self.outer = None

    def pause_writing(self) -> None:
        if self._open:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._open:
            self._inner.resume_writing()

    # --- the handshake -----------------------------------------------------------------------------------------------

    def _shake_hands(self) -> bool:
        """Continues the handshake; returns True when that completes it."""
        assert self._session is not None  # noqa: S101 (callers have one)
        if self.ready.done():
            return False
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            self._fail(HandshakeError(error, self._first))
            return False
        self._flush()
        self._stop_timer()
        self._open = True
        self.ready.set_result(None)
        self._inner.connection_made(cast("asyncio.Transport", self))
        return True

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _too_late(self) -> None:
        self._fail(HandshakeError(None, self._first, late=True))

    def _fail(self, error: Exception) -> None:
        """Ends the connection after a failed handshake, and sends the peer the TLS alert for it if there is one."""
        self._stop_timer()
        if not self.ready.done():
            self.ready.set_exception(error)
        self._flush()
        if self.outer is not None:
            self.outer.close()

    # --- bytes -------------------------------------------------------------------------------------------------------

    def _read(self, session: Session) -> None:
        pieces: list[bytes] = []
        ended = False
        try:
            while piece := session.read(_RECORD):
                pieces.append(piece)
            ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            ended = True
        except ssl.SSLError as error:
            self._error = error
        self._flush()
        if pieces:
            self._inner.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if ended:
            self._end_of_peer()
        elif self._error is not None and self.outer is not None:
            self.outer.close()

    def _end_of_peer(self) -> None:
        if not self._peer_ended:
            self._peer_ended = True
            self._inner.eof_received()

    def _flush(self) -> None:
        if self._outgoing.pending and self.outer is not None and not self.outer.is_closing():
            self.outer.write(self._outgoing.read())

    # --- the inner protocol's transport ------------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        if self._session is None or self._ended or not data:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[self._session.write(view[:_PIECE]) :]
                self._flush()
        except ssl.SSLError as error:
            self._error = self._error or error
            self.abort()

    def write_eof(self) -> None:
        """Ends the outgoing direction; bytes from the peer still arrive."""
        self._notify()
        if self.outer is not None and not self.outer.is_closing():
            with contextlib.suppress(OSError, RuntimeError):
                self.outer.write_eof()

    def _notify(self) -> None:
        """Sends close_notify, unless that was done already."""
        if self._open and not self._ended and self._session is not None:
            self._ended = True
            with contextlib.suppress(ssl.SSLError):  # unwrap() raises until the peer has sent its close_notify
                self._session.unwrap()
            self._flush()

    def cut(self) -> None:
        """Closes the transport by FIN without a close_notify, as somebody who truncates the stream would."""
        self._ended = True
        self.close()

    def close(self) -> None:
        self._notify()
        self._stop_timer()
        if self.outer is not None:
            self.outer.close()

    def abort(self) -> None:
        self._stop_timer()
        if self.outer is not None:
            self.outer.abort()

    def is_closing(self) -> bool:
        return self.outer is None or self.outer.is_closing()

    def pause_reading(self) -> None:
        if self.outer is not None:
            self.outer.pause_reading()

    def resume_reading(self) -> None:
        if self.outer is not None:
            self.outer.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self.outer is not None:
            self.outer.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The outer transport's information.

        `name` may also be "tls" (the session in words) or "server_name" (the SNI).
        """
        if name == "tls":
            return default if self._session is None else self._session.described
        if name == "server_name":
            return default if self._session is None else self._session.asked
        return default if self.outer is None else self.outer.get_extra_info(name, default)
