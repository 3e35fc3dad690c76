"""One end of a TLS connection over a blocking socket, which can close its direction and go on reading."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct

BLOCK = 1 << 16


class TlsPeer:
    """The constructor does the handshake, and closes the socket if that fails. `bytewise` sends bytes one by one."""

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        *,
        name: str | None = None,
        server: bool = False,
        bytewise: bool = False,
    ) -> None:
        self.socket = connection
        self._bytewise = bytewise
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self._incoming, self._outgoing, server_side=server, server_hostname=name)
        try:
            self._shake_hands()
        except BaseException:
            connection.close()
            raise

    def _shake_hands(self) -> None:
        while True:
            try:
                self.session.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                if not self._fill():
                    raise EOFError("ended during the handshake") from None
            except ssl.SSLError:
                self.flush()
                raise
            else:
                self.flush()
                return

    def flush(self) -> None:
        data = self._outgoing.read()
        if self._bytewise:
            for byte in data:
                self.socket.sendall(bytes([byte]))
        elif data:
            self.socket.sendall(data)

    def _fill(self) -> bool:
        data = self.socket.recv(BLOCK)
        self._incoming.write(data)
        return bool(data)

    def send(self, data: bytes) -> None:
        for start in range(0, len(data), BLOCK):
            self.session.write(data[start : start + BLOCK])
            self.flush()

    def receive(self, most: int = BLOCK) -> bytes:
        """Up to `most` bytes; b"" if the other end has closed its direction by close_notify.

        Raises EOFError if it closed without close_notify.
        """
        while True:
            try:
                return self.session.read(most)
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                self.flush()
                if not self._fill():
                    raise EOFError("ended without close_notify") from None

    def exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size and (piece := self.receive(min(size - len(got), BLOCK))):
            got += piece
        return bytes(got)

    def end(self) -> None:
        """Send close_notify and FIN."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.session.unwrap()
        self.flush()
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def client_context(ca: object | None, certificate: tuple[object, object] | None = None) -> ssl.SSLContext:
    """Context of a client that trusts the CAs of a file, or any certificate if `ca` is None."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(str(ca))
    if certificate is not None:
        context.load_cert_chain(*map(str, certificate))
    return context


def server_context(certificate: tuple[object, object], clients: object | None = None) -> ssl.SSLContext:
    """Context of a server; it requires client certificates if their CA is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, certificate))
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(str(clients))
    return context
