"""Serves `kproxy.control.api` over HTTP, with aiohttp, in the relay's event loop.

Each connection carries one request: clients never meet a kept connection that the server is about to close, and one
timer bounds the time of a request, whatever its client does.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
import traceback
from collections.abc import Callable
from typing import Final, cast

from aiohttp import web

from kproxy.control import bodies
from kproxy.control.actions import Rules
from kproxy.control.api import Api, Call, Commands, Reply, TooLongError
from kproxy.relay import ports

MOST_CONNECTIONS: Final = 32
BODY_SECONDS: Final = 5.0
"""Longest time for the body of a request to arrive."""
CONNECTION_SECONDS: Final = 10.0
"""Longest time of a connection, from its opening to the end of its response."""
LINGER_SECONDS: Final = 1.0
"""Time in which the rest of a refused body is read, so that its client gets the response."""
LONGEST_LINE: Final = 8190
MOST_HEADERS: Final = 64

_HEADERS: Final = {"Server": "kproxy", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_LOOPBACK: Final = frozenset({"127.0.0.1", "[::1]", "localhost"})

Warn = Callable[[str, str, str], None]
"""A function (topic, line, details) that shows the user the line once for each topic."""


class ControlServer:
    """Listens at `host`:`port` until `close`; port 0 takes a free one. `url` is where clients reach it."""

    def __init__(self, host: str, port: int, token: str, rules: Rules, commands: Commands, warn: Warn) -> None:
        """Binds the port; `start` serves it. Raises OSError."""
        self._sockets = ports.bind(host, port)
        self.url = f"http://{ports.reached(host, self._sockets)}"
        local = all(_is_loopback(one) for one in self._sockets)
        named = f"[{host}]" if ":" in host else host
        self._api = Api(rules, commands, token, _LOOPBACK | {named.lower()} if local else None)
        self._warn = warn
        self._connections: set[Bounded] = set()
        self._servers: list[asyncio.Server] = []
        self._http = web.Server(self._answer)
        self._silent = logging.getLogger("kproxy.control")
        self._silent.disabled = True  # callers could fill a disk with lines about malformed requests

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._sockets:
            self._servers.append(await loop.create_server(self._connected, sock=listener))

    async def close(self) -> None:
        """Ends listening and all connections."""
        for server in self._servers:
            server.close()
        for listener in self._sockets[len(self._servers) :]:
            listener.close()
        for connection in tuple(self._connections):
            connection.abort()
        await self._http.shutdown(0)

    def _connected(self) -> asyncio.Protocol:
        if len(self._connections) >= MOST_CONNECTIONS:
            return _Full()
        inner = _Handler(
            self._http,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # what web.Server passes on for no log
            logger=self._silent,
            keepalive_timeout=CONNECTION_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            max_headers=MOST_HEADERS,
            read_bufsize=bodies.LARGEST,
            auto_decompress=False,
        )
        return Bounded(inner, self._connections)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): request.headers[name] for name in request.headers}  # the first header with each name
        try:
            reply = await self._api.answer(Call(request.method, request.path, headers, lambda: _body(request)))
        except Exception as error:  # noqa: BLE001 (a mistake of ours must not end the relay)
            text = f"an error in kproxy stopped {request.method} {request.path}: {type(error).__name__}: {error}"
            self._warn("control-failed", text, traceback.format_exc())
            reply = Reply(500, {"error": text})
        return _response(reply)


def _response(reply: Reply) -> web.Response:
    response = web.Response(
        status=reply.status,
        body=json.dumps(reply.body).encode() + b"\n",
        content_type="application/json",
        headers={**_HEADERS, **reply.headers},
    )
    response.force_close()
    return response


class _Handler(web.RequestHandler):
    """A connection as aiohttp handles it; bytes that are not HTTP get an error in the same form as all other errors."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        del request, exc
        return _response(
            Reply(status, {"error": f"the request is not valid HTTP: {' '.join((message or '?').split())}"})
        )


async def _body(request: web.BaseRequest) -> bytes:
    """The body of a request. Raises TooLongError, TimeoutError."""
    if (request.content_length or 0) > bodies.LARGEST:
        raise TooLongError
    found = bytearray()
    async with asyncio.timeout(BODY_SECONDS):
        async for piece in request.content.iter_any():
            found += piece
            if len(found) > bodies.LARGEST:
                raise TooLongError
    return bytes(found)


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


class Bounded(asyncio.Protocol):
    """Passes a connection on to aiohttp and ends it after CONNECTION_SECONDS; while open, it is in `open_ones`."""

    def __init__(self, inner: asyncio.Protocol, open_ones: set[Bounded]) -> None:
        self._inner = inner
        self._open = open_ones
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        open_ones.add(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._deadline = asyncio.get_running_loop().call_later(CONNECTION_SECONDS, self.abort)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class _Full(asyncio.Protocol):
    """Answers that there are too many connections."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        refused = cast("asyncio.Transport", transport)
        refused.write(_FULL)
        refused.close()
