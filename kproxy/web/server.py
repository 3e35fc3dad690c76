"""The terminal interface in browsers: textual-serve starts a command for each browser; a token protects every path.

A browser with the token sees the traffic and uses the interface as the user who started it. So the pages, and the
websocket that carries key presses, require the token.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp_jinja2
from aiohttp import web
from textual_serve.server import Server

TOKEN_BYTES: Final = 32
_TOKEN: Final = "token"  # noqa: S105 (its name in a URL)
_FONT_SIZE: Final = 16
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
    """Serves the interface of `command` to browsers that have `token`: in the first URL, later in a cookie.

    The cookie's name contains the port, because browsers send cookies to every port of a host. The page takes its
    address from the browser, so that tunnels work and no response contains the request's Host header.
    """

    def __init__(self, command: Sequence[str], title: str, token: str, port: int) -> None:
        # `exec` replaces the shell by the command, so that signals reach the command.
        super().__init__(f"exec {shlex.join(command)}", port=port, title=title, templates_path=_PAGES)
        self._token = token.encode()
        self._cookie = f"kproxy-{port}"

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

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._is_token(request.query.get(_TOKEN)):
            rest = {name: value for name, value in request.query.items() if name != _TOKEN}
            # The redirect removes the token from the address bar and the history.
            to_page = web.HTTPSeeOther(request.rel_url.with_query(rest))
            to_page.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="Lax", path="/")
            raise to_page
        if not self._is_token(request.cookies.get(self._cookie)):
            raise web.HTTPForbidden(text="The token is missing or wrong: open the URL that `kproxy web` printed.\n")
        if request.headers.get("Upgrade") is not None and not _same_origin(request):
            raise web.HTTPForbidden(text="The request comes from a page of another origin.\n")
        return await handler(request)

    def _is_token(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)


def _same_origin(request: web.Request) -> bool:
    """Whether the request comes from a page of this server.

    Browsers send a page's origin; any page may open a websocket.
    """
    return urlsplit(request.headers.get("Origin", "")).netloc.lower() == request.host.lower()


async def _confine(_request: web.Request, response: web.StreamResponse) -> None:
    """Adds headers that forbid foreign content, caching, framing and referrers."""
    response.headers.update(_HEADERS)


def serve(command: Sequence[str], title: str, token: str, sockets: Sequence[socket.socket]) -> None:
    """Serves until SIGINT or SIGTERM, then ends the commands that were started for browsers."""
    os.environ.pop("TMUX", None)  # copied text goes to the browser's clipboard, not to tmux
    os.environ["PYTHONUTF8"] = "1"  # browsers show all of Unicode, even if this terminal cannot
    server = GuardedServer(command, title, token, sockets[0].getsockname()[1])
    with contextlib.redirect_stdout(sys.stderr):  # textual-serve prints output of ended commands
        web.run_app(
            server.make_app(),
            sock=list(sockets),
            print=None,
            access_log=None,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
