"""Which address of ours stands for which broker: pure bookkeeping, one book for the whole process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Address = tuple[str, int]

_LENGTH_ENDS = [{size, size + 1 if size < 127 else (size + 1) >> 7} for size in range(256)]
"""The last byte of the length before a host of so many bytes: of a two-byte one, or of a compact one.

Where it is another, the host only ends like a broker's ("proxy.kafka" for "kafka").
"""

REMEMBERED = 1024
"""Addresses that nodes have had, kept for the check that none of them reaches a client."""
TOLD = 4096
"""Addresses of ours that are kept; with {host} in the template there may be many."""


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
    """The nodes seen so far; `open_listener(node)` returns the port that listens for a new one.

    It must be listening when the call returns, because the client hears of it next.
    """

    open_listener: Callable[[Node], int]
    advertise: Advertise = field(default_factory=Advertise)
    on_change: Callable[[Node], None] = lambda _: None
    nodes: dict[int, Node] = field(default_factory=dict)
    controllers: dict[int, Node] = field(default_factory=dict)
    """Apart from the brokers, because a node that is both has one id and two addresses."""
    _remembered: dict[Address, None] = field(default_factory=dict)
    _ports: dict[bytes, set[int]] = field(default_factory=dict)
    """Ports of the remembered addresses by host."""
    _told: set[Address] = field(default_factory=set)
    """What clients were told of; where names lead clients to us, it may be a broker's own address."""

    def ours(self, node_id: int, host: str, port: int, own_host: str, *, controller: bool = False) -> Address:
        """The address that stands for a node. Raises OSError where no port can be had."""
        nodes = self.controllers if controller else self.nodes
        node = nodes.get(node_id)
        if node is None:
            node = Node(node_id, host, port, controller=controller)
            node.listener = self.open_listener(node)
            nodes[node_id] = node
            self.remember(host, port)
            self.on_change(node)
        elif (node.host, node.port) != (host, port):
            node.host, node.port = host, port
            self.remember(host, port)
            self.on_change(node)
        address = self.advertise.address(node, own_host)
        if len(self._told) < TOLD:
            self._told.add(address)
        return address

    def remember(self, host: str, port: int) -> None:
        """Keeps a node's address in mind for `leaked`."""
        self._remembered.pop((host, port), None)
        self._remembered[host, port] = None
        self._ports.setdefault(host.encode(), set()).add(port)
        if len(self._remembered) > REMEMBERED:
            old, gone = next(iter(self._remembered))
            del self._remembered[old, gone]
            ports = self._ports[old.encode()]
            ports.discard(gone)
            if not ports:
                del self._ports[old.encode()]

    def leaked(self, data: bytes | memoryview) -> Address | None:
        """A node's own address within bytes: a host, and behind it its port, of four bytes or two."""
        plain = bytes(data)
        for host, ports in self._ports.items():
            at = plain.find(host)
            while at >= 0:
                end = at + len(host)
                if at and plain[at - 1] in _LENGTH_ENDS[min(len(host), 255)]:
                    for size in (4, 2):
                        port = int.from_bytes(plain[end : end + size], "big")
                        address = (host.decode("utf-8", "replace"), port)
                        if port in ports and address not in self._told:
                            return address
                at = plain.find(host, at + 1)
        return None
