"""kproxy's own connections to brokers: through a proxy, with TLS and with authentication, as the settings say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from kproxy.decoders.schema import definitions
from kproxy.relay.tunnel import Tunnel, way
from kproxy.runs.settings import SaslSettings
from kproxy.tls.ends import Ends
from kproxy.tls.layer import Layer


@contextlib.asynccontextmanager
async def connected(
    host: str, port: int, seconds: float, through: Tunnel | None, ends: Ends
) -> AsyncIterator[tuple[asyncio.StreamReader, Any]]:
    """A context with a connection to a broker, as (reader, transport to write to).

    Raises TimeoutError after `seconds`, OSError or UnicodeError if the connection fails, RefusedError if TLS does.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    inner = asyncio.StreamReaderProtocol(reader)
    protocol = ends.towards_broker(inner, host)
    async with asyncio.timeout(seconds):
        outer, _ = await loop.create_connection(lambda: protocol, **await way(through, host, port))
        await ends.spoken(protocol)
    transport: Any = protocol if isinstance(protocol, Layer) else outer
    try:
        yield reader, transport
    finally:
        transport.close()


async def log_in(sasl: SaslSettings, reader: asyncio.StreamReader, transport: Any) -> str | None:
    """Authenticates on a new connection; returns why the broker refuses the credentials, None if it accepts them."""
    from kproxy.core.gate import Gate, Opened, Own, Refused
    from kproxy.core.login import LoginError, Steps, login
    from kproxy.relay import credentials

    def steps(version: int | None) -> Steps:
        try:
            return login(sasl.mechanism, credentials.load(sasl), version)
        except credentials.CredentialsError as error:
            raise LoginError(f"cannot authenticate kproxy: {error}") from None

    clock = asyncio.get_running_loop().time
    gate = Gate(definitions(), steps)
    acts = gate.begin(clock())
    while True:
        for act in acts:
            if isinstance(act, Refused):
                return act.why
            if isinstance(act, Opened):
                return None
            if isinstance(act, Own) and not act.side:
                transport.write(act.data)
        data = b""
        with contextlib.suppress(ConnectionError):
            data = await reader.read(1 << 16)
        if not data:
            return "closes the connection while kproxy authenticates"
        acts = gate.from_broker(data, clock())
