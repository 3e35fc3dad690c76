"""Builds indexes: frames by kproxy's message writer in one file, rows by the index writer."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kproxy.captures.index.summary import Summariser
from kproxy.captures.index.writer import IndexWriter
from kproxy.decoders import schema, writer
from kproxy.decoders.exchange import Connection, Exchange, Frame, Status
from kproxy.decoders.problems import Problem
from kproxy.decoders.stream import Side

START = 1_700_000_000_000_000_000
"""Time of the first request, ns since the epoch: 2023-11-14T22:13:20Z."""
STEP = 10_000_000


class FileBytes:
    """A Source of bytes in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def read(self, start: int, end: int) -> bytes:
        return bytes(self.data[start:end])


@dataclass
class IndexBuilder:
    """Writes exchanges into `directory`/index, their bytes into `directory`/capture.bin."""

    directory: Path
    state: str = "indexing"
    source: FileBytes = field(default_factory=FileBytes)

    def __post_init__(self) -> None:
        self.definitions = schema.definitions()
        self.capture = self.directory / "capture.bin"
        self.capture.write_bytes(b"")
        self.path = self.directory / "index"
        self.writer = IndexWriter(self.path, [str(self.capture)], state=self.state)
        self.summaries = Summariser(self.source, self.definitions)
        self.connections: dict[int, Connection] = {}
        self.numbered = 0
        self.time = START

    def connection(self, number: int) -> Connection:
        if number not in self.connections:
            self.connections[number] = Connection(number, f"10.0.0.{number}:5{number:04d}", "10.0.1.2:9092", self.time)
        return self.connections[number]

    def frame(self, side: Side, data: bytes) -> Frame:
        """Frame a message's bytes (header and body) and append the frame to the capture."""
        framed = struct.pack(">i", len(data)) + data
        at = len(self.source.data)
        self.source.data += framed
        with self.capture.open("ab") as file:
            file.write(framed)
        self.time += STEP
        return Frame(side, at, len(data), self.time, self.time, at, [(at, len(framed))])

    def request(self, key: int, version: int, values: dict[str, Any], *, client: str | None, correlation: int) -> Frame:
        header_version = self.definitions.request_header_version(key, version)
        header = {
            "requestApiKey": key,
            "requestApiVersion": version,
            "correlationId": correlation,
            "clientId": client,
        }
        return self.frame(Side.CLIENT, self._written("RequestHeader", header_version, header) + self._body(
            self.definitions.request(key, version), version, values))  # fmt: skip

    def response(self, key: int, version: int, values: dict[str, Any], *, correlation: int) -> Frame:
        header = self._written(
            "ResponseHeader",
            self.definitions.response_header_version(key, version),
            {"correlationId": correlation},
        )
        return self.frame(Side.BROKER, header + self._body(self.definitions.response(key, version), version, values))

    def exchange(
        self,
        api: str,
        version: int,
        asked: dict[str, Any],
        answered: dict[str, Any] | None = None,
        *,
        client: str | None = "orders-svc",
        connection: int = 1,
        status: Status | None = None,
        raw_response: bytes | None = None,
        problems: list[Problem] | None = None,
    ) -> Exchange:
        """Add an exchange; without an answer its response is due."""
        key = schema.apis.by_name(api)
        assert key is not None
        self.numbered += 1
        made = Exchange(self.numbered, self.connection(connection), key, version, self.numbered, client)
        made.request = self.request(key, version, asked, client=client, correlation=self.numbered)
        if answered is not None or raw_response is not None:
            self.answer(made, answered, raw_response=raw_response)
        if status is not None:
            made.status = status
        made.problems = problems or []
        self.put(made)
        return made

    def answer(self, exchange: Exchange, answered: dict[str, Any] | None, *, raw_response: bytes | None = None) -> None:
        """Add a response to an exchange; `put` writes the row."""
        assert exchange.api_key is not None
        assert exchange.api_version is not None
        if raw_response is not None:
            exchange.response = self.frame(Side.BROKER, struct.pack(">i", exchange.correlation_id or 0) + raw_response)
        else:
            exchange.response = self.response(
                exchange.api_key, exchange.api_version, answered or {}, correlation=exchange.correlation_id or 0
            )
        exchange.status = Status.OK

    def put(self, exchange: Exchange) -> None:
        self.writer.put(exchange, self.summaries.of(exchange))

    def flush(self, **meta: Any) -> None:
        self.writer.flush()
        self.writer.write_meta(**meta)

    def finish(self, **meta: Any) -> Path:
        """Complete the index; its path."""
        self.flush(state="complete", **meta)
        self.writer.close()
        return self.path

    def _written(self, name: str, version: int, values: dict[str, Any]) -> bytes:
        message = self.definitions.message(name, version)
        assert message is not None
        return writer.write(message, version, values)

    @staticmethod
    def _body(message: schema.Message | None, version: int, values: dict[str, Any]) -> bytes:
        assert message is not None
        return writer.write(message, version, values)


def heartbeat(builder: IndexBuilder, group: str = "billing", error: int = 0, **options: Any) -> Exchange:
    return builder.exchange(
        "Heartbeat",
        3,
        {"groupId": group, "generationId": 4, "memberId": "m-1", "groupInstanceId": None},
        {"throttleTimeMs": 0, "errorCode": error},
        **options,
    )


def metadata(builder: IndexBuilder, names: list[str], **options: Any) -> Exchange:
    topics = [{"errorCode": 0, "name": name, "isInternal": False, "partitions": []} for name in names]
    return builder.exchange(
        "Metadata",
        5,
        {"topics": [{"name": name} for name in names], "allowAutoTopicCreation": True},
        {
            "throttleTimeMs": 0,
            "brokers": [{"nodeId": 2, "host": "10.0.1.2", "port": 9092, "rack": None}],
            "clusterId": "c",
            "controllerId": 2,
            "topics": topics,
        },
        **options,
    )


def sample(directory: Path, rows: int = 60) -> Path:
    """A small index with every kind of row."""
    builder = IndexBuilder(directory)
    metadata(builder, ["orders.v1", "payments"])
    heartbeat(builder, error=27, client="billing-1", connection=2)
    builder.exchange("Heartbeat", 3, {"groupId": "late", "generationId": 1, "memberId": "m", "groupInstanceId": None})
    builder.exchange(
        "EndTxn",
        1,
        {"transactionalId": "pay-7", "producerId": 4001, "producerEpoch": 2, "committed": True},
        {"throttleTimeMs": 12, "errorCode": 47},
    )
    metadata(builder, ["evil\x1b[31m\u202etopic", "漢字"], client="tab\there")
    builder.exchange("Heartbeat", 3, {"groupId": "cut", "generationId": 1, "memberId": "m", "groupInstanceId": None},
                     raw_response=b"\x00\x00")  # fmt: skip
    while builder.numbered < rows:
        heartbeat(builder, group=f"group-{builder.numbered}", connection=builder.numbered % 3 + 1)
    return builder.finish(health={"lost": 0, "gaps": 1, "undecoded": 0})
