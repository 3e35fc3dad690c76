"""Checks whether an upstream is a Kafka broker and accepts kproxy's credentials.

The check reports a wrong address or password before a client's connection fails because of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from kproxy.core.protocols import other_protocol
from kproxy.decoders.framing import request_frame
from kproxy.decoders.schema import api_keys, definitions
from kproxy.relay.dialling import connected, log_in
from kproxy.relay.tunnel import Tunnel
from kproxy.runs.settings import SaslSettings
from kproxy.tls.contexts import BrokerSide
from kproxy.tls.ends import Ends, RefusedError

LOGIN_SECONDS = 10.0
_CORRELATION_ID = 0x6B707278

_HTTP_GREETING = b"HEAD / HTTP/1.0\r\n\r\n"


def _request(api_key: int, body: bytes) -> bytes:
    return request_frame(definitions(), (api_key, 0), _CORRELATION_ID, "kproxy-check", body)


async def problem(
    host: str,
    port: int,
    seconds: float = 3.0,
    *,
    through: Tunnel | None = None,
    side: BrokerSide | None = None,
) -> str | None:
    """The reason why an upstream cannot be used ("refused the connection"); None if a Kafka broker answers.

    Sends ApiVersions first. Without an answer, sends a TLS greeting and an HTTP request, to recognise these protocols,
    and last Metadata v0, which brokers before 0.10 have too. With a `side`, everything is sent over its TLS, and in
    plaintext if TLS fails. `through` is the proxy to connect by. Takes at most eight times `seconds`.
    """
    asked = (
        (_request(api_keys.API_VERSIONS, b""), seconds / 2),
        *(() if side is not None else ((_tls_greeting(), seconds / 3),)),
        (_HTTP_GREETING, seconds / 3),
        (_request(api_keys.METADATA, bytes(4)), seconds),
    )
    try:
        for request, patience in asked:
            answer = await _ask(host, port, request, patience, through, Ends(brokers=side))
            if answer[4:8] == _CORRELATION_ID.to_bytes(4, "big"):
                return None
            if other := _OTHERS.get(other_protocol(answer)):
                return other
    except RefusedError as refused:
        plain = await problem(host, port, seconds, through=through)
        return str(refused) if plain is not None else "speaks plaintext Kafka, not TLS: leave out --tls-out"
    except TimeoutError:
        return f"did not accept a connection within {seconds:g} seconds"
    except (OSError, UnicodeError) as error:
        return reason(error)
    return "is not a Kafka broker: it does not answer Kafka requests"


_OTHERS: dict[str | None, str] = {
    "TLS": "speaks TLS: --tls-out lets kproxy speak it too",
    "HTTP": "speaks HTTP, not Kafka",
}


async def _ask(host: str, port: int, request: bytes, seconds: float, through: Tunnel | None, ends: Ends) -> bytes:
    """Sends `request` on a connection of its own; returns the first eight bytes of the answer.

    Returns fewer bytes if the connection is closed or `seconds` are over. Raises TimeoutError and OSError if the
    connection fails, RefusedError if the TLS handshake fails.
    """
    got = bytearray()
    async with connected(host, port, seconds, through, ends) as (reader, transport):
        try:
            transport.write(request)
            async with asyncio.timeout(seconds):
                while len(got) < 8 and (piece := await reader.read(8 - len(got))):
                    got += piece
        except ssl.SSLError as error:
            raise RefusedError(ends.broken(1, error), None) from None
        except (ConnectionError, TimeoutError):
            pass
    return bytes(got)


async def refusal(
    host: str,
    port: int,
    sasl: SaslSettings,
    seconds: float = LOGIN_SECONDS,
    *,
    through: Tunnel | None = None,
    side: BrokerSide | None = None,
) -> str | None:
    """The reason why a broker refuses kproxy's credentials; None if it accepts them.

    `through` and `side` have the meaning that they have in `problem`.
    """
    try:
        async with asyncio.timeout(seconds), connected(host, port, seconds, through, Ends(brokers=side)) as ends:
            return await log_in(sasl, *ends)
    except RefusedError as refused:
        return str(refused)
    except TimeoutError:
        return f"does not answer within {seconds:g} seconds"
    except (OSError, UnicodeError) as error:
        return reason(error)


def _tls_greeting() -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def reason(error: OSError | UnicodeError) -> str:
    """The failure of a connection attempt in words; a UnicodeError stands for an invalid host name."""
    if isinstance(error, ConnectionRefusedError):
        return "refused the connection"
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"cannot be reached: {text}"
