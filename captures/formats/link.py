"""From packet records to TCP segments: link layers, IPv4 and IPv6.

What nearly every packet is (TCP in IP in a known link layer, perhaps VLAN-tagged) is read for all records at once.
What is left over (fragments, extension headers, tunnels) goes packet by packet through plain.py, link layers that
neither knows through scapy.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from captures.formats.gather import Bytes
from captures.formats.plain import (
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
from captures.formats.records import Records
from captures.tcp.packets import Ints, Packets

NULL, ETHERNET, RAW_BSD, RAW_OPENBSD, RAW, CISCO_HDLC, LOOP, COOKED, RAW_IPV4, RAW_IPV6, COOKED2 = (
    0, 1, 12, 14, 101, 104, 108, 113, 228, 229, 276,
)  # fmt: skip
"""LINKTYPE_ numbers of the registry kept by tcpdump; 12 and 14 are what some systems' DLT_RAW left in files."""
KNOWN = frozenset({NULL, ETHERNET, RAW_BSD, RAW_OPENBSD, RAW, CISCO_HDLC, LOOP, COOKED, RAW_IPV4, RAW_IPV6, COOKED2})
SHORTEST_TCP = 14
"""Bytes of a TCP header up to its flags."""
MOST_TAGS = 4

Mask: TypeAlias = npt.NDArray[np.bool_]
Tcp: TypeAlias = "tuple[list[bytes], Ints, Ints, Ints, Ints, Ints]"
"""Keys, seq, ack, flags, payload offset, payload length."""
Found: TypeAlias = "tuple[Ints, Tcp]"
"""Positions among the records, and what is there."""


class LinkLayers:
    """Turns the records of a capture into TCP segments; keeps the fragments of one packet between calls."""

    def __init__(self) -> None:
        self._plain = Plain()
        self.unknown: set[int] = set()
        """Link-layer types that could not be read."""

    @property
    def incomplete(self) -> int:
        """Fragments whose first one, with the TCP header, has not been seen."""
        return self._plain.incomplete

    @property
    def fragmented(self) -> bool:
        """Whether packets came in fragments, some of which may be still to come."""
        return self._plain.fragmented

    def segments(self, view: memoryview, records: Records, base: int) -> Packets:
        """The TCP segments of `records`, whose offsets are in `view`; addresses start at `base`."""
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
        odd = _one_of(protocol, FRAMED) | ((protocol > 0) & (protocol <= LONGEST_LLC))
        for ip, family in ((4, IPV4), (6, IPV6)):
            mine = np.flatnonzero((protocol == family) & (layer3 + (20 if ip == 4 else 40) <= end))
            if not len(mine):
                continue
            wire = data[mine] + records.wire[which[mine]]
            read = _ipv4 if ip == 4 else _ipv6
            plain, strange, result = read(held, layer3[mine], end[mine], wire)
            odd[mine[strange]] = True
            if result is not None:
                found.append((which[mine[plain]], result))
        for i in np.flatnonzero(odd).tolist():
            self._plain.read(view, int(layer3[i]), int(protocol[i]), _record(records, int(which[i]), base), rows)

    def _through_scapy(
        self, view: memoryview, records: Records, link: int, which: Ints, base: int, rows: list[Row]
    ) -> None:
        from captures.formats.odd import find_ip

        for i in which.tolist():
            start, record = int(records.data[i]), _record(records, i, base)
            place = find_ip(link, bytes(view[start : record.end]))
            if place is None:
                self.unknown.add(link)
            elif place:
                offset, protocol = place
                self._plain.read(view, start + offset, protocol, record, rows)


def _one_of(column: npt.NDArray[Any], numbers: tuple[int, ...]) -> Mask:
    """np.isin for a few numbers, which sorts."""
    found: Mask = column == numbers[0]
    for number in numbers[1:]:
        found |= column == number
    return found


def _network_layer(held: Bytes, link: int, data: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Where the network layer of each packet starts, and its EtherType (0 where there is none)."""
    count = len(data)
    protocol = np.zeros(count, np.int64)
    if link in {RAW, RAW_BSD, RAW_OPENBSD, RAW_IPV4, RAW_IPV6}:
        some = np.flatnonzero(data < end)
        version = held.view("u1")[data[some]] >> 4
        protocol[some] = np.where(version == 4, IPV4, np.where(version == 6, IPV6, 0))
        return data, protocol
    if link in {NULL, LOOP}:
        some = np.flatnonzero(data + 4 <= end)
        family = held.view("<u4")[data[some]].astype(np.int64)
        # The family is in the byte order of the machine that captured (NULL) or of the network (LOOP).
        family = np.where(family > 0xFFFF, family >> 24, family)
        # AF_INET6 is another number on every system.
        protocol[some] = np.where(family == 2, IPV4, np.where(np.isin(family, (10, 23, 24, 28, 30)), IPV6, 0))
        return data + 4, protocol
    place, header = {ETHERNET: (12, 14), COOKED: (14, 16), COOKED2: (0, 20), CISCO_HDLC: (2, 4)}[link]
    some = np.flatnonzero(data + header <= end)
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


def _ipv4(held: Bytes, at: Ints, end: Ints, wire: Ints) -> tuple[Ints, Mask, Tcp | None]:
    """TCP over IPv4: which packets are plain, which need a closer look, and the plain ones' columns."""
    u8, u16 = held.view("u1"), held.view(">u2")
    first = u8[at].astype(np.int64)
    kind = u8[at + 9]
    fragment = (u16[at + 6] & 0x3FFF) != 0
    is_ip = ((first >> 4) == 4) & ((first & 15) >= 5)
    layer4 = at + (first & 15) * 4
    tcp = is_ip & (kind == TCP)
    strange = (tcp & fragment) | (is_ip & _one_of(kind, TUNNELS))
    udp = np.flatnonzero(is_ip & (kind == UDP) & ~fragment & (layer4 + 4 <= end))
    if len(udp):
        strange[udp[np.isin(u16[layer4[udp] + 2], TUNNEL_PORTS)]] = True
    plain = np.flatnonzero(tcp & ~fragment & (layer4 + SHORTEST_TCP <= end))
    if not len(plain):
        return plain, strange, None
    at, layer4 = at[plain], layer4[plain]
    total = u16[at + 2].astype(np.int64)
    # A total length of 0 is what segmentation offloading leaves.
    ends = np.where(total == 0, wire[plain], at + total)
    if (first[plain] == 0x45).all():
        keys = held.view("V12")[at + 12].tolist()
    else:
        key = np.empty((len(at), 12), np.uint8)
        key[:, :8] = u8[at[:, None] + np.arange(12, 20)]
        key[:, 8:] = u8[layer4[:, None] + np.arange(4)]
        keys = key.view("V12")[:, 0].tolist()
    return plain, strange, (keys, *_tcp(held, layer4, ends))


def _ipv6(held: Bytes, at: Ints, end: Ints, wire: Ints) -> tuple[Ints, Mask, Tcp | None]:
    """As _ipv4, for IPv6 without extension headers."""
    u8 = held.view("u1")
    is_ip = (u8[at] >> 4) == 6
    kind = u8[at + 6]
    layer4 = at + 40
    strange = is_ip & (_one_of(kind, EXTENSIONS) | _one_of(kind, TUNNELS))
    udp = np.flatnonzero(is_ip & (kind == UDP) & (layer4 + 4 <= end))
    if len(udp):
        strange[udp[np.isin(held.view(">u2")[layer4[udp] + 2], TUNNEL_PORTS)]] = True
    plain = np.flatnonzero(is_ip & (kind == TCP) & (layer4 + SHORTEST_TCP <= end))
    if not len(plain):
        return plain, strange, None
    at, layer4 = at[plain], layer4[plain]
    length = held.view(">u2")[at + 4].astype(np.int64)
    ends = np.where(length == 0, wire[plain], layer4 + length)
    return plain, strange, (held.view("V36")[at + 8].tolist(), *_tcp(held, layer4, ends))


def _tcp(held: Bytes, at: Ints, ends: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """seq, ack, flags, payload offset and payload length of the TCP headers at `at`, whose packets end at `ends`."""
    u8, u32 = held.view("u1"), held.view(">u4")
    payload = at + ((u8[at + 12] >> 4).astype(np.int64) << 2)
    return (
        u32[at + 4].astype(np.int64),
        u32[at + 8].astype(np.int64),
        u8[at + 13].astype(np.int64),
        payload,
        np.maximum(ends - payload, 0),
    )


def _record(records: Records, position: int, base: int) -> Record:
    captured = int(records.captured[position])
    beyond = max(int(records.wire[position]) - captured, 0)
    return Record(position, int(records.time[position]), base, int(records.data[position]) + captured, beyond)


def _packets(records: Records, found: list[Found], rows: list[Row], base: int) -> Packets:
    """One batch in capture order from what the paths found."""
    whole: list[tuple[Ints, list[bytes], list[Ints]]] = []
    for which, (keys, seq, ack, flags, payload, length) in found:
        end = records.data[which] + records.captured[which]
        # Even a payload of which nothing was captured has an address in its own packet.
        at = np.minimum(payload, end)
        stored = np.minimum(end - at, length)
        whole.append((which, keys, [records.time[which], seq, ack, flags, at + base, length, stored]))
    if rows:
        numbers = np.array([row[2:] for row in rows], np.int64)
        positions = np.array([row[0] for row in rows], np.int64)
        whole.append((positions, [row[1] for row in rows], [numbers[:, i] for i in range(7)]))
    if not whole:
        none = np.empty(0, np.int64)
        return Packets([], none, none, none, none, none, none, none)
    which, keys, columns = whole[0]
    if len(whole) > 1:
        which = np.concatenate([part[0] for part in whole])
        order = np.argsort(which, kind="stable")
        which = which[order]
        keys = [key for part in whole for key in part[1]]
        keys = [keys[i] for i in order.tolist()]
        columns = [np.concatenate([part[2][i] for part in whole])[order] for i in range(7)]
    comments: dict[int, str] = {}
    if records.comments:
        comments = {i: records.comments[n] for i, n in enumerate(which.tolist()) if n in records.comments}
    time, seq, ack, flags, at, length, stored = columns
    return Packets(keys, time, seq, ack, flags, at, length, stored, comments)
