"""Reads IP packets one by one, for link.py: fragments, extension headers, tunnels."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeAlias

from kproxy.captures.formats import unread

IPV4, IPV6 = 0x0800, 0x86DD
VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
MPLS, MPLS_MULTICAST, PPPOE, TRANSPARENT_ETHERNET = 0x8847, 0x8848, 0x8864, 0x6558
UNDER_ETHERNET = TRANSPARENT_ETHERNET
FRAMED = (MPLS, MPLS_MULTICAST, PPPOE)
"""EtherTypes of protocols that carry IP behind a header of their own."""
LONGEST_LLC = 1500
"""Maximum value of an EtherType field that is not an EtherType but the length of an LLC frame (IEEE 802.3)."""
_SNAP = (b"\xaa\xaa\x03\0\0\0", b"\xaa\xaa\x03\0\0\xf8")
"""LLC and SNAP headers before an EtherType (RFC 1042; IEEE 802.1H between bridges)."""
TCP, UDP, IP_IN_IP, IPV6_IN_IP, GRE = 6, 17, 4, 41, 47
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, MOBILITY, HIP, SHIM6 = 0, 43, 44, 51, 60, 135, 139, 140
TUNNELS = (IP_IN_IP, IPV6_IN_IP, GRE, AUTHENTICATION)
"""IP protocol numbers that may carry IP, or precede TCP in IPv4."""
EXTENSIONS = (HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, MOBILITY, HIP, SHIM6)
VXLAN, VXLAN_LINUX, VXLAN_GPE, GENEVE, MPLS_IN_UDP, GTP_U = 4789, 8472, 4790, 6081, 6635, 2152
TUNNEL_PORTS = (VXLAN, VXLAN_LINUX, VXLAN_GPE, GENEVE, MPLS_IN_UDP, GTP_U)
GPE_PROTOCOLS = {1: 0x0800, 2: 0x86DD, 3: 0x6558, 4: 0x894F, 5: 0x8847}
"""EtherType by protocol number of VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe)."""
GTP_USER_DATA = 0xFF
"""The type of a GTP-U message that carries a packet."""
ERSPAN, ERSPAN_3 = 0x88BE, 0x22EB
"""EtherTypes of ERSPAN I and II, and of ERSPAN III: mirrored Ethernet frames in GRE (draft-foschiano-erspan)."""
_PSEUDOWIRE = -1
"""Used in place of an EtherType for content other than IP behind MPLS labels (RFC 4385)."""
DEEPEST = 8
"""Maximum depth of encapsulation."""
FIN, CLOSED = 0x01, 0x100
"""Flags of captures.tcp.packets."""
MOST_FRAGMENTED = 1024
"""Maximum number of fragmented packets whose state is kept."""
LONGEST_WAIT = 60_000_000_000
"""Nanoseconds after which an IP identification may belong to another packet (RFC 1122)."""
MOST_PIECES = 64
"""Maximum number of fragments kept while the first is missing; a packet of 65,535 bytes has 45 at the usual MTU."""

Row: TypeAlias = "tuple[int, bytes, int, int, int, int, int, int, int]"
"""A TCP segment: (position of its record, key of its direction, time, seq, ack, flags, payload's address, payload
length, captured payload length).
"""


@dataclass(slots=True)
class Record:
    """One packet: the position of its record in the batch, its time (ns), and where its bytes are.

    `base` is the address of the file's first byte, `end` the file offset after the packet's captured bytes, `beyond`
    the number of bytes that were not captured.
    """

    position: int
    time: int
    base: int
    end: int
    beyond: int


@dataclass(slots=True)
class Piece:
    """An IP fragment: its payload's address, offset in the whole packet, length, and captured length; whether it is the
    last.
    """

    time: int
    at: int
    offset: int
    length: int
    held: int
    last: bool


class Fragmented:
    """The state of a fragmented packet: fragments wait in `pieces` until the first fragment gives `key` and `header`.

    `key` is that of the packet's direction, `header` is (seq, ack, flags, length in bytes) of the TCP header.
    """

    __slots__ = ("header", "key", "pieces", "time")

    def __init__(self, time: int) -> None:
        self.time = time
        self.key: bytes | None = None
        self.header: tuple[int, int, int, int] = (0, 0, 0, 0)
        self.pieces: list[Piece] = []


class Plain:
    """Finds the TCP segments in single packets, through all encapsulations."""

    def __init__(self) -> None:
        self._fragmented: OrderedDict[bytes, Fragmented] = OrderedDict()
        self.incomplete = 0
        self.unread: dict[str, int] = {}
        """By name, the number of packets of unsupported links and tunnels."""

    def leave(self, name: str) -> None:
        """Count a packet of the unsupported link or tunnel `name`."""
        self.unread[name] = self.unread.get(name, 0) + 1

    @property
    def fragmented(self) -> bool:
        """Whether further fragments of a packet may come."""
        return bool(self._fragmented)

    def read(self, view: memoryview, at: int, protocol: int, record: Record, rows: list[Row]) -> None:
        """Append the TCP segments of a packet to `rows`; its network layer starts at `at` and has the EtherType
        `protocol`.
        """
        end = record.end
        for depth in range(DEEPEST):
            step = None
            if protocol == IPV4:
                step = self._ipv4(view, at, end, record, rows)
            elif protocol == IPV6:
                step = self._ipv6(view, at, end, record, rows)
            elif protocol == UNDER_ETHERNET:
                step = (at + 14, end, _short(view, at + 12)) if at + 14 <= end else None
            elif protocol in VLAN_TAGS:
                step = (at + 4, end, _short(view, at + 2)) if at + 4 <= end else None
            elif protocol in {MPLS, MPLS_MULTICAST}:
                step = _mpls(view, at, end)
            elif protocol == PPPOE and at + 8 <= end:
                step = (at + 8, end, {0x21: IPV4, 0x57: IPV6}.get(_short(view, at + 6), 0))
            elif 0 < protocol <= LONGEST_LLC:
                step = (at + 8, end, _short(view, at + 6)) if at + 8 <= end and view[at : at + 6] in _SNAP else None
            elif protocol == _PSEUDOWIRE:
                self.leave(unread.PSEUDOWIRE)
            elif protocol not in unread.QUIET and (depth or protocol in unread.ETHERTYPES):
                self.leave(unread.ethertype(protocol))
            if step is None:
                return
            at, end, protocol = step
        self.leave(unread.TOO_DEEP)

    def _ipv4(
        self, view: memoryview, at: int, end: int, record: Record, rows: list[Row]
    ) -> tuple[int, int, int] | None:
        if at + 20 > end or view[at] >> 4 != 4 or (header := (view[at] & 15) * 4) < 20:
            return None
        total = _short(view, at + 2)
        stop = at + total if total else end + record.beyond
        fragment = _short(view, at + 6)
        layer4, kind = at + header, view[at + 9]
        if layer4 > stop:
            return None
        addresses = bytes(view[at + 12 : at + 20])
        if fragment & 0x3FFF:
            if kind == TCP:
                name = addresses + bytes(view[at + 4 : at + 6])
                last = not fragment & 0x2000
                self._piece(view, name, (layer4, end, stop), (fragment & 0x1FFF) * 8, last, record, rows)
            return None
        return self._layer4(view, addresses, kind, (layer4, end, stop), record, rows)

    def _ipv6(
        self, view: memoryview, at: int, end: int, record: Record, rows: list[Row]
    ) -> tuple[int, int, int] | None:
        if at + 40 > end or view[at] >> 4 != 6:
            return None
        length = _short(view, at + 4)
        stop = at + 40 + length if length else end + record.beyond
        addresses = bytes(view[at + 8 : at + 40])
        kind, layer4 = view[at + 6], at + 40
        while kind in EXTENSIONS:
            if layer4 + 8 > min(end, stop):
                return None
            following = view[layer4]
            if kind == FRAGMENT:
                fragment = _short(view, layer4 + 2)
                if fragment & 0xFFF9:
                    if following == TCP:
                        name = addresses + bytes(view[layer4 + 4 : layer4 + 8])
                        span = (layer4 + 8, end, stop)
                        self._piece(view, name, span, fragment & 0xFFF8, not fragment & 1, record, rows)
                    return None
                layer4 += 8
            elif kind == AUTHENTICATION:
                layer4 += (view[layer4 + 1] + 2) * 4
            else:
                layer4 += (view[layer4 + 1] + 1) * 8
            kind = following
        if layer4 > stop:
            return None
        return self._layer4(view, addresses, kind, (layer4, end, stop), record, rows)

    def _layer4(
        self, view: memoryview, addresses: bytes, kind: int, span: tuple[int, int, int], record: Record, rows: list[Row]
    ) -> tuple[int, int, int] | None:
        """Append the row of a TCP segment; of a tunnel, return (offset, end, EtherType) of its content instead.

        `span` is (offset of the layer, end of the captured bytes, end of the whole packet).
        """
        at, end, stop = span
        if kind == TCP:
            if at + 14 <= min(end, stop):
                payload = at + (view[at + 12] >> 4) * 4
                length = max(stop - payload, 0)
                held = min(max(end - payload, 0), length)
                key = addresses + bytes(view[at : at + 4])
                address = record.base + min(payload, end)
                rows.append((record.position, key, record.time, *_tcp(view, at), address, length, held))
            return None
        end = min(end, stop)
        if kind == AUTHENTICATION and at + 8 <= end:
            following = at + (view[at + 1] + 2) * 4
            if view[at] == AUTHENTICATION or following > stop:
                return None
            return self._layer4(view, addresses, view[at], (following, span[1], stop), record, rows)
        if kind == IP_IN_IP:
            return at, end, IPV4
        if kind == IPV6_IN_IP:
            return at, end, IPV6
        if kind == GRE and at + 4 <= end:
            flags = _short(view, at)
            if flags & 7:
                self.leave(unread.PPTP)  # the content is compressed or encrypted
                return None
            header = 4 + sum(4 for bit in (0x8000, 0x2000, 0x1000) if flags & bit)
            return _gre(view, at + header, end, _short(view, at + 2), numbered=bool(flags & 0x1000))
        if kind == UDP and at + 16 <= end:
            port = _short(view, at + 2)
            if port in {VXLAN, VXLAN_LINUX}:
                return at + 16, end, UNDER_ETHERNET
            if port == VXLAN_GPE:
                return at + 16, end, GPE_PROTOCOLS.get(view[at + 11], 0)
            if port == GENEVE:
                return at + 16 + (view[at + 8] & 0x3F) * 4, end, _short(view, at + 10)
            if port == MPLS_IN_UDP:
                return at + 8, end, MPLS
            if port == GTP_U:
                return _gtp(view, at + 8, end)
            if port in unread.PORTS:
                self.leave(unread.PORTS[port])
        elif kind in unread.PROTOCOLS:
            self.leave(unread.PROTOCOLS[kind])
        return None

    def _piece(
        self,
        view: memoryview,
        name: bytes,
        span: tuple[int, int, int],
        offset: int,
        last: bool,
        record: Record,
        rows: list[Row],
    ) -> None:
        """Add a fragment of the packet that `name` identifies; fragments wait for the first one, which has the TCP
        header.
        """
        at, end, stop = span
        whole = self._fragmented.get(name)
        if whole is None or (offset == 0 and whole.key is not None) or abs(record.time - whole.time) > LONGEST_WAIT:
            whole = self._fragmented[name] = Fragmented(record.time)
            if len(self._fragmented) > MOST_FRAGMENTED:
                self._fragmented.popitem(last=False)
        length = stop - at
        piece = Piece(record.time, record.base + min(at, end), offset, length, min(max(end - at, 0), length), last)
        if offset == 0:
            if at + 14 > min(end, stop):
                return
            whole.key = name[: len(name) - (2 if len(name) == 10 else 4)] + bytes(view[at : at + 4])
            whole.header = (*_tcp(view, at), (view[at + 12] >> 4) * 4)
            rows.extend(_row(whole, each, record.position) for each in (piece, *whole.pieces))
            self.incomplete -= len(whole.pieces)
            whole.pieces = []
        elif whole.key is not None:
            rows.append(_row(whole, piece, record.position))
        else:
            self.incomplete += 1
            if len(whole.pieces) < MOST_PIECES:
                whole.pieces.append(piece)


def _row(whole: Fragmented, piece: Piece, position: int) -> Row:
    """The row of the TCP payload in a fragment of the packet `whole`."""
    seq, ack, flags, header = whole.header
    skip = max(0, header - piece.offset)
    if not piece.last:
        flags &= ~FIN  # a FIN belongs to the last byte, which is in another fragment
    return (
        position,
        whole.key or b"",
        piece.time,
        (seq + piece.offset + skip - header) & 0xFFFF_FFFF,
        ack,
        flags,
        piece.at + min(skip, piece.held),
        max(piece.length - skip, 0),
        max(piece.held - skip, 0),
    )


def _tcp(view: memoryview, at: int) -> tuple[int, int, int]:
    """(sequence number, acknowledgement number, flags with CLOSED) of the TCP header at `at`."""
    flags = view[at + 13] | (CLOSED if view[at + 14 : at + 16] == bytes(2) else 0)
    return int.from_bytes(view[at + 4 : at + 8], "big"), int.from_bytes(view[at + 8 : at + 12], "big"), flags


def _gre(view: memoryview, at: int, end: int, protocol: int, *, numbered: bool) -> tuple[int, int, int]:
    """(offset, end, EtherType) of the content of GRE, whose header ends at `at` and has a sequence number if
    `numbered`.

    ERSPAN II and III have a further header before the mirrored Ethernet frame; ERSPAN I, which is not numbered, has
    none.
    """
    if protocol == ERSPAN:
        return at + (8 if numbered else 0), end, UNDER_ETHERNET
    if protocol == ERSPAN_3:
        platform = at + 12 <= end and view[at + 11] & 1
        return at + (20 if platform else 12), end, UNDER_ETHERNET
    return at, end, protocol


def _gtp(view: memoryview, at: int, end: int) -> tuple[int, int, int] | None:
    """(offset, end, EtherType) of the packet in a GTP-U message (3GPP TS 29.281, chapter 5); None if it holds none."""
    if view[at] >> 4 != 3 or view[at + 1] != GTP_USER_DATA:
        return None
    optional, at = view[at] & 7, at + 8
    if optional:
        at += 4
        while at < end and view[at - 1]:
            if not view[at]:
                return None
            at += view[at] * 4
    return (at, end, {4: IPV4, 6: IPV6}.get(view[at] >> 4, 0)) if at < end else None


def _mpls(view: memoryview, at: int, end: int) -> tuple[int, int, int] | None:
    for _ in range(DEEPEST):
        if at + 5 > end:
            return None
        bottom = view[at + 2] & 1
        at += 4
        if bottom:
            return at, end, {4: IPV4, 6: IPV6}.get(view[at] >> 4, _PSEUDOWIRE)
    return None


def _short(view: memoryview, at: int) -> int:
    return view[at] << 8 | view[at + 1]
