"""Finds brokers' own addresses in bytes that go to clients; the cost does not grow with the number of hosts.

In a response, an address is a host with its length in front and its port behind. Many hosts share one port. So the
bytes are searched for each known port, and the bytes before a match are compared with the hosts that have this port.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Address = tuple[str, int]

_LENGTH_ENDS = [{size, size + 1 if size < 127 else (size + 1) >> 7} for size in range(256)]
"""By size of a host in bytes: the possible values of the byte before the host, which is the last byte of the host's
length field.

The length has two bytes or is a varint. With another byte there, the host is only the end of a longer one ("kafka" in
"proxy.kafka").
"""

REMEMBERED = 1024
"""Maximum number of broker addresses that are kept; the oldest is forgotten first."""
TOLD = 4096
"""Maximum number of advertised addresses that are kept; with {host} in --advertise there may be many."""
LONGEST_HOST = 255
"""Longest host name in bytes; DNS allows no longer ones."""
SEARCHED = 32 << 20
"""Maximum number of bytes that one search scans, summed over all ports; a search that reaches it takes some hundredths
of a second.
"""
COMPARED = 50_000
"""Maximum number of comparisons with hosts in one search; a search that reaches it takes some hundredths of a second.
"""


@dataclass(slots=True)
class Found:
    """Result of a search: the address found, or None. `whole` is False if a limit ended the search early."""

    address: Address | None = None
    whole: bool = True


@dataclass(slots=True)
class Known:
    """The brokers' own addresses, which must not reach clients, and the advertised addresses, which may."""

    _remembered: dict[Address, None] = field(default_factory=dict)
    _hosts: dict[int, dict[int, set[bytes]]] = field(default_factory=dict)
    """Encoded hosts, by port and then by length in bytes."""
    _advertised: set[Address] = field(default_factory=set)
    """Advertised addresses. If DNS resolves brokers' names to the proxy, these may equal a broker's own address."""

    def remember(self, host: str, port: int) -> None:
        """Adds a broker's own address to those that `search` looks for."""
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
        """Marks an address as advertised to clients, so that `search` never reports it."""
        if len(self._advertised) < TOLD:
            self._advertised.add(address)

    def search(self, data: bytes) -> Found:
        """Searches `data` for a broker's own address; returns the first match."""
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
                    if host is not None and (address := (host.decode(), port)) not in self._advertised:
                        return Found(address)
                at = data.find(needle, at + 1, end)
        return Found(whole=end == len(data))


def _before(data: bytes, end: int, lengths: dict[int, set[bytes]]) -> bytes | None:
    """The known host that ends at offset `end` and has its length in front; None if there is none."""
    for size, hosts in lengths.items():
        start = end - size
        if start > 0 and data[start - 1] in _LENGTH_ENDS[size] and data[start:end] in hosts:
            return data[start:end]
    return None
