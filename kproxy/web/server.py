"""The terminal interface in browsers: textual-serve starts a command for each browser; tokens protect every path.

A browser with a token sees the traffic and uses the interface as the user who started it. So the pages, and the
websocket that carries key presses, require one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp_jinja2
from aiohttp import web
from textual_serve.server import Server

TOKEN_BYTES: Final = 32
_TOKEN: Final = "token"  # noqa: S105 (its name in a URL)
_FONT_SIZE: Final = 16
MOST_TABS: Final = 64
"""Maximum number of interfaces at the same time; each is a process."""
SHUTDOWN_SECONDS: Final = 3.0
"""Seconds that connected browsers have to learn that the server ends."""

_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_PAGES: Final = Path(__file__).parent / "pages"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class GuardedServer(Server):
    """Serves an interface to browsers that have its token: in the first URL, later in a cookie.

    The cookie's name contains the port, because browsers send cookies to every port of a host. The page takes its
    address from the browser, so that tunnels work and no response contains the request's Host header.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]], title: str, port: int) -> None:
        """`commands` maps each token to the command line of the interface that it opens."""
        # `exec` replaces the shell by the command, so that signals reach the command.
        lines = {token.encode(): f"exec {shlex.join(command)}" for token, command in commands.items()}
        super().__init__(next(iter(lines.values())), port=port, title=title, templates_path=_PAGES)
        self._servers = {token: Server(line, port=port, title=title) for token, line in lines.items()}
        self._cookie = f"kproxy-{port}"
        self._tabs = 0

    async def make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        app.on_response_prepare.append(_confine)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Prints nothing: `kproxy web` has printed the URL already."""

    @aiohttp_jinja2.template("app_index.html")
    async def handle_index(self, request: web.Request) -> dict[str, Any]:
        size = request.query.get("fontsize", "")
        return {
            "font_size": int(size) if size.isascii() and size.isdigit() else _FONT_SIZE,
            "title": self.title,
        }

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        if self._tabs >= MOST_TABS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_TABS} tabs are open already.\n")
        if not web.WebSocketResponse().can_prepare(request):
            raise web.HTTPBadRequest(text="This path takes websockets only.\n")
        self._tabs += 1
        try:
            return await self._server(request).handle_websocket(request)
        finally:
            self._tabs -= 1

    async def handle_download(self, request: web.Request) -> web.StreamResponse:
        return await self._server(request).handle_download(request)

    def _server(self, request: web.Request) -> Server:
        """The server of the interface that the request's token opens."""
        token = self._token(request.cookies.get(self._cookie))
        assert token is not None  # noqa: S101 (`_guard` has refused requests without one)
        return self._servers[token]

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        token = self._token(request.query.get(_TOKEN))
        if token is not None:
            rest = {name: value for name, value in request.query.items() if name != _TOKEN}
            # The redirect removes the token from the address bar and the history.
            to_page = web.HTTPSeeOther(request.rel_url.with_query(rest))
            to_page.set_cookie(self._cookie, token.decode(), httponly=True, samesite="Lax", path="/")
            raise to_page
        if self._token(request.cookies.get(self._cookie)) is None:
            raise web.HTTPForbidden(text="The token is missing or wrong: open the URL that `kproxy web` printed.\n")
        if request.headers.get("Upgrade") is not None and not _same_origin(request):
            raise web.HTTPForbidden(text="The request comes from a page of another origin.\n")
        return await handler(request)

    def _token(self, given: str | None) -> bytes | None:
        """The token of this server that equals `given`; None if none does."""
        if given is None:
            return None
        data = given.encode("utf-8", "surrogatepass")
        # Compares all tokens, so that the time taken reveals nothing about them.
        found = [token for token in self._servers if secrets.compare_digest(data, token)]
        return found[0] if found else None


def _same_origin(request: web.Request) -> bool:
    """Whether the request comes from a page of this server.

    Browsers send a page's origin; any page may open a websocket.
    """
    return urlsplit(request.headers.get("Origin", "")).netloc.lower() == request.host.lower()


async def _confine(_request: web.Request, response: web.StreamResponse) -> None:
    """Adds headers that forbid foreign content, caching, framing and referrers."""
    response.headers.update(_HEADERS)


def serve(commands: Mapping[str, Sequence[str]], title: str, sockets: Sequence[socket.socket]) -> None:
    """Serves until SIGINT or SIGTERM, then ends the commands that were started for browsers.

    `commands` maps each token to the command line of the interface that it opens.
    """
    os.environ.pop("TMUX", None)  # copied text goes to the browser's clipboard, not to tmux
    os.environ["PYTHONUTF8"] = "1"  # browsers show all of Unicode, even if this terminal cannot
    server = GuardedServer(commands, title, sockets[0].getsockname()[1])
    with contextlib.redirect_stdout(sys.stderr):  # textual-serve prints output of ended commands
        web.run_app(
            server.make_app(),
            sock=list(sockets),
            print=None,
            access_log=None,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
