"""Finds brokers' own addresses in bytes that leave towards clients, with an effort that does not grow with hosts.

An address stands there as a host with its length in front and its port behind. Many hosts may have one port, so what is
looked for is each port, and only where one stands are the bytes before it compared with the hosts that have it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Address = tuple[str, int]

_LENGTH_ENDS = [{size, size + 1 if size < 127 else (size + 1) >> 7} for size in range(256)]
"""The last byte of the length before a host of so many bytes: of a two-byte one, or of a compact one.

Where it is another, the host only ends like a broker's ("proxy.kafka" for "kafka").
"""

REMEMBERED = 1024
"""Addresses that are kept; the oldest goes first."""
TOLD = 4096
"""Addresses of ours that are kept; where what is advertised has {host} in it, there may be many."""
LONGEST_HOST = 255
"""Bytes; DNS has no longer names."""
SEARCHED = 32 << 20
"""Bytes that one search may look at, over all ports: some hundredths of a second."""
COMPARED = 50_000
"""Places that one search may compare with hosts: as long."""


@dataclass(slots=True)
class Found:
    """The address that was found; with `whole` False not all was searched."""

    address: Address | None = None
    whole: bool = True


@dataclass(slots=True)
class Known:
    """Addresses of brokers, which no client may get, and those that clients are told of all the same."""

    _remembered: dict[Address, None] = field(default_factory=dict)
    _hosts: dict[int, dict[int, set[bytes]]] = field(default_factory=dict)
    """By port and by length in bytes."""
    _told: set[Address] = field(default_factory=set)
    """Where names lead clients to us, it may be a broker's own address."""

    def remember(self, host: str, port: int) -> None:
        """Looks for this address from now on."""
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
        """Clients are told this address: it is none that leaks."""
        if len(self._told) < TOLD:
            self._told.add(address)

    def search(self, data: bytes) -> Found:
        """The first address that is found, within the limits of one search."""
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
    """The host that ends there, with its length in front of it."""
    for size, hosts in lengths.items():
        start = end - size
        if start > 0 and data[start - 1] in _LENGTH_ENDS[size] and data[start:end] in hosts:
            return data[start:end]
    return None
