"""The HTTP interface as a function from calls to replies, without sockets; ROUTES maps calls to actions.

`openapi.json` describes the same table for programs; a test compares both.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from kproxy.control import bodies
from kproxy.control.actions import ACTIONS, Answer, Asked, Reason, RefusedError, Rules

Commands = Mapping[str, Callable[[Answer], Answer]]
"""Commands of the control socket by name (`kproxy.runs.registry.Commands`)."""

STATUS = {Reason.INVALID: 422, Reason.MISSING: 404, Reason.CONFLICT: 409}
"""HTTP status of a refused action."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, with {name} for a rule's name, and the action or command that they stand for."""

    method: str
    path: str
    action: str
    takes_rules: bool = False
    status: int = 200

    def match(self, path: str) -> re.Match[str] | None:
        return re.fullmatch(self.path.replace("{name}", "(?P<name>[^/]+)"), path)


DESCRIBE = "describe"
ROUTES: Sequence[Route] = (
    Route("GET", "/rules", "list"),
    Route("POST", "/rules", "add", takes_rules=True, status=201),
    Route("GET", "/rules/{name}", "get"),
    Route("DELETE", "/rules/{name}", "remove"),
    Route("POST", "/rules/{name}/pause", "pause"),
    Route("POST", "/rules/{name}/resume", "resume"),
    Route("POST", "/rules/{name}/release", "release"),
    Route("POST", "/rules/{name}/reset", "reset"),
    Route("POST", "/reset", "reset"),
    Route("POST", "/check", "check", takes_rules=True),
    Route("POST", "/flush", "flush"),
    Route("GET", "/status", "status"),
    Route("GET", "/openapi.json", DESCRIBE),
)
COMMANDS = ("flush", "status")
"""Actions that are commands of the control socket."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request: `path` without its escapes, names of `headers` in lower case; `body` reads the body.

    `body` returns at most `bodies.LARGEST` bytes, and raises TooLongError or TimeoutError.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Reply:
    """A response with a JSON object as body; the body of an error is {"error": text}."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


class TooLongError(Exception):
    """A body has more than `bodies.LARGEST` bytes."""


def description() -> dict[str, Any]:
    """The OpenAPI description of the interface."""
    found: dict[str, Any] = json.loads(resources.files(__package__).joinpath("openapi.json").read_bytes())
    return found


class Api:
    """Answers calls that carry the token.

    `hosts` are the allowed names in the Host header, in lower case; None allows all. They stop DNS rebinding: if the
    name of a web page resolves to 127.0.0.1, the browser still sends that name in the Host header.
    """

    def __init__(self, rules: Rules, commands: Commands, token: str, hosts: frozenset[str] | None) -> None:
        self._rules = rules
        self._commands = commands
        self._token = token.encode()
        self._hosts = hosts
        self._reading = asyncio.Lock()

    async def answer(self, call: Call) -> Reply:
        """The reply to a call. Raises an exception only for a bug in kproxy."""
        return self._refused(call) or await self._routed(call)

    def _refused(self, call: Call) -> Reply | None:
        host = _without_port(call.headers.get("host", "")).lower()
        if self._hosts is not None and host not in self._hosts:
            return Reply(421, {"error": f"the Host header must name {' or '.join(sorted(self._hosts))}, not {host!r}"})
        scheme, _, given = call.headers.get("authorization", "").partition(" ")
        right = secrets.compare_digest(given.strip().encode("utf-8", "surrogatepass"), self._token)
        if scheme.lower() == "bearer" and right:
            return None
        text = "the token is missing or wrong: send the header Authorization: Bearer TOKEN"
        return Reply(401, {"error": text}, {"WWW-Authenticate": 'Bearer realm="kproxy"'})

    async def _routed(self, call: Call) -> Reply:
        there = [(route, found) for route in ROUTES if (found := route.match(call.path)) is not None]
        if not there:
            return Reply(404, {"error": f"there is no {call.path}; /openapi.json lists the paths"})
        for route, found in there:
            if route.method == call.method:
                return await self._carried_out(route, found.groupdict().get("name"), call)
        allowed = ", ".join(route.method for route, _ in there)
        return Reply(405, {"error": f"{call.path} takes {allowed}, not {call.method}"}, {"Allow": allowed})

    async def _carried_out(self, route: Route, name: str | None, call: Call) -> Reply:
        if route.action == DESCRIBE:
            return Reply(route.status, description())
        if route.action in COMMANDS:
            answer = self._commands[route.action]({"command": route.action})
            return Reply(409 if "error" in answer else route.status, answer)
        try:
            if not route.takes_rules:
                return Reply(route.status, ACTIONS[route.action](self._rules, Asked(name)))
            form = bodies.FORMS.get(_media_type(call.headers.get("content-type", "text/plain")))
            if form is None:
                return Reply(415, {"error": f"the body must be one of {', '.join(bodies.FORMS)}"})
            body = await call.body()
            # Reading rules takes up to a second, so a thread does it; one at a time, because threads share the time.
            async with self._reading:
                rules = await asyncio.to_thread(bodies.rules, body, form, self._rules.known)
            return Reply(route.status, ACTIONS[route.action](self._rules, Asked(name, rules)))
        except RefusedError as error:
            return Reply(STATUS[error.reason], {"error": str(error)})
        except TooLongError:
            return Reply(413, {"error": f"the body is longer than {bodies.LARGEST} bytes"})
        except TimeoutError:
            return Reply(408, {"error": "the body did not arrive in time"})


def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _without_port(host: str) -> str:
    """The host of a Host header, with the brackets of an IPv6 address."""
    return re.sub(r":\d*$", "", host.strip())
