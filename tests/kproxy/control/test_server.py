"""The HTTP interface on a socket: what it listens on, and what hostile or broken clients get."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from kproxy.control import bodies, server
from kproxy.control.server import MOST_CONNECTIONS, ControlServer
from tests.kproxy.control.support import TOKEN, Caller, check
from tests.support.patience import SECONDS

pytestmark = pytest.mark.timeout(60)

LOST = b"lost: api == Produce => drop response"
GOOD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"


@dataclass
class Served:
    """A server, and what it said to the user."""

    server: ControlServer
    call: Caller
    warnings: list[str]

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def raw(self, *pieces: bytes) -> bytes:
        """All that the server answers to these bytes, until it ends the connection."""
        reader, writer = await self.connect()
        answer = b""
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            answer = await asyncio.wait_for(reader.read(), SECONDS)
        except ConnectionError:
            pass
        finally:
            writer.close()
        return answer

    async def ask(self, line: str, body: bytes = b"", headers: str = GOOD) -> tuple[int, dict[str, object]]:
        """(status, body) of a call by HTTP; `line` is method and path."""
        length = f"Content-Length: {len(body)}\r\n"
        answer = await self.raw(f"{line} HTTP/1.1\r\n{headers}{length}\r\n".encode() + body)
        return self.read(line, answer)

    def read(self, line: str, answer: bytes) -> tuple[int, dict[str, object]]:
        head, _, content = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(one.split(": ", 1) for one in lines)
        assert headers["Content-Type"] == "application/json"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Connection"] == "close"
        assert headers["Server"] == "kproxy"
        status, found = int(first.split()[1]), json.loads(content)
        method, path = line.split()
        check(method, path, status, found, headers)
        return status, found

    async def still_works(self) -> None:
        assert await self.ask("GET /rules") == (200, {"rules": []})
        assert not self.warnings


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    call, warnings = Caller(), list[str]()
    commands = {"status": call._command, "flush": call._command}
    made = ControlServer("127.0.0.1", 0, TOKEN, call.rules, commands, lambda *said: warnings.append(said[1]))
    await made.start()
    yield Served(made, call, warnings)
    await made.close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has seconds in production has tenths here."""
    monkeypatch.setattr(server, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(server, "CONNECTION_SECONDS", 0.4)


async def test_a_rule_comes_by_http(served: Served) -> None:
    status, added = await served.ask("POST /rules", LOST)
    assert status == 201
    assert await served.ask("GET /rules") == (200, added)
    assert (await served.ask("DELETE /rules/lost"))[0] == 200
    await served.still_works()


async def test_every_error_has_one_form(served: Served) -> None:
    seen = {
        (await served.ask(line, body, headers))[0]
        for line, body, headers in (
            ("GET /nowhere", b"", GOOD),
            ("PUT /rules", b"", GOOD),
            ("GET /rules", b"", "Host: localhost\r\n"),
            ("GET /rules", b"", GOOD.replace("localhost", "evil.example")),
            ("POST /rules", b"api == Fetch => dorp", GOOD),
            ("POST /rules", b"<xml/>", f"{GOOD}Content-Type: text/xml\r\n"),
        )
    }
    assert seen == {401, 404, 405, 415, 421, 422}
    await served.still_works()


@pytest.mark.parametrize("name", ["l%6Fst", "lost?a=b", "lost?", "%6c%6f%73%74"])
async def test_names_are_written_in_any_way_of_urls(served: Served, name: str) -> None:
    await served.ask("POST /rules", LOST)
    answer = await served.raw(f"GET /rules/{name} HTTP/1.1\r\n{GOOD}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("name", ["lost%2Fx", "..%2f..%2fetc%2fpasswd", "%00", "%ff", "%", "%zz", "lost%0d%0aX:1"])
async def test_odd_names_are_names_of_no_rule(served: Served, name: str) -> None:
    await served.ask("POST /rules", LOST)
    answer = await served.raw(f"GET /rules/{name} HTTP/1.1\r\n{GOOD}\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 "))
    assert b"\r\nX:1" not in answer


# --- hostile bodies --------------------------------------------------------------------------------------------------


async def test_a_body_that_says_it_is_huge_is_not_waited_for(served: Served) -> None:
    answer = await served.raw(f"POST /rules HTTP/1.1\r\n{GOOD}Content-Length: {1 << 40}\r\n\r\n".encode())
    assert served.read("POST /rules", answer)[0] == 413
    await served.still_works()


async def test_a_chunked_body_is_read_to_the_limit_only(served: Served) -> None:
    chunk = b"1000\r\n" + b"a" * 0x1000 + b"\r\n"
    start = f"POST /rules HTTP/1.1\r\n{GOOD}Transfer-Encoding: chunked\r\n\r\n".encode()
    answer = await served.raw(start, chunk * (2 * bodies.LARGEST // 0x1000), b"0\r\n\r\n")
    assert served.read("POST /rules", answer)[0] == 413
    await served.still_works()


async def test_a_body_as_long_as_allowed_is_read(served: Served) -> None:
    status, found = await served.ask("POST /rules", b" " * (bodies.LARGEST - len(LOST)) + LOST)
    assert status == 201, found
    assert (await served.ask("POST /rules", b" " * (bodies.LARGEST + 1)))[0] == 413


async def test_a_compressed_body_is_not_expanded(served: Served) -> None:
    bomb = gzip.compress(b"a" * (10 << 20))
    assert len(bomb) < bodies.LARGEST
    status, found = await served.ask("POST /rules", bomb, f"{GOOD}Content-Encoding: gzip\r\n")
    assert (status, found) == (422, {"error": "the body is not UTF-8 text"})
    await served.still_works()


@pytest.mark.usefixtures("hurried")
async def test_a_body_that_stops_is_given_up(served: Served) -> None:
    answer = await served.raw(f"POST /rules HTTP/1.1\r\n{GOOD}Content-Length: 100\r\n\r\napi".encode())
    assert served.read("POST /rules", answer)[0] == 408
    await served.still_works()


# --- hostile connections ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("sent", [b"", b"G", b"GET /rules HTTP/1.1\r\n", b"GET /rules HTTP/1.1\r\nHost: loc"])
async def test_a_request_that_stops_is_given_up(served: Served, sent: bytes) -> None:
    assert await served.raw(sent) == b""
    await served.still_works()


@pytest.mark.usefixtures("hurried")
async def test_a_request_that_trickles_is_given_up(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(b"GET /rules HTTP/1.1\r\n")

    async def trickle() -> None:
        while True:
            writer.write(b"X: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    try:
        assert not (await asyncio.wait_for(reader.read(), SECONDS)).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        pass
    finally:
        trickling.cancel()
        writer.close()
    await served.still_works()


async def test_a_connection_carries_one_request(served: Served) -> None:
    one = f"GET /rules HTTP/1.1\r\n{GOOD}\r\n".encode()
    assert (await served.raw(one * 3)).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    "sent",
    [b"\0" * 100, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost\r\n\r\n", b"POST /rules HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
     b"POST /rules HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     b"GET /" + b"a" * 100_000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
     b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000],
)  # fmt: skip
async def test_what_is_not_http_is_refused(served: Served, capfd: pytest.CaptureFixture[str], sent: bytes) -> None:
    answer = await served.raw(sent + b"\r\n\r\n")
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer[:100]
    if answer:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"Content-Type: application/json" in head
        assert set(json.loads(body)) == {"error"}
    await served.still_works()
    assert capfd.readouterr() == ("", ""), "callers must not fill a log"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.005)


async def test_connections_are_bounded(served: Served) -> None:
    idle = [await served.connect() for _ in range(MOST_CONNECTIONS)]
    await until(lambda: len(served.server._connections) == MOST_CONNECTIONS)
    try:
        for _ in range(3):
            answer = await served.raw(f"GET /rules HTTP/1.1\r\n{GOOD}\r\n".encode())
            assert not answer or answer.startswith(b"HTTP/1.1 503 ")
        assert len(served.server._connections) == MOST_CONNECTIONS
    finally:
        for _, writer in idle:
            writer.close()
    await until(lambda: not served.server._connections)
    await served.still_works()


@pytest.mark.usefixtures("hurried")
async def test_silent_connections_make_room(served: Served) -> None:
    idle = [await served.connect() for _ in range(MOST_CONNECTIONS)]
    await until(lambda: len(served.server._connections) == MOST_CONNECTIONS)
    await until(lambda: not served.server._connections)
    for _, writer in idle:
        writer.close()
    await served.still_works()


async def test_the_end_of_the_server_ends_connections(served: Served) -> None:
    reader, writer = await served.connect()
    await until(lambda: len(served.server._connections) == 1)
    await served.server.close()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", served.port)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), SECONDS) == b""
    writer.close()


async def test_a_mistake_of_ours_is_told_and_does_not_end_the_server(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("by us")

    monkeypatch.setattr(served.call.rules, "all", fail)
    answer = await served.raw(f"GET /rules HTTP/1.1\r\n{GOOD}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert served.warnings == ["an error in kproxy stopped GET /rules: ZeroDivisionError: by us"]


# --- where it listens ------------------------------------------------------------------------------------------------


def made(host: str, port: int = 0) -> ControlServer:
    call = Caller()
    return ControlServer(host, port, TOKEN, call.rules, {}, lambda *_: None)


@pytest.mark.parametrize(
    ("host", "url", "local"),
    [("127.0.0.1", "127.0.0.1", True), ("localhost", "localhost", True), ("127.0.0.2", "127.0.0.2", True),
     ("0.0.0.0", "127.0.0.1", False), ("*", "127.0.0.1", False)],
)  # fmt: skip
async def test_it_listens_where_it_is_told(host: str, url: str, local: bool) -> None:
    listening = made(host)
    addresses = [ipaddress.ip_address(one.getsockname()[0]) for one in listening._sockets]
    assert {address.is_loopback for address in addresses} == {local}
    assert listening.url.startswith(f"http://{url}:")
    assert (listening._api._hosts is not None) == local
    await listening.close()


async def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        made("127.0.0.1", taken.getsockname()[1])
