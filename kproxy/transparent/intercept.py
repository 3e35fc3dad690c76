"""Transparent mode in the relay: finds the broker that a client wanted to reach, and dials it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import weakref
from typing import Any

from kproxy.runs.settings import Settings, shown
from kproxy.transparent import original
from kproxy.transparent.rules import OWN_MARK

Address = tuple[str, int]


class RefusedError(Exception):
    """A connection that must not be forwarded; warnings with the same `topic` are shown once."""

    def __init__(self, topic: str, text: str) -> None:
        super().__init__(text)
        self.topic = topic


class Interception:
    """Finds a client's original destination and dials it, with the mark that exempts the connection from the rules."""

    def __init__(self, settings: Settings) -> None:
        """Raises PermissionError if the process may not mark its connections, although the rules need marks."""
        assert settings.transparent is not None  # noqa: S101 (the caller asked)
        self._mode = settings.transparent
        self._port = 0
        self._marks = original.can_mark()
        if not self._marks and settings.clients != "remote":
            raise PermissionError(errno.EPERM, "marking the relay's own connections needs CAP_NET_ADMIN")
        self._dialled: weakref.WeakValueDictionary[tuple[Address, Address], socket.socket] = (
            weakref.WeakValueDictionary()
        )

    def prepare(self, listeners: list[socket.socket]) -> None:
        """Sets the socket options that transparent mode needs on the listeners.

        Raises PermissionError if they may not accept connections to addresses of other machines.
        """
        self._port = listeners[0].getsockname()[1]
        if self._mode == "tproxy":
            for listener in listeners:
                original.accept_any_destination(listener)

    def target(self, transport: Any) -> Address:
        """The address that the client dialled, before the redirection.

        Raises RefusedError if that is the relay itself or the relay made the connection, OSError if the client has
        closed it.
        """
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as client:
            own, peer = _plain(client.getsockname()), _plain(client.getpeername())
            try:
                wanted = original.destination(client, self._mode)
            except OSError:  # no rule redirected the connection
                wanted = own
        if _plain(wanted) == own and own[1] == self._port:
            raise RefusedError(
                "direct",
                f"refused {peer[0]}, which connects to port {own[1]} of the relay itself: in transparent mode clients "
                "connect to their brokers, and the rules redirect them to the relay",
            )
        if self._comes_from_us(peer, _plain(wanted)):
            raise RefusedError(
                "loop",
                f"refused the relay's own connection to {shown(*wanted)}, which was redirected to the relay: the rules "
                f"must exempt packets with mark {OWN_MARK:#x}, like the rules that --print-rules prints",
            )
        return wanted

    def _comes_from_us(self, peer: Address, wanted: Address) -> bool:
        dialled = self._dialled.get((peer, wanted))
        return dialled is not None and dialled.fileno() >= 0

    async def connect(self, host: str, port: int) -> socket.socket:
        """A socket connected to the broker at (host, port). Raises OSError."""
        ((family, kind, protocol, _, address),) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        broker = socket.socket(family, kind, protocol)
        try:
            broker.setblocking(False)
            if self._marks:
                original.mark(broker)
            await self._connect(broker, address)
        except BaseException:
            broker.close()
            raise
        return broker

    async def _connect(self, broker: socket.socket, address: Any) -> None:
        """Connects; first notes the local address, to recognise the connection if it is redirected to the relay."""
        code = broker.connect_ex(address)
        if code not in {0, errno.EINPROGRESS}:
            raise OSError(code, os.strerror(code))
        self._dialled[_plain(broker.getsockname()), _plain(address)] = broker
        if not code:
            return
        loop = asyncio.get_running_loop()
        decided = asyncio.Event()
        loop.add_writer(broker, decided.set)
        try:
            await decided.wait()
        finally:
            loop.remove_writer(broker)
        code = broker.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))


def _plain(address: Any) -> Address:
    """The (host, port) of a socket address; an IPv6 host loses its zone."""
    return address[0].partition("%")[0], address[1]
