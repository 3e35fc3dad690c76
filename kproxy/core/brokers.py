"""Which address of ours stands for which broker: pure bookkeeping, one book for the whole process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kproxy.core.leaks import LONGEST_HOST, Address, Known


@dataclass(slots=True)
class Node:
    """A broker or a controller: where it is dialled and the port of ours that stands for it.

    One that changes its address keeps its port; connections from then on are dialled at the new one. One that leaves
    keeps it too: whoever still knows it gets what dialling the dead node gives, and nobody else gets the port.
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
    """What clients are told to connect to: a host, or a template with {broker}, {port} and {host}.

    {broker} is the node's id, {port} our listener's port, {host} the broker's own host. "{broker}.kafka.local:{port}"
    and "proxy.example" are both fine; without a port the listener's is meant, and an empty text means the address that
    the client itself used.
    """

    template: str = ""

    @property
    def same_host(self) -> bool:
        """Whether it is one host for all nodes, known beforehand."""
        return bool(self.template) and "{broker}" not in self.template and "{host}" not in self.template

    def address(self, node: Node, own_host: str) -> Address:
        if not self.template:
            return own_host, node.listener
        text = self.template.replace("{broker}", str(node.node_id)).replace("{port}", str(node.listener))
        host, port = split_address(text)
        return host.replace("{host}", node.host), node.listener if port is None else port


def split_address(text: str) -> tuple[str, int | None]:
    """Parts of "host", "host:port", "[::1]:port" or "::1". Raises ValueError on a port that is none."""
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
    """The nodes seen so far; `open_listener(node)` returns the port that listens for a new one, None where none may.

    It must be listening when the call returns, because the client hears of it next. A node without a listener gets an
    address of ours at which nobody listens, of the port `nowhere()`: clients take it for a broker that is down and go
    on with the others, and who looks at their logs finds the proxy's name there.
    """

    open_listener: Callable[[Node], int | None]
    advertise: Advertise = field(default_factory=Advertise)
    on_change: Callable[[Node], None] = lambda _: None
    nowhere: Callable[[], int] = lambda: 0
    nodes: dict[int, Node] = field(default_factory=dict)
    controllers: dict[int, Node] = field(default_factory=dict)
    """Apart from the brokers, because a node that is both has one id and two addresses."""
    known: Known = field(default_factory=Known)

    def ours(self, node_id: int, host: str, port: int, own_host: str, *, controller: bool = False) -> Address:
        """The address that stands for a node. Raises OSError where there is not even a port for nowhere."""
        node = self._node(Node(node_id, host, port, controller=controller))
        if node is None:
            node = Node(node_id, host, port, self.nowhere(), controller)
        address = self.advertise.address(node, own_host)
        self.known.tell(address)
        return address

    def _node(self, told: Node) -> Node | None:
        """The node that a broker tells of, with its listener; None where it has none."""
        if told.node_id < 0 or not 0 < told.port <= 65535 or len(told.host.encode()) > LONGEST_HOST:
            return None
        nodes = self.controllers if told.controller else self.nodes
        node = nodes.get(told.node_id)
        if node is None:
            listener = self.open_listener(told)
            if listener is None:
                return None
            told.listener = listener
            node = nodes[told.node_id] = told
        elif (node.host, node.port) != (told.host, told.port):
            node.host, node.port = told.host, told.port
        else:
            return node
        self.known.remember(node.host, node.port)
        self.on_change(node)
        return node
