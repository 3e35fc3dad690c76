"""A served recording survives its clients and says what it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.framing import request_frame
from kproxy.decoders.message import decode_response
from kproxy.decoders.schema import api_keys, definitions
from kproxy.decoders.writer import write
from kproxy.sending.broker import Access, Broker, SendError
from kproxy.serving.server import LONGEST, Server
from tests.kproxy.sending.test_round_trip import FINDINGS, taken

FIND_COORDINATOR = 10
NAME = "group.rebalance_cause"
Play = Callable[[Server, int], Awaitable[Any]]


def served(play: Play, otherwise: str = "error", upstream: tuple[str, int] | None = None) -> tuple[Any, list[str]]:
    """What `play(server, port)` returns while the recording is served, and what the server said."""
    said: list[str] = []

    async def run() -> Any:
        server = Server(answers, otherwise, upstream, None, said.append)
        port = await server.listen(0, sorted(answers.nodes))
        try:
            return await play(server, port)
        finally:
            await server.close()

    with closing(read(FINDINGS / f"{NAME}.pcap.xz")) as reader:
        answers, _ = taken(reader)
        return asyncio.run(run()), said


async def ask(port: int, key: int, version: int, values: dict[str, Any], seconds: float = 5) -> dict[str, Any]:
    message = definitions().request(key, version)
    assert message is not None
    frame = request_frame(definitions(), (key, version), 9, "someone", write(message, version, values))
    broker = Broker("127.0.0.1", port, Access(seconds=seconds))
    try:
        got = await broker.ask(frame, replies=True)
    finally:
        await broker.close()
    assert got.frame is not None
    decoded = decode_response(got.frame, key, version, definitions())
    assert decoded.body is not None
    assert not decoded.problems
    return dict(decoded.body)


def test_metadata_names_the_servers_own_ports() -> None:
    async def play(server: Server, port: int) -> None:
        body = await ask(port, api_keys.METADATA, 13, {"topics": [], "allowAutoTopicCreation": False})
        (broker,) = body["brokers"]
        assert (broker["host"], broker["port"]) == ("127.0.0.1", server.ports[broker["nodeId"]])
        assert await ask(broker["port"], FIND_COORDINATOR, 2, {"key": "growing", "keyType": 0})

    assert served(play)[1] == []


def test_what_was_never_recorded_gets_an_error_and_is_said_once() -> None:
    async def play(_: Server, port: int) -> None:
        for _again in range(3):
            body = await ask(port, api_keys.METADATA, 5, {"topics": [{"name": "other"}]})
            assert [one["errorCode"] for one in body["topics"]] == [-1]

    assert served(play)[1] == ["a request of Metadata v5 was never recorded"]


def test_or_the_end_of_the_connection() -> None:
    async def play(_: Server, port: int) -> None:
        with pytest.raises(SendError, match="ended the connection"):
            await ask(port, api_keys.METADATA, 5, {"topics": [{"name": "other"}]})

    served(play, "disconnect")


def test_or_the_answer_of_an_upstream() -> None:
    async def play(_: Server, port: int) -> None:
        with pytest.raises(SendError, match="ended the connection"):
            await ask(port, api_keys.METADATA, 5, {"topics": [{"name": "other"}]})

    served(play, upstream=("127.0.0.1", 1))

    async def in_front(_: Server, port: int) -> dict[str, Any]:
        with closing(read(FINDINGS / "meta.heavy.pcap.xz")) as reader:
            answers, _recorded = taken(reader)
            front = Server(answers, "disconnect", ("127.0.0.1", port), None, lambda _: None)
            try:
                return await ask(await front.listen(0, []), FIND_COORDINATOR, 2, {"key": "growing", "keyType": 0})
            finally:
                await front.close()

    assert served(in_front)[0]["nodeId"] == 1


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_api_versions_are_those_of_the_recorded_broker_in_every_version(version: int) -> None:
    async def play(_: Server, port: int) -> dict[int, tuple[int, int]]:
        body = await ask(port, api_keys.API_VERSIONS, version, {})
        return {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in body["apiKeys"]}

    assert served(play)[0][api_keys.METADATA] == (0, 13)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff" + bytes(20),
        b"\xff\xff\xff\xff" + bytes(20),
        bytes(4),
        (LONGEST + 1).to_bytes(4, "big"),
        b"\x00\x00\x00\x0c" + b"\xff" * 12,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        (12).to_bytes(4, "big") + b"\x00\x03\x00\x0d" + bytes(8),
    ],
)
def test_one_clients_garbage_ends_its_connection_only(data: bytes) -> None:
    async def play(server: Server, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()
        assert await ask(port, FIND_COORDINATOR, 2, {"key": "growing", "keyType": 0})
        assert server._held == 0

    served(play)


def test_clients_that_stay_silent_hold_nobody_up_and_a_close_ends_them() -> None:
    async def play(_server: Server, port: int) -> None:
        ends = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for _reader, writer in ends:
            writer.write(b"\0\0\1\0")
        assert await ask(port, FIND_COORDINATOR, 2, {"key": "growing", "keyType": 0})
        for _reader, writer in ends:
            writer.close()

    served(play)
