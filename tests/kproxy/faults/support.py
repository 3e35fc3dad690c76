"""Connections with rules, as stories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.core.acting import ActedConnection
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema import Definitions
from kproxy.decoders.writer import write
from kproxy.faults.engine import Engine
from kproxy.faults.parsing import parse
from tests.kproxy.core.frames import DEFINITIONS, framed, response
from tests.support.playbook import Playbook

PRODUCE, FETCH, METADATA, HEARTBEAT, COMMIT = 0, 1, 3, 12, 8


def asking(
    api_key: int,
    version: int,
    correlation_id: int,
    body: Mapping[str, Any],
    client_id: str = "app",
    known: Definitions = DEFINITIONS,
) -> bytes:
    """A request with these values in its body."""
    header_version = known.request_header_version(api_key, version)
    header, message = known.message("RequestHeader", header_version), known.request(api_key, version)
    assert header is not None
    assert message is not None
    head = {"requestApiKey": api_key, "requestApiVersion": version, "correlationId": correlation_id}
    values = head | ({"clientId": client_id} if header_version else {})
    return framed(write(header, header_version, values) + write(message, version, body))


def producing(correlation_id: int, *partitions: int, acks: int = -1, topic: str = "t", client_id: str = "app") -> bytes:
    data = [{"index": index, "records": b"records"} for index in partitions or (0,)]
    body = {"acks": acks, "timeoutMs": 1000, "topicData": [{"name": topic, "partitionData": data}]}
    return asking(PRODUCE, 9, correlation_id, body, client_id)


def produced(correlation_id: int, *partitions: int, topic: str = "t", error: int = 0) -> bytes:
    answers = [
        {"index": index, "errorCode": error, "baseOffset": -1 if error else 7, "logStartOffset": -1 if error else 0}
        for index in partitions or (0,)
    ]
    return response(PRODUCE, 9, correlation_id, {"responses": [{"name": topic, "partitionResponses": answers}]})


def beating(correlation_id: int) -> bytes:
    return asking(HEARTBEAT, 4, correlation_id, {"groupId": "g", "memberId": "m"})


def beaten(correlation_id: int, error: int = 0, throttle: int = 0) -> bytes:
    return response(HEARTBEAT, 4, correlation_id, {"errorCode": error, "throttleTimeMs": throttle})


class Tale:
    """A connection under rules; `said` are the warnings, `addresses` those of brokers that kproxy has seen."""

    def __init__(
        self, *rules: str, seed: int = 1, addresses: Mapping[int, tuple[str, int]] | None = None, **others: Any
    ) -> None:
        self.said: list[str] = []
        self.engine = Engine(
            [parse(text, f"rule-{number}") for number, text in enumerate(rules, 1)],
            DEFINITIONS,
            lambda _, line, __: self.said.append(line),
            lambda: self.story.now,
            seed,
            (addresses or {}).get,
        )
        self.story = Playbook(actors=self.engine, **others)
        self.engine.opened(self.acted, "b:2")

    @property
    def acted(self) -> ActedConnection:
        assert isinstance(self.story.connection, ActedConnection)
        return self.story.connection

    @property
    def hits(self) -> list[int]:
        return [active.counter.hits for active in self.engine.active]

    @property
    def comments(self) -> list[tuple[int, str]]:
        """(side, comment) of what was recorded with one."""
        return [(side, comment) for side, _, comment in self.story.recorded]


def answered(frame: bytes, api_key: int, version: int) -> Decoded:
    decoded = decode_response(frame, api_key, version, DEFINITIONS)
    assert decoded.problems == []
    assert decoded.body is not None
    return decoded


def asked(frame: bytes, known: Definitions = DEFINITIONS) -> Decoded:
    decoded = decode_request(frame, known)
    assert decoded.problems == []
    assert decoded.body is not None
    return decoded


def frames(data: bytes) -> list[bytes]:
    """The frames that these bytes are made of."""
    found = []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        found.append(data[:size])
        data = data[size:]
    return found
