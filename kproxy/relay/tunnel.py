"""The way to a broker: straight, or through a SOCKS5 or HTTP CONNECT proxy.

The proxy resolves the brokers' names, which often only it can. What comes out is a connected socket, from which on
nothing is different.
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
"""Their usual ports."""
LONGEST_ANSWER = 16 << 10
"""Bytes of an HTTP proxy's answer, its blank line included."""


class TunnelError(OSError):
    """The proxy on the way did not connect; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A proxy on the way; `scheme` is one of SCHEMES. Credentials come from the environment."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Tunnel:
        """Reads "socks5://host:port" and its like. Raises ValueError, also on credentials."""
        parts = urlsplit(text)
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"credentials belong into {USER} and {PASSWORD}, where other users do not see them")
        if parts.scheme not in SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f"no proxy: {text!r}; socks5://HOST:PORT or http://HOST:PORT is one")
        return cls(parts.scheme, parts.hostname, parts.port or SCHEMES[parts.scheme])

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    async def connect(self, host: str, port: int) -> socket.socket:
        """A socket that leads to (host, port). Raises TunnelError."""
        user = os.environ.get(USER)
        credentials = None if user is None else (user, os.environ.get(PASSWORD, ""))
        ask = _http if self.scheme == "http" else _socks
        try:
            return await ask(self.host, self.port, (host, port), credentials)
        except _RefusedError as refused:
            raise TunnelError(f"{self} does not connect to it: {refused}") from None
        except (OSError, UnicodeError) as error:
            raise TunnelError(f"{self} cannot be reached: {_reason(error)}") from None


class _RefusedError(Exception):
    """What the proxy said against it."""


def _reason(error: OSError | UnicodeError) -> str:
    """The system's words for an error, without the library's own around them."""
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
        raise _RefusedError(str(error) or "it ended the connection") from None


async def _http(host: str, port: int, target: Address, credentials: tuple[str, str] | None) -> socket.socket:
    """Asks for the tunnel itself: python-socks takes the first read for the whole answer, which may come in pieces."""
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
    """Up to the blank line; byte by byte, because what follows is not ours to read."""
    loop = asyncio.get_running_loop()
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n"):
        byte = await loop.sock_recv(connected, 1)
        if not byte or len(answer) == LONGEST_ANSWER:
            raise _RefusedError("it gave no whole answer in HTTP")
        answer += byte
    return bytes(answer)


def _accepted(answer: bytes) -> None:
    line = answer.partition(b"\r\n")[0].decode("latin-1")
    status = line.split(maxsplit=2)
    if len(status) < 2 or not status[0].startswith("HTTP/") or not status[1].startswith("2"):
        raise _RefusedError(f"{line[:100]!r}")


async def _connected(host: str, port: int) -> socket.socket:
    """A non-blocking socket to the first address of a host that accepts. Raises OSError."""
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
    """What asyncio's `create_connection` and `open_connection` take to get to (host, port). Raises TunnelError."""
    if tunnel is None:
        return {"host": host, "port": port}
    return {"sock": await tunnel.connect(host, port)}


def recorded(tunnel: Tunnel | None, target: Address, peer: Address | None) -> Address | None:
    """The broker's address in the recording: behind a proxy its own where it is no name, else the proxy's."""
    if tunnel is None:
        return peer
    try:
        socket.getaddrinfo(*target, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return peer
    return target
