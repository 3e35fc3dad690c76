"""Listening sockets, which are bound and listening before their address is announced."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from itertools import chain

from kproxy.runs.settings import LISTEN_HOST, shown

ANY = "*"
ANYWHERE = {ANY, "0.0.0.0", "::"}  # noqa: S104 (for comparison)


_NOT_HERE = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}


def bind(host: str, port: int, *, listen: bool = True) -> list[socket.socket]:
    """Sockets that listen at `port` on the addresses of `host` that belong to this machine; `host` "*" stands for all.

    Port 0 takes a free port. Without `listen` the sockets only reserve the port, and connections to it are refused.
    Raises OSError if an address is taken or none belongs to this machine.
    """
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for one in ("0.0.0.0", "::") if host == ANY else (host,):  # noqa: S104 (asked for)
        found = socket.getaddrinfo(one, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                sockets.append(_bound(family, kind, protocol, (address[0], port, *address[2:]), listen))
            except OSError as error:
                if error.errno in _NOT_HERE:
                    missing = error
                    continue
                for opened in sockets:
                    opened.close()
                raise
            port = port or sockets[-1].getsockname()[1]
    if not sockets:
        raise missing or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    return sockets


def reached(host: str, sockets: Sequence[socket.socket]) -> str:
    """The address "host:port" at which programs on this machine reach the sockets that `bind` made for `host`."""
    return shown(LISTEN_HOST if host in ANYWHERE else host, sockets[0].getsockname()[1])


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...], listen: bool) -> socket.socket:
    listener = socket.socket(family, kind, protocol)
    try:
        if listen:  # without listening, SO_REUSEADDR would let other programs share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        if listen:
            listener.listen(1024)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def bind_next(host: str, wanted: int, base: int, used: set[int]) -> tuple[int, list[socket.socket]]:
    """Listens on port `wanted`, or on the next free port if that is taken or invalid; returns (port, sockets).

    The search goes on at `base` after port 65535 and skips the ports in `used`. Raises OSError if no port is free or
    `host` is not an address of this machine.
    """
    start = wanted if 0 < wanted <= 65535 else base
    last: OSError | None = None
    for port in chain(range(start, 65536), range(min(base, start), start), range(1024, min(base, start))):
        if port in used or not port:
            continue
        try:
            return port, bind(host, port)
        except OSError as error:
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise
            last = error
    raise last or OSError(errno.EADDRINUSE, "no free port")
