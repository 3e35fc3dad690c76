"""Asks an upstream whether it is a Kafka broker, so that a wrong address is named before a client fails on it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from decoders.schema import definitions
from decoders.writer import write

_CORRELATION_ID = 0x6B707278

_API_VERSIONS, _METADATA = 18, 3


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


async def problem(host: str, port: int, seconds: float = 5.0) -> str | None:
    """What is wrong with an upstream ("refused the connection"), or None where a Kafka broker answers.

    ApiVersions is asked first, then Metadata v0, which brokers before 0.10 know; where both are met with a closed
    connection, a TLS greeting tells whether that is what the port speaks.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _problem(host, port)
    except TimeoutError:
        return f"did not answer within {seconds:g} seconds"
    except OSError as error:
        return reason(error)


async def _problem(host: str, port: int) -> str | None:
    answer = b""
    for request in (_request(_API_VERSIONS, b""), _request(_METADATA, bytes(4))):
        answer = await _ask(host, port, request)
        if len(answer) >= 8 and answer[4:8] == _CORRELATION_ID.to_bytes(4, "big"):
            return None
        if answer:
            break
    if answer[:2] in {b"\x15\x03", b"\x16\x03"}:
        return "speaks TLS, which needs a TLS upstream"
    if answer[:4] == b"HTTP":
        return "speaks HTTP, not Kafka"
    if answer:
        return f"is no Kafka broker: it answered {answer[:8]!r}"
    greeting = await _ask(host, port, _tls_greeting())
    if greeting[:2] in {b"\x15\x03", b"\x16\x03"}:
        return "speaks TLS, which needs a TLS upstream"
    if greeting[:4] == b"HTTP":
        return "speaks HTTP, not Kafka"
    return "is no Kafka broker: it closed the connection on a Kafka request"


async def _ask(host: str, port: int, request: bytes) -> bytes:
    """The first bytes of the answer; empty where the connection was closed instead."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        return await reader.readexactly(8)
    except asyncio.IncompleteReadError as error:
        return error.partial
    except ConnectionError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _tls_greeting() -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def reason(error: OSError) -> str:
    """What a failed connect means, in words."""
    if isinstance(error, ConnectionRefusedError):
        return "refused the connection"
    text = error.strerror or str(error)
    return f"cannot be reached: {text}"
