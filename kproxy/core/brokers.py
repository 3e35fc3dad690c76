"""Which address of ours stands for which broker: pure bookkeeping, one book for the whole process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Address = tuple[str, int]

_LENGTH_ENDS = [{size, size + 1 if size < 127 else (size + 1) >> 7} for size in range(256)]
"""The last byte of the length before a host of so many bytes: of a two-byte one, or of a compact one.

Where it is another, the host only ends like a broker's ("proxy.kafka" for "kafka").
"""

REMEMBERED = 256
"""Addresses that brokers have had, kept for the check that none of them reaches a client."""


@dataclass(slots=True)
class Node:
    """A broker: where it is dialled and the port of ours that stands for it."""

    node_id: int
    host: str
    port: int
    listener: int


@dataclass(frozen=True, slots=True)
class Advertise:
    """What clients are told to connect to: a host, or a template with {broker} and {port}.

    "{broker}.kafka.local:{port}" and "proxy.example" are both fine; without a port the listener's is meant, and an
    empty text means the address that the client itself used.
    """

    template: str = ""

    def address(self, node_id: int, listener: int, own_host: str) -> Address:
        if not self.template:
            return own_host, listener
        text = self.template.replace("{broker}", str(node_id)).replace("{port}", str(listener))
        host, port = split_address(text)
        return host, listener if port is None else port


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
    """The brokers seen so far; `open_listener(node_id)` returns the port that listens for a new one.

    It must be listening when the call returns, because the client hears of it next.
    """

    open_listener: Callable[[int], int]
    advertise: Advertise = field(default_factory=Advertise)
    on_change: Callable[[Node], None] = lambda _: None
    nodes: dict[int, Node] = field(default_factory=dict)
    _needles: dict[bytes, Address] = field(default_factory=dict)

    def ours(self, node_id: int, host: str, port: int, own_host: str) -> Address:
        """The address that stands for a broker. Raises OSError where no port can be had."""
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = Node(node_id, host, port, self.open_listener(node_id))
            self.remember(host, port)
            self.on_change(node)
        elif (node.host, node.port) != (host, port):
            node.host, node.port = host, port
            self.remember(host, port)
            self.on_change(node)
        return self.advertise.address(node_id, node.listener, own_host)

    def remember(self, host: str, port: int) -> None:
        """Keeps a broker's address in mind for `leaked`."""
        self._needles[host.encode() + port.to_bytes(4, "big", signed=True)] = (host, port)
        while len(self._needles) > REMEMBERED:
            self._needles.pop(next(iter(self._needles)))

    def leaked(self, data: bytes | memoryview) -> Address | None:
        """A broker's own address (host, and its port behind it, as every response has them) within bytes."""
        plain = bytes(data)
        for needle, address in self._needles.items():
            at = plain.find(needle)
            while at >= 0:
                if at and plain[at - 1] in _LENGTH_ENDS[min(len(needle) - 4, 255)]:
                    return address
                at = plain.find(needle, at + 1)
        return None
