"""Connections to brokers: direct, or through a SOCKS5 or HTTP CONNECT proxy.

The proxy resolves the brokers' names, because often only the proxy can. The result is a connected socket, used like any
other.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kproxy.core.leaks import Address

USER, PASSWORD = "KPROXY_UPSTREAM_PROXY_USER", "KPROXY_UPSTREAM_PROXY_PASSWORD"
SCHEMES = {"socks5": 1080, "socks5h": 1080, "http": 8080}
"""Default port of each scheme."""
LONGEST_ANSWER = 16 << 10
"""Largest size in bytes of an HTTP proxy's response header, including the blank line at its end."""


class TunnelError(OSError):
    """The proxy did not connect kproxy to the broker; the text names the proxy and the reason."""


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A proxy between kproxy and the brokers; `scheme` is one of SCHEMES. Its credentials come from the environment."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Tunnel:
        """Parses a URL such as "socks5://host:port". Raises ValueError, also if it contains credentials."""
        parts = urlsplit(text)
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"credentials in a URL are visible to other users: set {USER} and {PASSWORD}")
        if parts.scheme not in SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f"invalid proxy {text!r}: use socks5://HOST:PORT or http://HOST:PORT")
        return cls(parts.scheme, parts.hostname, parts.port or SCHEMES[parts.scheme])

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    async def connect(self, host: str, port: int) -> socket.socket:
        """A socket connected to (host, port) through the proxy. Raises TunnelError."""
        user = os.environ.get(USER)
        credentials = None if user is None else (user, os.environ.get(PASSWORD, ""))
        ask = _http if self.scheme == "http" else _socks
        try:
            return await ask(self.host, self.port, (host, port), credentials)
        except _RefusedError as refused:
            raise TunnelError(f"{self} refused the connection: {refused}") from None
        except (OSError, UnicodeError) as error:
            raise TunnelError(f"{self} cannot be reached: {_reason(error)}") from None


class _RefusedError(Exception):
    """The proxy refused the connection; the text is the proxy's reason."""


def _reason(error: OSError | UnicodeError) -> str:
    """The operating system's message for an error, without the text that libraries put around it."""
    found = error.__cause__ if isinstance(error.__cause__, OSError) else error
    if isinstance(found, OSError):
        return os.strerror(found.errno) if found.errno and found.errno > 0 else found.strerror or str(found)
    return str(found)


async def _socks(host: str, port: int, target: Address, credentials: tuple[str, str] | None) -> socket.socket:
    from python_socks import ProxyError, ProxyType
    from python_socks.async_.asyncio import Proxy

    user, password = credentials or (None, None)
    try:
        return await Proxy(ProxyType.SOCKS5, host, port, username=user, password=password, rdns=True).connect(*target)
    except ProxyError as error:
        raise _RefusedError(str(error) or "the proxy ended the connection") from None


async def _http(host: str, port: int, target: Address, credentials: tuple[str, str] | None) -> socket.socket:
    """Connects to `target` by HTTP CONNECT; python-socks fails if the response header arrives in pieces."""
    where = f"[{target[0]}]:{target[1]}" if ":" in target[0] else f"{target[0]}:{target[1]}"
    lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
    if credentials is not None:
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(':'.join(credentials).encode()).decode()}")
    loop = asyncio.get_running_loop()
    connected = await _connected(host, port)
    try:
        await loop.sock_sendall(connected, "\r\n".join([*lines, "", ""]).encode())
        _accepted(await _answer(connected))
    except BaseException:
        connected.close()
        raise
    return connected


async def _answer(connected: socket.socket) -> bytes:
    """Reads the response header up to its blank line, byte by byte: the bytes after it belong to the broker."""
    loop = asyncio.get_running_loop()
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n"):
        byte = await loop.sock_recv(connected, 1)
        if not byte or len(answer) == LONGEST_ANSWER:
            raise _RefusedError("the proxy sent no complete HTTP response")
        answer += byte
    return bytes(answer)


def _accepted(answer: bytes) -> None:
    line = answer.partition(b"\r\n")[0].decode("latin-1")
    status = line.split(maxsplit=2)
    if len(status) < 2 or not status[0].startswith("HTTP/") or not status[1].startswith("2"):
        raise _RefusedError(f"{line[:100]!r}")


async def _connected(host: str, port: int) -> socket.socket:
    """A non-blocking socket, connected to the first address of the host that accepts a connection. Raises OSError."""
    loop = asyncio.get_running_loop()
    last: OSError | None = None
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        one = socket.socket(family, kind, protocol)
        one.setblocking(False)
        try:
            await loop.sock_connect(one, address)
        except OSError as error:
            one.close()
            last = error
        except BaseException:
            one.close()
            raise
        else:
            return one
    raise last or OSError(f"{host} has no address")


async def way(tunnel: Tunnel | None, host: str, port: int) -> dict[str, Any]:
    """Arguments that make asyncio's `create_connection` or `open_connection` reach (host, port). Raises TunnelError."""
    if tunnel is None:
        return {"host": host, "port": port}
    return {"sock": await tunnel.connect(host, port)}


def recorded(tunnel: Tunnel | None, target: Address, peer: Address | None) -> Address | None:
    """The broker's address that the recording shows.

    Without a tunnel it is the connected address `peer`. With one it is `target` if that is an IP address, else the
    proxy's.
    """
    if tunnel is None:
        return peer
    try:
        socket.getaddrinfo(*target, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return peer
    return target
