"""A schema registry over HTTP with those endpoints that Confluent's serialisers and kproxy use."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import NAMESPACE_OID, uuid5

JSON = "application/vnd.schemaregistry.v1+json"


@dataclass
class State:
    """The registered schemas, and settings of the registry's behaviour."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    """Response bodies by path, for Apicurio's own API and for malformed answers."""
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    credentials: str | None = None
    """The Authorization header that the registry requires."""
    delay: float = 0.0
    redirect: str | None = None

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        content = {name: schema[name] for name in ("schema", "schemaType", "references") if schema.get(name)}
        number = next((key for key, one in self.schemas.items() if one == content), len(self.schemas) + 1)
        self.schemas[number] = content
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, number: int, query: dict[str, list[str]], subject: str | None = None) -> dict[str, Any]:
        """A schema as a registry returns it: Protobuf as .proto text unless the query asks for the serialised form."""
        schema = dict(self.schemas[number])
        if schema.get("schemaType") == "PROTOBUF" and query.get("format") != ["serialized"]:
            schema["schema"] = 'syntax = "proto3"; // as text'
        schema.update(id=number, guid=guid(number))
        if subject is not None:
            schema.update(subject=subject, version=self.subjects[subject].index(number) + 1)
        return schema


def guid(number: int) -> str:
    return str(uuid5(NAMESPACE_OID, str(number)))


class Handler(BaseHTTPRequestHandler):
    state: State
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._note()
        if self._hindered():
            return
        split = urlsplit(self.path)
        query = parse_qs(split.query)
        if split.path in self.state.raw:
            self._send(200, self.state.raw[split.path])
            return
        match [unquote(part) for part in split.path.strip("/").split("/")]:
            case ["schemas", "ids", number] if int(number) in self.state.schemas:
                self._json(self.state.answer(int(number), query))
            case ["schemas", "guids", wanted] if found := [n for n in self.state.schemas if guid(n) == wanted]:
                self._json(self.state.answer(found[0], query))
            case ["subjects", subject, "versions", version] if subject in self.state.subjects:
                versions = self.state.subjects[subject]
                self._json(self.state.answer(versions[-1 if version == "latest" else int(version) - 1], query, subject))
            case _:
                self._json({"error_code": 40403, "message": "Schema not found"}, 404)

    def do_POST(self) -> None:
        self._note()
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        subject = parts[1]
        number = self.state.register(subject, schema)
        self._json(self.state.answer(number, {}, subject))

    def _note(self) -> None:
        self.state.asked.append(self.path)
        self.state.headers.append(dict(self.headers))

    def _hindered(self) -> bool:
        time.sleep(self.state.delay)
        if self.state.redirect is not None:
            self.send_response(302)
            self.send_header("Location", self.state.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return True
        if self.state.credentials is not None and self.headers.get("Authorization") != self.state.credentials:
            self._json({"error_code": 401, "message": "Unauthorized"}, 401)
            return True
        return False

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", JSON)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (as the library calls it)
        del format, args


@dataclass
class Running:
    url: str
    state: State


@contextmanager
def registry() -> Iterator[Running]:
    """A running registry without schemas."""
    state = State()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"state": state}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Running(f"http://127.0.0.1:{server.server_address[1]}", state)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
