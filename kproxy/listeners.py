"""The port of each node: known beforehand, the same after a restart, listening before a client hears of it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Collection

from kproxy import ports
from kproxy.core.brokers import Node

LAST = 65535
RETRY_SECONDS = 1.0

Warn = Callable[[str, str], None]
"""(topic, text), as `kproxy.server.Relay.warn`."""


def mapped(base: int, node_id: int) -> int:
    """Base + node id; ids that lead past the last port (or are negative) begin again at the base."""
    return base + node_id % (LAST + 1 - base)


class Listeners:
    """Opens a listener for each node; `serve(sockets, node)` takes what listens.

    A port that somebody else has is told of. The next free one is taken in its place, or with `strict` none: the node
    keeps its port, and `again(seconds, callback)` tries for it until it can be had.
    """

    def __init__(
        self,
        host: str,
        base: int,
        controllers: int | None,
        serve: Callable[[list[socket.socket], Node], object],
        warn: Warn,
        again: Callable[[float, Callable[[], None]], object],
        *,
        strict: bool = False,
    ) -> None:
        self._host = host
        self._base = base
        self._controllers = base if controllers is None else controllers
        self._serve = serve
        self._warn = warn
        self._again = again
        self._strict = strict
        self._used: set[int] = set()

    def reserve(self, taken: Collection[int]) -> None:
        """Ports that no node gets."""
        self._used.update(taken)

    def open(self, node: Node) -> int:
        """The port that listens for a node now. Raises OSError where none can be had."""
        base = self._controllers if node.controller else self._base
        wanted = mapped(base, node.node_id)
        if self._strict:
            self._insist(wanted, node)
            return wanted
        port, sockets = ports.bind_next(self._host, wanted, base, self._used)
        self._used.add(port)
        if port != wanted:
            self._warn(
                f"port-{node.name}",
                f"port {wanted} of {node.name} is taken: it is served on {port}, which may be another after a restart",
            )
        self._serve(sockets, node)
        return port

    def _insist(self, port: int, node: Node) -> None:
        sockets = self._bound(port, node)
        if sockets:
            self._used.add(port)
            self._serve(sockets, node)
        else:
            self._again(RETRY_SECONDS, lambda: self._insist(port, node))

    def _bound(self, port: int, node: Node) -> list[socket.socket]:
        text = f"port {port} of {node.name} is taken: clients cannot reach it until the port is free"
        if port not in self._used:
            try:
                return ports.bind(self._host, port)
            except OSError as error:
                if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                    raise
        self._warn(f"port-{node.name}", text)
        return []
