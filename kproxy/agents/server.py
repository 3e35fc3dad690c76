"""Serves `Answers` by the Model Context Protocol: on standard input and output, or over HTTP with a token."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final

import anyio.to_thread
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from starlette.types import ASGIApp, Receive, Scope, Send

import kproxy
from kproxy.agents.answers import Answers
from kproxy.agents.rules import Rules
from kproxy.captures.errors import CaptureError

TOOLS: Final = (
    "summary", "findings", "exchanges", "exchange", "records", "stats", "view", "journey", "diff", "schema",
)  # fmt: skip
ACTING: Final = ("faults", "add_fault", "remove_fault")
"""The tools of `Rules`, which only a server with rules has."""
INSTRUCTIONS: Final = (
    "Answers questions about captured Kafka traffic. Begin with `summary` and `findings`; findings name the exchanges "
    "that prove them. Lists come in pages: pass `next` as `cursor`. Filters (`where`) are kproxy's display filters: "
    '`api == Produce and topic == orders`, `error`, `latency > 500ms`, `group == billing`, `client.id ~ "^app"`, '
    "`response.body.errorCode == NOT_COORDINATOR`. Secrets are withheld."
)


def server(answers: Answers, rules: Rules | None = None) -> MCPServer[Any]:
    """A server whose tools are the methods TOOLS of `answers` and, if there are `rules`, their methods ACTING."""
    made: MCPServer[Any] = MCPServer(
        "kproxy", instructions=INSTRUCTIONS, version=kproxy.__version__, log_level="WARNING"
    )
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tools: list[tuple[object, str, ToolAnnotations]] = [(answers, name, reading) for name in TOOLS]
    for name in ACTING if rules is not None else ():
        acting = ToolAnnotations(read_only_hint=name == "faults", destructive_hint=name == "add_fault")
        tools.append((rules, name, acting))
    for of, name, hints in tools:
        made.add_tool(_tool(getattr(of, name)), name=name, annotations=hints, structured_output=False)
    return made


def _tool(method: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """Wraps a method as a tool that runs in a thread, so that a long answer does not block other questions.

    Errors in the arguments or the captures become the tool's error.
    """

    @wraps(method)
    async def tool(*args: Any, **arguments: Any) -> dict[str, Any]:
        try:
            return await anyio.to_thread.run_sync(partial(method, *args, **arguments))
        except (ValueError, CaptureError, OSError) as error:
            raise ToolError(str(error)) from None

    return tool


class Guarded:
    """Passes HTTP requests with the header `Authorization: Bearer TOKEN` on to `app`, and refuses all others."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._wanted):
                await send(
                    {"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]}
                )
                await send({"type": "http.response.body", "body": b"a token is needed: Authorization: Bearer TOKEN\n"})
                return
        await self._app(scope, receive, send)


def serve_http(answers: Answers, rules: Rules | None, sockets: list[socket.socket], token: str) -> None:
    """Serves on these listening sockets, at the path /mcp, until SIGINT or SIGTERM."""
    app = Guarded(server(answers, rules).streamable_http_app(json_response=True, stateless_http=True), token)
    config = uvicorn.Config(app, log_level="warning", lifespan="on")
    uvicorn.Server(config).run(sockets)


def serve_stdio(answers: Answers, rules: Rules | None) -> None:
    """Serves on standard input and output, until standard input ends."""
    server(answers, rules).run("stdio")
