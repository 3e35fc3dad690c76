"""Small SOCKS5 and HTTP CONNECT proxies, each in a thread, that record their requests."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.support.patience import SECONDS


class _Listening:
    """`names` maps host names that only this proxy resolves to addresses; other hosts are used as they are."""

    scheme = ""

    def __init__(self, names: Mapping[str, str], credentials: tuple[str, str] | None = None) -> None:
        self._names = names
        self._credentials = credentials
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{self.scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked: list[tuple[str, int]] = []
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            self.tunnel(client)

    def tunnel(self, client: socket.socket) -> None:
        raise NotImplementedError

    def reach(self, host: str, port: int) -> socket.socket:
        self.asked.append((host, port))
        upstream = socket.create_connection((self._names.get(host, host), port), SECONDS)
        self._sockets.append(upstream)
        return upstream

    def pump(self, one: socket.socket, other: socket.socket) -> None:
        threading.Thread(target=_pump, args=(one, other), daemon=True).start()
        _pump(other, one)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _exactly(client: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        piece = client.recv(size - len(got))
        if not piece:
            raise ConnectionError
        got += piece
    return got


class Socks5(_Listening):
    scheme = "socks5"

    def tunnel(self, client: socket.socket) -> None:
        methods = _exactly(client, _exactly(client, 2)[1])
        wanted = 0 if self._credentials is None else 2
        if wanted not in methods:
            client.sendall(b"\x05\xff")
            client.close()
            return
        client.sendall(bytes([5, wanted]))
        if wanted:
            user = _exactly(client, _exactly(client, 2)[1]).decode()
            password = _exactly(client, _exactly(client, 1)[0]).decode()
            good = (user, password) == self._credentials
            client.sendall(bytes([1, not good]))
            if not good:
                client.close()
                return
        kind = _exactly(client, 4)[3]
        if kind == 3:
            host = _exactly(client, _exactly(client, 1)[0]).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, _exactly(client, size))
        port = int.from_bytes(_exactly(client, 2), "big")
        try:
            upstream = self.reach(host, port)
        except OSError:
            client.sendall(b"\x05\x05\x00\x01" + bytes(6))
            client.close()
            return
        client.sendall(b"\x05\x00\x00\x01" + bytes(6))
        self.pump(client, upstream)


class Connect(_Listening):
    """An HTTP CONNECT proxy; it sends its answer byte by byte."""

    scheme = "http"

    def tunnel(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked = b""
        while not asked.endswith(b"\r\n\r\n"):
            asked += _exactly(client, 1)
        lines = asked.decode().split("\r\n")
        host, _, port = lines[0].split()[1].rpartition(":")
        if self._credentials is not None:
            token = base64.b64encode(":".join(self._credentials).encode()).decode()
            if f"Proxy-Authorization: Basic {token}" not in lines:
                self._answer(client, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                client.close()
                return
        try:
            upstream = self.reach(host.strip("[]"), int(port))
        except OSError:
            self._answer(client, b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            client.close()
            return
        self._answer(client, b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        self.pump(client, upstream)

    @staticmethod
    def _answer(client: socket.socket, answer: bytes) -> None:
        for byte in answer:
            client.sendall(bytes([byte]))
