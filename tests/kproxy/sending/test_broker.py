"""Whatever a broker does, a request ends with an answer or with a reason, within its time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from kproxy.decoders.framing import request_frame
from kproxy.decoders.schema import definitions
from kproxy.sending.broker import LONGEST, Access, Broker, SendError

FRAME = request_frame(definitions(), (18, 0), 7, "test", b"")
Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(data: bytes, *, ends: bool = False) -> Play:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(FRAME))
        writer.write(data)
        if ends:
            writer.close()
        await reader.read()

    return play


async def asked(play: Play, times: int = 1) -> list[bytes | str | None]:
    ended: list[asyncio.Event] = []

    async def played(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = asyncio.Event()
        ended.append(mine)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await play(reader, writer)
        writer.close()
        mine.set()

    server = await asyncio.start_server(played, "127.0.0.1", 0)
    broker = Broker("127.0.0.1", server.sockets[0].getsockname()[1], Access(seconds=0.5))
    found: list[bytes | str | None] = []
    try:
        for _ in range(times):
            try:
                found.append((await broker.ask(FRAME, replies=True)).frame)
            except SendError as error:
                found.append(str(error).partition(" ")[2])
    finally:
        await broker.close()
        server.close()
        for one in ended:
            await one.wait()
    return found


GOOD = bytes.fromhex("00000008 00000007 00000000".replace(" ", ""))


@pytest.mark.parametrize(
    ("play", "why"),
    [
        (answer(b""), "did not answer within 0.5 s"),
        (answer(GOOD[:9]), "did not answer within 0.5 s"),
        (answer(b"", ends=True), "ended the connection without a response"),
        (answer(GOOD[:9], ends=True), "ended the connection without a response"),
        (answer(bytes.fromhex("00000004 00000008".replace(" ", ""))), "correlation id 8, which matches no request"),
        (answer((LONGEST + 1).to_bytes(4, "big")), "longer than 256 MiB"),
        (answer(b"\xff\xff\xff\xff"), "too short"),
        (answer(b"\0\0\0\0"), "too short"),
        (answer(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "longer than 256 MiB"),
    ],
)
def test_a_broker_that_does_not_answer_is_named_and_asked_again_on_a_new_connection(play: Play, why: str) -> None:
    first, second = asyncio.run(asked(play, 2))
    assert isinstance(first, str)
    assert why in first
    assert first == second


def test_an_answer_comes_in_pieces() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readexactly(len(FRAME)):
            for byte in GOOD:
                writer.write(bytes((byte,)))
                await writer.drain()

    assert asyncio.run(asked(play, 3)) == [GOOD] * 3


def test_nobody_listens() -> None:
    async def run() -> None:
        await Broker("127.0.0.1", 1, Access(seconds=1)).ask(FRAME, replies=True)

    with pytest.raises(SendError, match=r"127\.0\.0\.1:1 refused the connection"):
        asyncio.run(run())
