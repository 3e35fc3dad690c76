"""A connection of kproxy's own to one broker, for one request at a time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.relay.dialling import connected, log_in
from kproxy.relay.probe import reason
from kproxy.runs.settings import SaslSettings
from kproxy.tls.contexts import BrokerSide
from kproxy.tls.ends import Ends, RefusedError

LONGEST: Final = 256 << 20
"""Maximum size in bytes of a response."""
_SIZE: Final = 4


class SendError(Exception):
    """A broker cannot be reached, or ended the connection, or sent something that is no response."""


@dataclass(frozen=True, slots=True)
class Access:
    """How brokers are reached: TLS (None: plaintext), credentials, and the deadline for a connection and a response."""

    tls: BrokerSide | None = None
    sasl: SaslSettings = field(default_factory=SaslSettings)
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The response frame, None if the broker sends none; times of request and response in ns since the epoch."""

    frame: bytes | None
    sent: int
    received: int


class Broker:
    """A connection to the broker at (host, port), which is opened when it is first needed and after it has ended."""

    def __init__(self, host: str, port: int, access: Access) -> None:
        self.host = host
        self.port = port
        self._access = access
        self._lock = asyncio.Lock()
        self._stack: contextlib.AsyncExitStack | None = None
        self._ends: tuple[asyncio.StreamReader, Any] | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def ask(self, frame: bytes, *, replies: bool) -> Answer:
        """Send a request and wait for its response; requests are sent in the order of the calls. Raises SendError."""
        async with self._lock:
            try:
                return await self._ask(frame, replies=replies)
            except SendError as error:
                await self._close()
                raise SendError(f"{self.address} {error}") from None
            except (OSError, UnicodeError, RefusedError, asyncio.IncompleteReadError) as error:
                await self._close()
                raise SendError(f"{self.address} {self._why(error)}") from None

    def _why(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"did not answer within {self._access.seconds:g} s"
        if isinstance(error, asyncio.IncompleteReadError):
            return "ended the connection without a response"
        return reason(error) if isinstance(error, OSError | UnicodeError) else str(error)

    async def _ask(self, frame: bytes, *, replies: bool) -> Answer:
        reader, transport = self._ends or await self._open()
        sent = time.time_ns()
        transport.write(frame)
        if not replies:
            return Answer(None, sent, sent)
        async with asyncio.timeout(self._access.seconds):
            answer = await _frame(reader)
        if answer[_SIZE : _SIZE + 4] != frame[8:12]:
            got = int.from_bytes(answer[_SIZE : _SIZE + 4], "big", signed=True)
            raise SendError(f"sent a response with correlation id {got}, which matches no request")
        return Answer(answer, sent, time.time_ns())

    async def _open(self) -> tuple[asyncio.StreamReader, Any]:
        access = self._access
        self._stack = contextlib.AsyncExitStack()
        ends = Ends(brokers=access.tls)
        self._ends = await self._stack.enter_async_context(connected(self.host, self.port, access.seconds, None, ends))
        if access.sasl.mechanism and (why := await log_in(access.sasl, *self._ends)):
            raise SendError(why)
        return self._ends

    async def _close(self) -> None:
        stack, self._stack, self._ends = self._stack, None, None
        if stack is not None:
            await stack.aclose()

    async def close(self) -> None:
        async with self._lock:
            await self._close()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(_SIZE)
    size = int.from_bytes(head, "big", signed=True)
    if not 4 <= size <= LONGEST:
        raise SendError(f"sent a response of {size} bytes, which is too short, or longer than {LONGEST >> 20} MiB")
    return head + await reader.readexactly(size)
