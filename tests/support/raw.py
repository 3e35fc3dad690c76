"""A client that sends exactly the given requests, written by Kafka's definitions, over one socket."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from kproxy.decoders import schema, writer
from kproxy.decoders.message import decode_response
from tests.support.patience import SECONDS


class Asked(NamedTuple):
    """A request that was sent."""

    key: int
    version: int
    correlation_id: int


class RawClient:
    """A connection to "host:port", from the address `source` if given.

    Raises OSError if it cannot be opened, or ends early.
    """

    def __init__(self, address: str, *, timeout: float = SECONDS, source: str = "") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout, (source, 0) if source else None)
        self._definitions = schema.definitions()
        self._asked = 0

    def ask(self, api: str, version: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request; the response's values. Raises AssertionError if the response cannot be decoded."""
        return self.receive(self.send(api, version, values))

    def send(self, api: str, version: int, values: Mapping[str, Any]) -> Asked:
        """Send a request without waiting for its response, which `receive` reads."""
        key = schema.apis.by_name(api)
        assert key is not None
        message = self._definitions.request(key, version)
        header_version = self._definitions.request_header_version(key, version)
        header = self._definitions.message("RequestHeader", header_version)
        assert message is not None
        assert header is not None
        self._asked += 1
        named = {
            "requestApiKey": key,
            "requestApiVersion": version,
            "correlationId": self._asked,
            "clientId": "raw",
        }
        data = writer.write(header, header_version, named) + writer.write(message, version, values)
        self._socket.sendall(struct.pack(">i", len(data)) + data)
        return Asked(key, version, self._asked)

    def receive(self, asked: Asked) -> dict[str, Any]:
        """Read the next response, which must be the one to this request; its values."""
        size = self._read(4)
        data = size + self._read(int.from_bytes(size, "big"))
        decoded = decode_response(data, asked.key, asked.version, self._definitions)
        assert decoded.body is not None, decoded.problems
        assert decoded.header["correlationId"] == asked.correlation_id
        return dict(decoded.body)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data

    def await_leader(self, topic: str, version: int = 0) -> None:
        """Ask for a topic's metadata, which creates the topic, until its first partition has a leader."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            (found,) = self.ask("Metadata", version, {"topics": [{"name": topic}]})["topics"]
            if found["errorCode"] == 0 and any(one["leaderId"] >= 0 for one in found["partitions"]):
                return
            time.sleep(0.1)
        raise AssertionError(f"{topic} has no leader")

    def produce(self, topic: str, records: bytes, version: int = 0) -> int:
        """Produce a records field to a topic's first partition; returns the base offset."""
        partition = {"index": 0, "records": records}
        body = {"acks": 1, "timeoutMs": 10_000, "topicData": [{"name": topic, "partitionData": [partition]}]}
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self.ask("Produce", version, body)
            (told,) = answer["responses"][0]["partitionResponses"]
            if told["errorCode"] == 0:
                return int(told["baseOffset"])
            assert time.monotonic() < deadline, told
            time.sleep(0.1)

    def fetch(self, topic: str, offset: int, most: int = 1 << 20, version: int = 0) -> dict[str, Any]:
        """Fetch up to `most` bytes from an offset of a topic's first partition; that partition in the response."""
        partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": most}
        body = {
            "replicaId": -1,
            "maxWaitMs": 1000,
            "minBytes": 1,
            "topics": [{"topic": topic, "partitions": [partition]}],
        }
        (told,) = self.ask("Fetch", version, body)["responses"][0]["partitions"]
        assert told["errorCode"] == 0, told
        return dict(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
