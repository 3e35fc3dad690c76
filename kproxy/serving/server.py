"""Listens for clients in place of the recorded brokers and answers from the recording."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.writer import WriteError, write
from kproxy.faults import synthesis
from kproxy.sending.broker import Access, Broker, SendError
from kproxy.serving.addresses import readdressed
from kproxy.serving.answers import Answers, Entry

LONGEST: Final = 100 << 20
"""Maximum size in bytes of a request: the default of brokers (socket.request.max.bytes)."""
LONGEST_TOGETHER: Final = 512 << 20
"""Maximum size in bytes of all requests that are read at the same time; a client that sends more is disconnected."""
MOST_CONNECTIONS: Final = 1000
"""Maximum number of connections at the same time; further ones are closed at once."""
IDLE_SECONDS: Final = 600.0
"""Seconds after which a connection without a request is closed, as brokers do (connections.max.idle.ms)."""
_UNKNOWN_SERVER_ERROR: Final = -1
_SIZE: Final = 4
_HEAD: Final = 8
"""Size in bytes of API key, version and correlation id, without which a request cannot be answered."""


@dataclass(slots=True)
class Server:
    """Serves a recording's answers.

    `otherwise` is the reaction to a request that was never recorded: "error" or "disconnect". With `upstream`, a
    broker's (host, port), such a request is forwarded there instead. `speed` divides the recorded latency of answers;
    None: no delay. `unknown(text)` is called for each kind of request that was never recorded.
    """

    answers: Answers
    otherwise: str
    upstream: tuple[str, int] | None
    speed: float | None
    unknown: Callable[[str], None]
    host: str = "127.0.0.1"
    ports: dict[int, int] = field(default_factory=dict)
    """The port of each node id."""
    missed: Counter[str] = field(default_factory=Counter)
    """Number of requests that were never recorded, by API and version."""
    _servers: list[asyncio.Server] = field(default_factory=list)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    _bootstrap: int = 0
    _held: int = 0

    @property
    def definitions(self) -> Definitions:
        return self.answers.definitions

    async def listen(self, port: int, nodes: Sequence[int]) -> int:
        """Listen on a bootstrap port and on a port for each node; returns the bootstrap port.

        The bootstrap port is `port`, or any free one for 0. Node N gets `port` + 1 + N if `port` is given and that is
        free, else any free port. Raises OSError.
        """
        self._bootstrap = await self._listen(port)
        for node in nodes:
            wanted = self._bootstrap + 1 + node
            try:
                self.ports[node] = await self._listen(wanted if port and 0 < wanted < 1 << 16 else 0, node)
            except OSError:
                self.ports[node] = await self._listen(0, node)
        return self._bootstrap

    async def _listen(self, port: int, node: int | None = None) -> int:
        brokers = frozenset[str]() if node is None else self.answers.brokers(node)
        server = await asyncio.start_server(partial(self._accept, brokers), self.host, port)
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(
        self, brokers: frozenset[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 (asyncio calls this in a task)
        if len(self._connections) >= MOST_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        behind = Broker(*self.upstream, Access()) if self.upstream is not None else None
        try:
            await self._serve(brokers, reader, writer, behind)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            if behind is not None:
                await behind.close()

    async def _serve(
        self,
        brokers: frozenset[str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        behind: Broker | None,
    ) -> None:
        """Answer requests one after another, as a broker does, until the client or `_answer` ends the connection.

        `brokers` are the addresses of the recorded broker that the connection stands for; empty: any broker.
        """
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                size = int.from_bytes(await reader.readexactly(_SIZE), "big", signed=True)
            if not _HEAD <= size <= LONGEST or self._held + size > LONGEST_TOGETHER:
                return
            self._held += size
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    frame = size.to_bytes(_SIZE, "big") + await reader.readexactly(size)
                answer = await self._answer(brokers, frame, behind)
            finally:
                self._held -= size
            if answer is None:
                return
            writer.write(answer)
            async with asyncio.timeout(IDLE_SECONDS):
                await writer.drain()

    async def _answer(self, brokers: frozenset[str], frame: bytes, behind: Broker | None) -> bytes | None:
        """The response to a request, b"" for none; None to end the connection."""
        decoded = decode_request(frame, self.definitions)
        key, version = int.from_bytes(frame[4:6], "big", signed=True), int.from_bytes(frame[6:8], "big", signed=True)
        if decoded.body is None or decoded.message is None:
            self._miss(key, version)
            return None
        if key == api_keys.PRODUCE and decoded.body.get("acks") == 0:
            return b""
        entry = self.answers.find(key, version, decoded, brokers)
        if entry is not None:
            return await self._recorded(entry, frame, key, version)
        if key == api_keys.API_VERSIONS and (made := self._versions(frame, version)):
            return made
        self._miss(key, version)
        if behind is not None:
            with contextlib.suppress(SendError):
                return (await behind.ask(frame, replies=True)).frame
            return None
        return self._error(frame, decoded, key, version) if self.otherwise == "error" else None

    async def _recorded(self, entry: Entry, frame: bytes, key: int, version: int) -> bytes | None:
        if entry.response is None:
            if not entry.ends:
                await asyncio.sleep(IDLE_SECONDS)
            return None
        if self.speed is not None:
            await asyncio.sleep(entry.latency / self.speed)
        data = bytes(entry.response.data(self.answers.source))
        return self._readdressed(data[:_SIZE] + frame[8:12] + data[_HEAD:], key, version)

    def _readdressed(self, data: bytes, key: int, version: int) -> bytes:
        """A recorded response with kproxy's addresses; one that cannot be read stays as it was recorded."""
        decoded = decode_response(data, key, version, self.definitions)
        if decoded.body is None or decoded.message is None or decoded.problems:
            return data
        new = readdressed(decoded.message.name, decoded.body, self._address)
        if new == decoded.body:
            return data
        try:
            content = data[_SIZE : decoded.body_start] + write(decoded.message, decoded.version, new)
        except WriteError:
            return data
        return len(content).to_bytes(_SIZE, "big") + content

    def _address(self, node: int) -> tuple[str, int]:
        return self.host, self.ports.get(node, self._bootstrap)

    def _versions(self, frame: bytes, version: int) -> bytes | None:
        """An ApiVersions response in a version that was not recorded; None if kproxy does not know this version."""
        message = self.definitions.response(api_keys.API_VERSIONS, version)
        if message is None:
            return None
        names = ("apiKey", "minVersion", "maxVersion")
        offered = [{name: one[name] for name in names} for one in self.answers.versions()]
        correlation_id = int.from_bytes(frame[8:12], "big", signed=True)
        made = message, version, {"errorCode": 0, "apiKeys": offered}
        return synthesis.frame(api_keys.API_VERSIONS, version, correlation_id, made, self.definitions)

    def _error(self, frame: bytes, decoded: Decoded, key: int, version: int) -> bytes | None:
        """An answer with UNKNOWN_SERVER_ERROR; None if answers of this API have no error code."""
        fault = synthesis.Fault(_UNKNOWN_SERVER_ERROR, (), lambda _: None)
        correlation_id = int.from_bytes(frame[8:12], "big", signed=True)
        try:
            made = synthesis.answer(decoded, key, version, fault, self.definitions)
            return synthesis.frame(key, version, correlation_id, made, self.definitions)
        except (synthesis.NoPlaceError, WriteError):
            return None

    def _miss(self, key: int, version: int) -> None:
        name = f"{self.definitions.shown_api_name(key)} v{version}"
        self.missed[name] += 1
        if self.missed[name] == 1:
            self.unknown(f"a request of {name} was never recorded")
