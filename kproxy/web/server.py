"""The terminal interface in browsers: textual-serve starts a command for each, a token guards every path of it.

Whoever has the token sees the traffic and works the interface as who started it, so that nothing is answered without:
neither pages nor the websocket over which a browser sends keys.
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
"""For who looks to be told that it is over."""

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
    """Serves what `command` paints to who has `token`: in the URL once, in a cookie from then on.

    The cookie bears the port in its name, because browsers give cookies to every port of a host. The page finds its
    own address in the browser, so that tunnels work and nothing of a request's Host header is answered.
    """

    def __init__(self, command: Sequence[str], title: str, token: str, port: int) -> None:
        # without `exec` a shell would stay between us and the command, and be what is ended
        super().__init__(f"exec {shlex.join(command)}", port=port, title=title, templates_path=_PAGES)
        self._token = token.encode()
        self._cookie = f"kproxy-{port}"

    async def make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        app.on_response_prepare.append(_confine)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Say nothing: the command has told the URL."""

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
            # the token leaves the address bar, the history and what is shared of them
            to_page = web.HTTPSeeOther(request.rel_url.with_query(rest))
            to_page.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="Lax", path="/")
            raise to_page
        if not self._is_token(request.cookies.get(self._cookie)):
            raise web.HTTPForbidden(text="The token is missing or wrong: open the URL that `kproxy web` printed.\n")
        if request.headers.get("Upgrade") is not None and not _same_origin(request):
            raise web.HTTPForbidden(text="Asked by a page of another origin.\n")
        return await handler(request)

    def _is_token(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)


def _same_origin(request: web.Request) -> bool:
    """Whether a page of ours asks: browsers let any page open a websocket, and send the origin with it."""
    return urlsplit(request.headers.get("Origin", "")).netloc.lower() == request.host.lower()


async def _confine(_request: web.Request, response: web.StreamResponse) -> None:
    """Nothing is loaded from elsewhere, kept, framed, or told to others."""
    response.headers.update(_HEADERS)


def serve(command: Sequence[str], title: str, token: str, sockets: Sequence[socket.socket]) -> None:
    """Serve until SIGINT or SIGTERM; what was started for browsers ends with it."""
    os.environ.pop("TMUX", None)  # what is copied is for the browser's side
    os.environ["PYTHONUTF8"] = "1"  # a browser shows all of Unicode, whatever our own terminal does
    server = GuardedServer(command, title, token, sockets[0].getsockname()[1])
    with contextlib.redirect_stdout(sys.stderr):  # what a command said when it ended
        web.run_app(
            server.make_app(),
            sock=list(sockets),
            print=None,
            access_log=None,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
