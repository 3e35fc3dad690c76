"""Asks an upstream whether it is a Kafka broker, so that a wrong address is named before a client fails on it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from decoders.schema import definitions
from decoders.writer import write
from kproxy.tunnel import Tunnel, way

_CORRELATION_ID = 0x6B707278

_API_VERSIONS, _METADATA = 18, 3
_HTTP_GREETING = b"HEAD / HTTP/1.0\r\n\r\n"


def _request(api_key: int, body: bytes) -> bytes:
    header = definitions().message("RequestHeader", 1)
    assert header is not None  # noqa: S101 (part of the shipped definitions)
    values = {
        "requestApiKey": api_key,
        "requestApiVersion": 0,
        "correlationId": _CORRELATION_ID,
        "clientId": "kproxy-check",
    }
    frame = write(header, 1, values) + body
    return len(frame).to_bytes(4, "big") + frame


async def problem(host: str, port: int, seconds: float = 3.0, *, through: Tunnel | None = None) -> str | None:
    """What is wrong with an upstream ("refused the connection"), or None where a Kafka broker answers.

    ApiVersions is asked first, at last Metadata v0, which brokers before 0.10 know; where ApiVersions is not answered,
    greetings of TLS and HTTP tell whether the port speaks one of these. Takes at most four times `seconds`.
    """
    asked = (
        (_request(_API_VERSIONS, b""), seconds / 2),
        (_tls_greeting(), seconds / 3),
        (_HTTP_GREETING, seconds / 3),
        (_request(_METADATA, bytes(4)), seconds),
    )
    try:
        for request, patience in asked:
            answer = await _ask(host, port, request, patience, through)
            if answer[4:8] == _CORRELATION_ID.to_bytes(4, "big"):
                return None
            if other := _other(answer):
                return other
    except TimeoutError:
        return f"did not accept a connection within {seconds:g} seconds"
    except (OSError, UnicodeError) as error:
        return reason(error)
    return "is no Kafka broker: it does not answer Kafka requests"


def _other(answer: bytes) -> str | None:
    """Which other protocol an answer belongs to."""
    if answer[:2] in {b"\x15\x03", b"\x16\x03"}:
        return "speaks TLS, which needs a TLS upstream"
    if answer[:4] == b"HTTP" or answer[:1] == b"<":
        return "speaks HTTP, not Kafka"
    return None


async def _ask(host: str, port: int, request: bytes, seconds: float, through: Tunnel | None) -> bytes:
    """The first bytes of the answer; fewer where the connection was closed or nothing more came in time.

    Raises TimeoutError and OSError where no connection can be had.
    """
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(**await way(through, host, port))
    got = bytearray()
    try:
        writer.write(request)
        async with asyncio.timeout(seconds):
            while len(got) < 8 and (piece := await reader.read(8 - len(got))):
                got += piece
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return bytes(got)


def _tls_greeting() -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def reason(error: OSError | UnicodeError) -> str:
    """What a failed connect means, in words; UnicodeError comes of what is no host name."""
    if isinstance(error, ConnectionRefusedError):
        return "refused the connection"
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"cannot be reached: {text}"
