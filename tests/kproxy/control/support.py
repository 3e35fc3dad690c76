"""Calls of the HTTP interface without HTTP; each reply is checked against the OpenAPI description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from kproxy.control.actions import Rules
from kproxy.control.api import ROUTES, Api, Call, Reply, description
from kproxy.relay.clusters import Relays
from kproxy.runs.settings import Cluster, Settings

TOKEN = "a-token-of-the-tests"
LOCAL = frozenset({"localhost", "127.0.0.1"})
DESCRIPTION = description()


def resolved(found: dict[str, Any]) -> dict[str, Any]:
    """What a $ref of the description stands for."""
    while "$ref" in found:
        target: Any = DESCRIPTION
        for part in found["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        found = target
    return found


def operation(method: str, path: str) -> dict[str, Any] | None:
    """The described operation of a call; None if its path or method is unknown."""
    for route in ROUTES:
        if route.method == method and route.match(path):
            found: dict[str, Any] = DESCRIPTION["paths"][route.path][method.lower()]
            return found
    return None


def check(method: str, path: str, status: int, body: Any, headers: Any) -> None:
    """Raises AssertionError or ValidationError if the description does not allow this reply."""
    called = operation(method, path)
    if called is None or status == 421:
        schema: dict[str, Any] = {"$ref": "#/components/schemas/Error"}
    else:
        response = resolved(called["responses"][str(status)])
        schema = response["content"]["application/json"]["schema"]
        assert {*response.get("headers", {})} <= {*headers}
    # the description as a schema, of which only $ref counts: so $refs inside find their targets
    Draft202012Validator({"components": DESCRIPTION["components"], **schema}).validate(body)


class Caller:
    """Calls an Api of relays that do not listen; `called` are the commands of the control socket that it has called."""

    def __init__(self, clusters: int = 1) -> None:
        more = [Cluster(f"c{number}", (("localhost", 1),), "localhost", 1) for number in range(1, clusters)]
        settings = Settings((("localhost", 1),), name="c0" if more else "", more=tuple(more))
        self.relays = Relays(settings, None, lambda _: None)
        self.rules = Rules([relay.acting for relay in self.relays.all])
        self.called: list[str] = []
        self.recording: dict[str, Any] = {"recorder": {"packets": 0}}
        self.api = Api(self.rules, {"status": self._command, "flush": self._command}, TOKEN, LOCAL)

    def _command(self, request: dict[str, Any]) -> dict[str, Any]:
        self.called.append(request["command"])
        if request["command"] == "flush":
            return self.recording
        return {**self.relays.status(), "recording": None, "messages": []}

    async def __call__(
        self,
        method: str,
        path: str,
        body: str | bytes | Exception = b"",
        kind: str | None = None,
        read: Callable[[], None] = lambda: None,
        **headers: str | None,
    ) -> Reply:
        """`headers` replace those of a good call; None leaves one out. `read` is called when the body is read."""

        async def reading() -> bytes:
            read()
            if isinstance(body, Exception):
                raise body
            return body.encode() if isinstance(body, str) else body

        good = {"host": "localhost:8474", "authorization": f"Bearer {TOKEN}", "content-type": kind}
        sent = {name: value for name, value in {**good, **headers}.items() if value is not None}
        reply = await self.api.answer(Call(method, path, sent, reading))
        check(method, path, reply.status, reply.body, reply.headers)
        return reply

    async def names(self) -> list[str]:
        return [rule["name"] for rule in (await self("GET", "/rules")).body["rules"]]
