"""Pseudonyms for hosts: one for each host, of the same length; an IP address gets another IP address."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

FIELDS: Final = frozenset({"host", "clientHost"})
"""Names of string fields that hold a host; in clientHost, Kafka writes a slash before it."""
PACKED: Final = frozenset({"clientHostAddress"})
"""Names of fields that hold an IP address as bytes."""

_ATTEMPTS: Final = 1000
SHORTEST: Final = 4
"""Minimum length, in bytes of UTF-8, of names that are searched for within other text."""

_IPV4: Final = rb"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])"
_IN_URL: Final = (
    rb"(?:(?<=//)|(?<=@))[^\x00-\x20/,:@\[\]\"]{1,255}(?=:\d)|(?:(?<=//\[)|(?<=@\[))[0-9a-fA-F:.]{2,45}(?=\]:\d)"
)
_URL: Final = re.compile(r"(?://|@)\[?([^\s/,:@\[\]]+|[0-9a-fA-F:.]+:[0-9a-fA-F:.]+)\]?:\d+")
"""A host in a list of listeners, bootstrap servers or voters: PLAINTEXT://kafka:9092, 1@kafka:9093."""


class Hosts:
    """Maps hosts to pseudonyms: first `learn` every host, then call the other methods.

    `salt` is a random key that prevents guessing the hosts from their pseudonyms. `places` counts replacements.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._known: set[bytes] = set()
        self._fakes: dict[bytes, bytes] = {}
        self._used: set[bytes] = set()
        self._within: re.Pattern[bytes] | None = None
        self.places = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def names(self) -> list[str]:
        """The learnt hosts: names and addresses that must not be in an output."""
        return [name.decode("utf-8", "replace") for name in sorted(self._known)]

    def learn(self, host: str) -> None:
        """Learn a host: a name or an IP address, perhaps in brackets or with a leading slash."""
        name = host.removeprefix("/").removeprefix("[").removesuffix("]").encode("utf-8", "replace")
        if name and name not in self._known:
            self._known.add(name)
            self._within = None

    def learn_values(self, values: Any) -> None:
        """Learn the hosts in the values of a message."""
        for host in _named(values):
            self.learn(host)

    def name(self, host: str) -> str:
        """The pseudonym of a host."""
        return self._fake(host.encode("utf-8", "replace")).decode("utf-8", "replace")

    def address(self, address: str) -> str:
        """An address "host:port" with the host's pseudonym."""
        host, colon, port = address.rpartition(":")
        if host.startswith("["):
            return f"[{self.name(host[1:-1])}]{colon}{port}"
        return f"{self.name(host)}{colon}{port}"

    def packed(self, address: bytes) -> bytes:
        """The pseudonym of an IP address of 4 or 16 bytes."""
        try:
            known = ipaddress.ip_address(address)
        except ValueError:
            return b"x" * len(address)
        mapped = known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else None
        self.places += 1
        if mapped is not None:
            return address[:12] + ipaddress.ip_address(self.name(str(mapped))).packed
        return ipaddress.ip_address(self.name(str(known))).packed

    def field(self, data: bytes) -> bytes:
        """The bytes of a field named in FIELDS with its host replaced, also if the host was not learnt; of equal
        length.
        """
        whole = data.removeprefix(b"/")
        if whole and whole not in self._known:
            self._known.add(whole)
            self._within = None
        return self.content(data)

    def content(self, data: bytes) -> bytes:
        """The bytes of any field, in which pseudonyms of equal length replace the hosts.

        A field that is one learnt host is replaced as a whole. Within other fields these are replaced: learnt hosts of
        at least SHORTEST bytes, the hosts in URLs, and whatever looks like an IPv4 address.
        """
        whole = data.removeprefix(b"/")
        if whole in self._known:
            self.places += 1
            return data[: len(data) - len(whole)] + self._fake(whole)
        return self._pattern().sub(self._replace, data)

    def text(self, text: str) -> str:
        """A text in which pseudonyms replace the hosts, by the rules of `content`."""
        return self.content(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def inside(self, data: Iterable[bytes | None]) -> bool:
        """Whether one of these byte strings contains a host."""
        pattern = self._pattern()
        return any(one is not None and (one in self._known or pattern.search(one)) for one in data)

    def _replace(self, match: re.Match[bytes]) -> bytes:
        self.places += 1
        return self._fake(match[0])

    def _pattern(self) -> re.Pattern[bytes]:
        """The pattern of hosts within other bytes: learnt hosts, hosts in URLs, and everything like an IPv4 address."""
        if self._within is None:
            # The longest first, because one name may begin with another.
            names = sorted((name for name in self._known if len(name) >= SHORTEST), key=len, reverse=True)
            self._within = re.compile(b"|".join([_IN_URL, *map(re.escape, names), _IPV4]), re.IGNORECASE)
        return self._within

    def _fake(self, name: bytes) -> bytes:
        """The pseudonym of a host, which is made on first use."""
        if name not in self._fakes:
            make = _maker(name)
            # There may be too few pseudonyms for short names; then two hosts share one.
            others = (make(name, self._stream(name, attempt)) for attempt in range(_ATTEMPTS))
            fake = next((one for one in others if one not in self._used and one not in self._known), None)
            self._fakes[name] = make(name, self._stream(name, 0)) if fake is None else fake
            self._used.add(self._fakes[name])
        return self._fakes[name]

    def _stream(self, name: bytes, attempt: int) -> Iterator[int]:
        """An endless sequence of pseudorandom bytes that depend on the name, the attempt and the salt."""
        block = 0
        while True:
            yield from blake2b(b"%d %d " % (attempt, block) + name, key=self._salt).digest()
            block += 1


def _maker(name: bytes) -> Callable[[bytes, Iterator[int]], bytes]:
    text = name.decode("utf-8", "replace")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return _other_name
    return _other_ipv4 if address.version == 4 else _other_ipv6


def _other_ipv4(name: bytes, numbers: Iterator[int]) -> bytes:
    """An IPv4 address whose parts have as many digits as the parts of `name`."""
    lowest, spans = {1: 1, 2: 10, 3: 100}, {1: 9, 2: 90, 3: 124}
    parts = [len(part) for part in name.split(b".")]
    return b".".join(b"%d" % (lowest[size] + next(numbers) % spans[size]) for size in parts)


def _other_ipv6(name: bytes, numbers: Iterator[int]) -> bytes:
    """An IPv6 address in the notation of `name` with other digits, without leading zeros or zero groups."""
    if b"." in name:  # an address whose last 32 bits are in IPv4 notation
        head, _, tail = name.rpartition(b":")
        return head + b":" + _other_ipv4(tail, numbers)
    groups = name.split(b":")
    return b":".join(b"".join(b"%x" % (next(numbers) % 15 + 1) for _ in group) for group in groups)


def _other_name(name: bytes, numbers: Iterator[int]) -> bytes:
    """A name of random letters with dots where `name` has them."""
    return bytes(0x2E if byte == 0x2E else 0x61 + next(numbers) % 26 for byte in name)


def _named(values: Any) -> Iterator[str]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            if name in FIELDS and isinstance(value, str):
                yield value
            else:
                yield from _named(value)
    elif isinstance(values, list):
        for value in values:
            yield from _named(value)
    elif isinstance(values, str):
        for match in _URL.finditer(values):
            yield match[1]
