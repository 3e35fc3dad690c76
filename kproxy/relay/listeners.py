"""Gives each node a port that is predictable, the same after a restart, and listening before a client learns of it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from kproxy.core.brokers import Node
from kproxy.relay import ports
from kproxy.relay.limits import Share

LAST = 65535
RETRY_SECONDS = 1.0

Warn = Callable[[str, str], None]
"""A function (topic, text) that warns the user, as `kproxy.relay.warnings.Warnings.warn`."""


def mapped(base: int, node_id: int) -> int:
    """The port `base` + node id, wrapped around for every node id to lie between `base` and the last port."""
    return base + node_id % (LAST + 1 - base)


class Listeners:
    """Opens a listener for each node, within the limits of `share`, and passes its sockets to `serve(sockets, node)`.

    If a port is taken, the user is warned and the next free port is used. With `strict` the node keeps its port, and
    `again(seconds, callback)` schedules another attempt until the port is free.
    """

    def __init__(
        self,
        host: str,
        base: int,
        controllers: int | None,
        serve: Callable[[list[socket.socket], Node], object],
        warn: Warn,
        again: Callable[[float, Callable[[], None]], object],
        share: Share,
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
        self._share = share
        self._nodes = 0
        self._files = 0
        self._each = 1
        """Number of file descriptors of one listener."""
        self._nowhere: list[socket.socket] = []

    def reserve(self, port: int, sockets: int = 1) -> None:
        """Excludes a port of the proxy from the nodes' ports.

        `sockets` is the number of sockets of each later listener.
        """
        self._used.add(port)
        self._each = sockets

    def open(self, node: Node) -> int | None:
        """Opens a listener for a node; returns its port, or None after a warning if that is impossible."""
        if (reason := self._full) is not None:
            self._unserved("bound", node, reason)
            return None
        base = self._controllers if node.controller else self._base
        wanted = mapped(base, node.node_id)
        try:
            port = self._insist(wanted, node) if self._strict else self._next(wanted, base, node)
        except OSError as error:
            self._unserved(str(error.errno), node, error.strerror or str(error))
            return None
        self._nodes += 1
        self._files += self._each
        return port

    @property
    def _full(self) -> str | None:
        """The reason why no further listener may be opened; None if one may be."""
        if self._nodes >= self._share.nodes:
            return f"{self._nodes} nodes have listeners (--max-listeners {self._share.nodes})"
        if self._files + self._each > self._share.files:
            return (
                f"{self._nodes} nodes have listeners ({self._share.files_reason}; listeners may use a quarter of them)"
            )
        return None

    def _unserved(self, topic: str, node: Node, reason: str) -> None:
        text = f"no listener for {node.name} and further nodes: {reason}; clients get a port that refuses connections"
        self._warn(f"listeners-{topic}", text)

    def nowhere(self) -> int:
        """A port that refuses all connections, for nodes without a listener. Raises OSError if no port is free."""
        if not self._nowhere:
            self._nowhere = ports.bind(self._host, 0, listen=False)
            self._used.add(self._port_of_nowhere)
        return self._port_of_nowhere

    @property
    def _port_of_nowhere(self) -> int:
        return int(self._nowhere[0].getsockname()[1])

    def _next(self, wanted: int, base: int, node: Node) -> int:
        port, sockets = ports.bind_next(self._host, wanted, base, self._used)
        if port != wanted:
            self._warn(
                f"port-{node.name}",
                f"port {wanted} of {node.name} is taken: its listener uses {port}; after a restart, maybe another port",
            )
        self._take(port, sockets, node)
        return port

    def _take(self, port: int, sockets: list[socket.socket], node: Node) -> None:
        self._used.add(port)
        self._serve(sockets, node)

    def _insist(self, port: int, node: Node) -> int:
        sockets = self._bound(port, node)
        if sockets:
            self._take(port, sockets, node)
        else:
            self._again(RETRY_SECONDS, lambda: self._insist_again(port, node))
        return port

    def _insist_again(self, port: int, node: Node) -> None:
        try:
            self._insist(port, node)
        except OSError as error:
            self._unserved(str(error.errno), node, error.strerror or str(error))
            self._again(RETRY_SECONDS, lambda: self._insist_again(port, node))

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
