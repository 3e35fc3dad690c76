"""Reads the original destination of a redirected connection; sets socket options for transparent mode (Linux)."""

from __future__ import annotations

import socket
import struct

from kproxy.transparent.rules import OWN_MARK

SO_ORIGINAL_DST = 80
"""Socket option of linux/netfilter_ipv4.h.

IP6T_SO_ORIGINAL_DST in linux/netfilter_ipv6/ip6_tables.h is the same number.
"""
IP_TRANSPARENT = 19
IPV6_TRANSPARENT = 75
SO_MARK = 36

_SOCKADDR_IN = struct.Struct("!2xH4s8x")
_SOCKADDR_IN6 = struct.Struct("!2xH4x16s")
_SCOPE = struct.Struct("=I")

_ENDS_BEFORE_SCOPE = _SOCKADDR_IN6.size


def destination(client: socket.socket, mode: str) -> tuple[str, int]:
    """The (host, port) that the client dialled; a link-local host has its zone ("fe80::1%2").

    Raises OSError if the kernel does not know it, for example because no rule redirected the connection.
    """
    if mode == "tproxy":
        own = client.getsockname()
        return _zoned(own[0], own[3] if len(own) > 3 else 0), own[1]
    if client.family == socket.AF_INET:
        return unpacked(client.getsockopt(socket.IPPROTO_IP, SO_ORIGINAL_DST, _SOCKADDR_IN.size))
    raw = client.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, _ENDS_BEFORE_SCOPE + _SCOPE.size)
    host, port = unpacked(raw)
    (zone,) = _SCOPE.unpack_from(raw, _ENDS_BEFORE_SCOPE)
    return _zoned(host, zone or client.getpeername()[3]), port


def unpacked(raw: bytes) -> tuple[str, int]:
    """Unpacks a C struct sockaddr_in or sockaddr_in6 as (host, port)."""
    if len(raw) == _SOCKADDR_IN.size:
        port, address = _SOCKADDR_IN.unpack(raw)
        return socket.inet_ntop(socket.AF_INET, address), port
    port, address = _SOCKADDR_IN6.unpack_from(raw)
    return socket.inet_ntop(socket.AF_INET6, address), port


def _zoned(host: str, zone: int) -> str:
    return f"{host}%{zone}" if zone and "%" not in host and host.lower().startswith("fe8") else host


def accept_any_destination(listener: socket.socket) -> None:
    """Lets a listener accept connections to addresses of other machines. Raises PermissionError."""
    if listener.family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
    else:
        listener.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)


def mark(own: socket.socket) -> None:
    """Marks a connection of the relay, so that the rules do not redirect it. Raises PermissionError."""
    own.setsockopt(socket.SOL_SOCKET, SO_MARK, OWN_MARK)


def can_mark() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            mark(probe)
        except OSError:
            return False
    return True
