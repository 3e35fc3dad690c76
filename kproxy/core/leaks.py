"""Finds brokers' own addresses in bytes that leave towards clients; the cost does not grow with the number of hosts.

In a response, an address is a host with its length in front and its port behind. Many hosts share one port. So each
known port is searched, and the bytes before a match are compared with the hosts that have this port.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Address = tuple[str, int]

_LENGTH_ENDS = [{size, size + 1 if size < 127 else (size + 1) >> 7} for size in range(256)]
"""By size of a host in bytes: the last byte of the length field before it, as a two-byte or a compact length.

With any other byte there, a longer host just ends like a broker's ("proxy.kafka" for "kafka").
"""

REMEMBERED = 1024
"""Most broker addresses that are kept; the oldest is forgotten first."""
TOLD = 4096
"""Most advertised addresses that are kept; with {host} in --advertise there may be many."""
LONGEST_HOST = 255
"""Bytes; DNS has no longer names."""
SEARCHED = 32 << 20
"""Bytes that one search may scan, over all ports; takes some hundredths of a second."""
COMPARED = 50_000
"""Comparisons with hosts that one search may make; takes about as long."""


@dataclass(slots=True)
class Found:
    """The address that was found, if any; with `whole` False, a limit ended the search early."""

    address: Address | None = None
    whole: bool = True


@dataclass(slots=True)
class Known:
    """Brokers' own addresses, which must not reach clients, and the advertised addresses, which may."""

    _remembered: dict[Address, None] = field(default_factory=dict)
    _hosts: dict[int, dict[int, set[bytes]]] = field(default_factory=dict)
    """Encoded hosts by port, then by length in bytes."""
    _told: set[Address] = field(default_factory=set)
    """Advertised addresses. If DNS leads brokers' names to the proxy, these may equal a broker's own address."""

    def remember(self, host: str, port: int) -> None:
        """Adds a broker's address to those that are searched."""
        encoded = host.encode("utf-8", "replace")
        if not 0 < len(encoded) <= LONGEST_HOST or not 0 < port <= 65535:
            return
        self._remembered.pop((host, port), None)
        self._remembered[host, port] = None
        self._hosts.setdefault(port, {}).setdefault(len(encoded), set()).add(encoded)
        if len(self._remembered) > REMEMBERED:
            self._forget(*next(iter(self._remembered)))

    def _forget(self, host: str, port: int) -> None:
        del self._remembered[host, port]
        encoded = host.encode("utf-8", "replace")
        lengths = self._hosts[port]
        lengths[len(encoded)].discard(encoded)
        if not lengths[len(encoded)]:
            del lengths[len(encoded)]
        if not lengths:
            del self._hosts[port]

    def tell(self, address: Address) -> None:
        """Marks an address as advertised to clients, so that it never counts as a leak."""
        if len(self._told) < TOLD:
            self._told.add(address)

    def search(self, data: bytes) -> Found:
        """Searches for a broker's address, within SEARCHED and COMPARED; returns the first match."""
        if not self._hosts:
            return Found()
        end = min(len(data), SEARCHED // len(self._hosts))
        left = COMPARED
        for port, lengths in self._hosts.items():
            needle = port.to_bytes(2, "big")
            at = data.find(needle, 0, end)
            while at >= 0:
                for border in (at, at - 2) if data[at - 2 : at] == b"\0\0" else (at,):
                    left -= len(lengths)
                    if left < 0:
                        return Found(whole=False)
                    host = _before(data, border, lengths)
                    if host is not None and (address := (host.decode(), port)) not in self._told:
                        return Found(address)
                at = data.find(needle, at + 1, end)
        return Found(whole=end == len(data))


def _before(data: bytes, end: int, lengths: dict[int, set[bytes]]) -> bytes | None:
    """The known host that ends at `end` and has its length in front; None where there is none."""
    for size, hosts in lengths.items():
        start = end - size
        if start > 0 and data[start - 1] in _LENGTH_ENDS[size] and data[start:end] in hosts:
            return data[start:end]
    return None
