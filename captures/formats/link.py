"""Turns packet records into TCP segments: link layers, IPv4 and IPv6.

The usual packets (TCP in IP in a known link layer, perhaps VLAN-tagged) are read for all records at once. Others
(fragments, extension headers, tunnels) are read one by one by plain.py, and unknown link layers by scapy.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kproxy.captures.formats import unread
from kproxy.captures.formats.gather import Bytes
from kproxy.captures.formats.plain import (
    EXTENSIONS,
    FRAMED,
    IPV4,
    IPV6,
    LONGEST_LLC,
    TCP,
    TUNNEL_PORTS,
    TUNNELS,
    UDP,
    VLAN_TAGS,
    Plain,
    Record,
    Row,
)
from kproxy.captures.formats.records import Records
from kproxy.captures.tcp.packets import CLOSED, Ints, Mask, Packets, Where, joined, nothing, numbered, where

NULL, ETHERNET, RAW_BSD, RAW_OPENBSD, RAW, CISCO_HDLC, LOOP, COOKED, RAW_IPV4, RAW_IPV6, COOKED2 = (
    0, 1, 12, 14, 101, 104, 108, 113, 228, 229, 276,
)  # fmt: skip
"""LINKTYPE_ numbers from tcpdump's registry; 12 and 14 are numbers that some systems write for raw IP."""
KNOWN = frozenset({NULL, ETHERNET, RAW_BSD, RAW_OPENBSD, RAW, CISCO_HDLC, LOOP, COOKED, RAW_IPV4, RAW_IPV6, COOKED2})
IPV4_HEADER = np.dtype([
    ("version", "u1"), ("service", "u1"), ("total", ">u2"), ("identification", ">u2"), ("fragment", ">u2"),
    ("ttl", "u1"), ("kind", "u1"), ("checksum", ">u2"), ("addresses", "V8"),
])  # fmt: skip
IPV6_HEADER = np.dtype([
    ("version", "u1"), ("flow", "V3"), ("length", ">u2"), ("kind", "u1"), ("hops", "u1"), ("addresses", "V32"),
])  # fmt: skip
TCP_HEADER = np.dtype([("ports", "V4"), ("seq", ">u4"), ("ack", ">u4"), ("offset", "u1"), ("flags", "u1")])
"""The TCP header from the ports to the flags."""
WINDOW = 14
"""Offset of the receive window in a TCP header."""
MOST_TAGS = 4
_ODD_TYPES = (*FRAMED, *VLAN_TAGS, *unread.ETHERTYPES)
_ODD_PROTOCOLS = (*TUNNELS, *unread.PROTOCOLS)
_ODD_LAYERS = (*EXTENSIONS, *_ODD_PROTOCOLS)
_ODD_PORTS = (*TUNNEL_PORTS, *unread.PORTS)
"""UDP ports whose packets plain.py reads, or counts as unsupported tunnels by name."""

Columns: TypeAlias = npt.NDArray[Any]
Tcp: TypeAlias = "tuple[list[bytes], Ints, Ints, Ints, Ints, Ints, Ints]"
"""(keys of directions; for each packet: index of its direction, seq, ack, flags, payload's file offset, payload
length).
"""
Found: TypeAlias = "tuple[Ints, Tcp]"
"""(positions of records in their batch, the TCP columns of these records)."""


class LinkLayers:
    """Turns the records of a capture into TCP segments; IP fragments are kept from call to call."""

    def __init__(self) -> None:
        self._plain = Plain()
        self.unknown: set[int] = set()
        """Link-layer types that kproxy cannot read, of the packets since `take_unknown` was called."""

    @property
    def incomplete(self) -> int:
        """Number of IP fragments that cannot be used, because the first fragment of their packet, with the TCP header,
        is missing.
        """
        return self._plain.incomplete

    def take_unknown(self) -> set[int]:
        """Returns `unknown`, and forgets it: the file ends whose packets were read."""
        found, self.unknown = self.unknown, set()
        return found

    @property
    def unread(self) -> dict[str, int]:
        """By name, the number of packets of unsupported links and tunnels."""
        return self._plain.unread

    @property
    def fragmented(self) -> bool:
        """Whether further fragments of a packet may come."""
        return self._plain.fragmented

    def segments(self, view: memoryview, records: Records, base: int) -> Packets:
        """The TCP segments of `records`; `view` holds the file's bytes, the first of which has address `base`."""
        return self.numbered(view, records, base)[1]

    def numbered(self, view: memoryview, records: Records, base: int) -> tuple[Ints, Packets]:
        """(for each segment, the index of its record; the segments), as `segments`.

        The record of a segment in IP fragments is that of the fragment that came last.
        """
        held = Bytes(view)
        found: list[Found] = []
        rows: list[Row] = []
        if isinstance(records.link, int):
            self._one_link(held, view, records, records.link, np.arange(len(records)), base, found, rows)
        else:
            for link in np.unique(records.link).tolist():
                self._one_link(held, view, records, link, np.flatnonzero(records.link == link), base, found, rows)
        return _packets(records, found, rows, base)

    def _one_link(
        self,
        held: Bytes,
        view: memoryview,
        records: Records,
        link: int,
        which: Ints,
        base: int,
        found: list[Found],
        rows: list[Row],
    ) -> None:
        data = records.data[which]
        end = data + records.captured[which]
        if link not in KNOWN:
            self._through_scapy(view, records, link, which, base, rows)
            return
        layer3, protocol = _network_layer(held, link, data, end)
        odd = (protocol != IPV4) & (protocol != IPV6) & (protocol > 0)
        if odd.any():
            odd &= _one_of(protocol, _ODD_TYPES) | (protocol <= LONGEST_LLC)
        for family, size, read in ((IPV4, IPV4_HEADER.itemsize, _ipv4), (IPV6, IPV6_HEADER.itemsize, _ipv6)):
            mine = where((protocol == family) & (layer3 + size <= end))
            at, of = layer3[mine], which[mine]
            if not len(at):
                continue
            plain, strange, result = read(held, at, end[mine], data[mine] + records.wire[of])
            odd[mine] |= strange
            if result is not None:
                found.append((of[plain], result))
        for i in np.flatnonzero(odd).tolist():
            self._plain.read(view, int(layer3[i]), int(protocol[i]), _record(records, int(which[i]), base), rows)

    def _through_scapy(
        self, view: memoryview, records: Records, link: int, which: Ints, base: int, rows: list[Row]
    ) -> None:
        from kproxy.captures.formats.odd import find_ip

        for i in which.tolist():
            start, record = int(records.data[i]), _record(records, i, base)
            place = find_ip(link, bytes(view[start : record.end]))
            if place is None:
                self.unknown.add(link)
                self._plain.leave(unread.link(link))
            elif place:
                offset, protocol = place
                self._plain.read(view, start + offset, protocol, record, rows)


def _one_of(column: npt.NDArray[Any], numbers: tuple[int, ...]) -> Mask:
    """For each item of a column, whether it is one of a few numbers: np.isin without its sorting."""
    found: Mask = column == numbers[0]
    for number in numbers[1:]:
        found |= column == number
    return found


def _network_layer(held: Bytes, link: int, data: Ints, end: Ints) -> tuple[Ints, Ints]:
    """For each packet: offset of its network layer, EtherType of that layer (0 if there is none).

    `data` and `end` are the offsets of the packet's first byte and of its end.
    """
    count = len(data)
    protocol = np.zeros(count, np.int64)
    if link in {RAW, RAW_BSD, RAW_OPENBSD, RAW_IPV4, RAW_IPV6}:
        some = where(data < end)
        version = held.view("u1")[data[some]] >> 4
        protocol[some] = np.where(version == 4, IPV4, np.where(version == 6, IPV6, 0))
        return data, protocol
    if link in {NULL, LOOP}:
        some = where(data + 4 <= end)
        family = held.view("<u4")[data[some]].astype(np.int64)
        # The address family is in the byte order of the machine that captured (NULL) or of the network (LOOP).
        family = np.where(family > 0xFFFF, family >> 24, family)
        # The number of AF_INET6 differs between systems.
        protocol[some] = np.where(family == 2, IPV4, np.where(np.isin(family, (10, 23, 24, 28, 30)), IPV6, 0))
        return data + 4, protocol
    place, header = {ETHERNET: (12, 14), COOKED: (14, 16), COOKED2: (0, 20), CISCO_HDLC: (2, 4)}[link]
    some = where(data + header <= end)
    protocol[some] = held.view(">u2")[data[some] + place]
    layer3 = data + header
    for _ in range(MOST_TAGS):
        tagged = _one_of(protocol, VLAN_TAGS)
        if not tagged.any():
            break
        whole = np.flatnonzero(tagged & (layer3 + 4 <= end))
        protocol[tagged] = 0
        protocol[whole] = held.view(">u2")[layer3[whole] + 2]
        layer3[whole] += 4
    return layer3, protocol


def _ipv4(held: Bytes, at: Ints, end: Ints, wire: Ints) -> tuple[Where, Mask, Tcp | None]:
    """(positions of packets with plain TCP, mask of packets for plain.py, TCP columns of the former) for IPv4 headers
    at `at`.

    `end` is where each packet's captured bytes end, `wire` where all its bytes would end. The columns are None without
    packets.
    """
    header = held.items(IPV4_HEADER, at)
    version, kind = header["version"], header["kind"]
    fragment = (header["fragment"] & 0x3FFF) != 0
    is_ip = ((version >> 4) == 4) & ((version & 15) >= 5)
    layer4 = at + (version & 15).astype(np.int64) * 4
    tcp = is_ip & (kind == TCP)
    strange = tcp & fragment
    others = is_ip & (kind != TCP)
    if others.any():
        strange |= others & _one_of(kind, _ODD_PROTOCOLS)
        _udp(held, others & (kind == UDP) & ~fragment & (layer4 + 4 <= end), layer4, strange)
    plain = where(tcp & ~fragment & (layer4 + TCP_HEADER.itemsize <= end))
    header, at = header[plain], at[plain]
    total = header["total"].astype(np.int64)
    # The total length is 0 in packets of segmentation offloading.
    ends = np.where(total == 0, wire[plain], at + total)
    return plain, strange, _tcp(held, header["addresses"], layer4[plain], ends)


def _ipv6(held: Bytes, at: Ints, end: Ints, wire: Ints) -> tuple[Where, Mask, Tcp | None]:
    """Like _ipv4, for IPv6 without extension headers."""
    header = held.items(IPV6_HEADER, at)
    kind = header["kind"]
    is_ip = (header["version"] >> 4) == 6
    layer4 = at + IPV6_HEADER.itemsize
    strange = is_ip & (kind != TCP)
    if strange.any():
        udp = strange & (kind == UDP) & (layer4 + 4 <= end)
        strange &= _one_of(kind, _ODD_LAYERS)
        _udp(held, udp, layer4, strange)
    plain = where(is_ip & (kind == TCP) & (layer4 + TCP_HEADER.itemsize <= end))
    header, layer4 = header[plain], layer4[plain]
    length = header["length"].astype(np.int64)
    ends = np.where(length == 0, wire[plain], layer4 + length)
    return plain, strange, _tcp(held, header["addresses"], layer4, ends)


def _udp(held: Bytes, udp: Mask, layer4: Ints, strange: Mask) -> None:
    """Mark the UDP packets to ports of tunnels in `strange`, so that plain.py reads them."""
    some = np.flatnonzero(udp)
    if len(some):
        strange[some[np.isin(held.view(">u2")[layer4[some] + 2], _ODD_PORTS)]] = True


def _tcp(held: Bytes, addresses: Columns, at: Ints, ends: Ints) -> Tcp | None:
    """The TCP columns of packets with TCP headers at `at`; None without packets. `ends` is where each packet ends."""
    if not len(at):
        return None
    header = held.items(TCP_HEADER, at)
    payload = at + ((header["offset"] >> 4).astype(np.int64) << 2)
    return (
        *_directions(addresses, header["ports"]),
        header["seq"].astype(np.int64),
        header["ack"].astype(np.int64),
        header["flags"].astype(np.int64) | _closed(held, at),
        payload,
        np.maximum(ends - payload, 0),
    )


def _closed(held: Bytes, at: Ints) -> Ints:
    """CLOSED for each TCP header at `at` whose window is 0."""
    windows = held.view(">u2")
    found: Ints = (windows[np.minimum(at + WINDOW, len(windows) - 1)] == 0) * np.int64(CLOSED)
    return found


def _directions(addresses: Columns, ports: Columns) -> tuple[list[bytes], Ints]:
    """(distinct keys of directions, for each packet the index of its direction)."""
    key = np.dtype([("addresses", addresses.dtype), ("ports", ports.dtype)])
    keys = np.empty(len(ports), key)
    keys["addresses"], keys["ports"] = addresses, ports
    beginning, *inner, last = np.ascontiguousarray(keys.view("<u4").reshape(len(keys), -1).T)
    number = beginning.astype(np.int64)
    for word in (*(word for word in inner if (word != word[0]).any()), last):
        number = number << 32 | word  # packets equal in all words so far get the same number
        number = np.searchsorted(np.unique(number), number)
    first = np.empty(int(number.max()) + 1, np.int64)
    first[number] = np.arange(len(keys))
    return keys.view(f"V{key.itemsize}")[first].tolist(), number


def _record(records: Records, position: int, base: int) -> Record:
    captured = int(records.captured[position])
    beyond = max(int(records.wire[position]) - captured, 0)
    return Record(position, int(records.time[position]), base, int(records.data[position]) + captured, beyond)


def _packets(records: Records, found: list[Found], rows: list[Row], base: int) -> tuple[Ints, Packets]:
    """One batch in capture order, from the columns of usual packets (`found`) and the rows of plain.py; before it, the
    index of each packet's record.
    """
    parts: list[tuple[Ints, Packets]] = []
    for which, (directions, direction, seq, ack, flags, payload, length) in found:
        time, end = records.time[which], records.data[which] + records.captured[which]
        # A payload of which nothing was captured also gets an address within its packet.
        at = np.minimum(payload, end)
        stored = np.minimum(end - at, length)
        parts.append((which, Packets(directions, direction, time, seq, ack, flags, at + base, length, stored)))
    if rows:
        numbers = np.array([row[2:] for row in rows], np.int64)
        positions = np.array([row[0] for row in rows], np.int64)
        parts.append((positions, Packets(*numbered(row[1] for row in rows), *numbers.T)))
    if not parts:
        return np.empty(0, np.int64), nothing()
    which, packets = parts[0]
    if len(parts) > 1:
        which = np.concatenate([part[0] for part in parts])
        order = np.argsort(which, kind="stable")
        which, packets = which[order], joined([part[1] for part in parts]).some(order)
    if records.comments:
        packets.comments = {i: records.comments[n] for i, n in enumerate(which.tolist()) if n in records.comments}
    return which, packets
