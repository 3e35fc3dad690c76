"""Maps each broker and controller of one cluster to the proxy's address for it; opens no sockets itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kproxy.core.leaks import LONGEST_HOST, Address, Known


@dataclass(slots=True)
class Node:
    """A broker or a controller: the address at which kproxy dials it, and the proxy's port for it, `listener`.

    A node that changes its address keeps its port; kproxy dials later connections to the new address. A node that
    leaves the cluster keeps its port too: clients that still use it get a connection error, and no other node gets the
    port.
    """

    node_id: int
    host: str
    port: int
    listener: int = 0
    controller: bool = False

    @property
    def name(self) -> str:
        return f"{'controller' if self.controller else 'broker'} {self.node_id}"


@dataclass(frozen=True, slots=True)
class Advertise:
    """The address that clients get for a node: a host, or a template with {broker}, {port} and {host}.

    {broker} is the node's id, {port} the port of its listener, {host} the broker's own host; for example
    "{broker}.kafka.local:{port}" or "proxy.example". Without a port, the listener's port is used. With an empty
    template, clients get the address of kproxy that they connected to.
    """

    template: str = ""

    @property
    def same_host(self) -> bool:
        """Whether all nodes get the same host, one that does not depend on the node."""
        return bool(self.template) and "{broker}" not in self.template and "{host}" not in self.template

    def address(self, node: Node, own_host: str) -> Address:
        if not self.template:
            return own_host, node.listener
        text = self.template.replace("{broker}", str(node.node_id)).replace("{port}", str(node.listener))
        host, port = split_address(text)
        return host.replace("{host}", node.host), node.listener if port is None else port


def split_address(text: str) -> tuple[str, int | None]:
    """Parses "host", "host:port", "[::1]:port" or "::1" as (host, port); port is None if absent. Raises ValueError."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"no address: {text}")
        port = rest[1:]
    elif text.count(":") > 1:
        return text, None
    else:
        host, _, port = text.partition(":")
    if not port:
        return host, None
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ValueError(f"no port: {port}")
    return host, int(port)


@dataclass(slots=True)
class Book:
    """The nodes seen so far, with their listeners.

    `open_listener(node)` returns the port for a node that was not seen before, or None if no further listener is
    allowed. The port must be listening when the call returns, because the client learns of it next. A node without a
    listener gets an address of the proxy at port `nowhere()`, which refuses connections: clients treat it as a broker
    that is down and go on with the others, and their logs name the proxy.
    """

    open_listener: Callable[[Node], int | None]
    advertise: Advertise = field(default_factory=Advertise)
    on_change: Callable[[Node], None] = lambda _: None
    nowhere: Callable[[], int] = lambda: 0
    nodes: dict[int, Node] = field(default_factory=dict)
    controllers: dict[int, Node] = field(default_factory=dict)
    """Controllers by node id, apart from the brokers: a node that is both has one id and two addresses."""
    known: Known = field(default_factory=Known)

    def ours(self, node_id: int, host: str, port: int, own_host: str, *, controller: bool = False) -> Address:
        """The proxy's address for a node at (host, port); `own_host` is the host that the client used to reach kproxy.

        Raises OSError if the node has no listener and `nowhere()` gets no port.
        """
        node = self._node(Node(node_id, host, port, controller=controller))
        if node is None:
            node = Node(node_id, host, port, self.nowhere(), controller)
        address = self.advertise.address(node, own_host)
        self.known.tell(address)
        return address

    def _node(self, announced: Node) -> Node | None:
        """The node with its listener, which is opened if need be; None if the node cannot get a listener."""
        if announced.node_id < 0 or not 0 < announced.port <= 65535 or len(announced.host.encode()) > LONGEST_HOST:
            return None
        nodes = self.controllers if announced.controller else self.nodes
        node = nodes.get(announced.node_id)
        if node is None:
            listener = self.open_listener(announced)
            if listener is None:
                return None
            announced.listener = listener
            node = nodes[announced.node_id] = announced
        elif (node.host, node.port) != (announced.host, announced.port):
            node.host, node.port = announced.host, announced.port
        else:
            return node
        self.known.remember(node.host, node.port)
        self.on_change(node)
        return node
