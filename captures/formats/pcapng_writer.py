"""Makes blocks of pcapng files, and packets with synthetic TCP/IP headers around bytes of a stream.

Sources: draft-ietf-opsawg-pcapng (blocks and options), RFC 791, RFC 8200, RFC 9293 (headers). Everything is written
little-endian; synthetic packets have the link layer raw IP (LINKTYPE_RAW, 101), and times are nanoseconds.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence

from kproxy.captures.formats.compiled import Template

LINKTYPE_RAW = 101
MAX_PAYLOAD = 65_495
"""Maximum TCP payload in bytes of an IPv4 packet whose headers have no options."""

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

_OPT_COMMENT = 1
_SHB_USERAPPL = 4
_IF_NAME = 2
_IF_TSRESOL = 9
_ISB_IFRECV = 4
_ISB_IFDROP = 5

_MAX_COMMENT = 65_000

_SYN_OPTIONS = bytes((2, 4, 0xFF, 0xD7, 1, 3, 3, 14))
"""MSS 65,495 and a window scale of 14, so that the window never seems full."""

_PACKET = struct.Struct("<IIIIIII").pack
_IPV4_TCP = struct.Struct("!HHIHH12sIIHHHH")
_IPV6_TCP = struct.Struct("!IHBB36sIIHHHH")
"""The IPv6 and TCP headers as one structure; both addresses and both ports are one field."""
_PADDING = tuple(bytes(size) for size in range(4))


def _pad(length: int) -> int:
    return -length & 3


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(_pad(len(value)))


def _block(kind: int, body: bytes) -> bytes:
    total = len(body) + 12
    return struct.pack("<II", kind, total) + body + struct.pack("<I", total)


def file_header(application: str, name: str, comments: Sequence[str] = (), link: int = LINKTYPE_RAW) -> bytes:
    """The beginning of a file: a section header with comments on the file, and an interface description."""
    return section(application, comments) + interface(name, link)


def section(application: str, comments: Sequence[str] = ()) -> bytes:
    """A section header with comments on the whole file."""
    body = (
        struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
        + b"".join(_option(_OPT_COMMENT, cut(comment)) for comment in comments)
        + _option(_SHB_USERAPPL, application.encode())
        + bytes(4)
    )
    return _block(0x0A0D0D0A, body)


def interface(name: str, link: int, digits: int = 9) -> bytes:
    """An interface description block; times of the interface's packets are in units of 10**-digits seconds."""
    described = (
        struct.pack("<HHI", link, 0, 0)
        + _option(_IF_NAME, interface_name(name))
        + _option(_IF_TSRESOL, bytes((digits,)))
        + bytes(4)
    )
    return _block(1, described)


def interface_name(name: str) -> bytes:
    """The name of an interface as it is in its block, in UTF-8.

    Names of files may have bytes that are no UTF-8: they are escaped, so that different names stay different.
    """
    return cut(name.encode("utf-8", "backslashreplace").decode())


def packet(
    time: int, data: bytes | memoryview, length: int, number: int = 0, comment: str | None = None
) -> tuple[bytes, bytes]:
    """(bytes before, bytes after) the captured bytes `data` in a packet's block; `length` is the packet's length on the
    wire.

    `time` is in units of the interface `number`.
    """
    captured = len(data)
    trailer = bytes(-captured & 3)
    if comment is not None:
        trailer += _option(_OPT_COMMENT, cut(comment)) + bytes(4)
    total = 32 + captured + len(trailer)
    before = _PACKET(6, total, number, time >> 32, time & 0xFFFFFFFF, captured, length)
    return before, trailer + total.to_bytes(4, "little")


def packet_size(captured: int, comment: str | None = None) -> int:
    """Size of the block that `packet` makes of this many captured bytes."""
    return 32 + captured + _pad(captured) + (0 if comment is None else len(_option(_OPT_COMMENT, cut(comment))) + 4)


def statistics(time_ns: int, received: int, dropped: int, comments: Sequence[str] = ()) -> bytes:
    """An interface statistics block: packets received and dropped since the file's start."""
    body = (
        struct.pack("<III", 0, time_ns >> 32, time_ns & 0xFFFFFFFF)
        + b"".join(_option(_OPT_COMMENT, cut(comment)) for comment in comments)
        + _option(_ISB_IFRECV, struct.pack("<Q", received))
        + _option(_ISB_IFDROP, struct.pack("<Q", dropped))
        + bytes(4)
    )
    return _block(5, body)


def _sum16(data: bytes) -> int:
    return sum(struct.unpack(f"!{len(data) // 2}H", data))


def _fold(value: int) -> int:
    value = (value & 0xFFFF) + (value >> 16)
    return (value & 0xFFFF) + (value >> 16)


DATA_OFFSET = 28
"""Offset of the captured bytes in the block that `packet` makes."""


class Direction(Template):
    """Makes the packets of one direction of a TCP connection; `sequence` is the next sequence number.

    The IP header's checksum is right. The TCP checksum covers only the pseudo header, as in captures on a sender with
    checksum offload, so that payloads need not be summed.
    """

    __slots__ = ("_ends",)

    def __init__(self, source: tuple[str, int], target: tuple[str, int], sequence: int) -> None:
        """`source` and `target` are (IP address, port). Raises ValueError for a host that is not an IP address."""
        a, b = (ipaddress.ip_address(host.partition("%")[0]) for host, _ in (source, target))
        ipv6 = a.version == 6 or b.version == 6
        addresses = _v6(a) + _v6(b) if ipv6 else a.packed + b.packed
        total = _sum16(addresses)
        super().__init__(b"", ipv6, 0x4500 + 0x4000 + 0x4006 + total, total + 6, sequence)
        self._ends = addresses + struct.pack("!HH", source[1], target[1])
        self.template, _ = self.packet(0, b"", 0)

    def packet(
        self,
        time_ns: int,
        payload: bytes | memoryview,
        acknowledge: int,
        flags: int = PSH | ACK,
        comment: str | None = None,
        beyond: int = 0,
    ) -> tuple[bytes, bytes]:
        """(bytes before, bytes after) `payload` in the packet's block; advances `sequence`.

        `beyond` is the number of payload bytes after `payload` that are not captured, as with a snap length; both
        together are at most MAX_PAYLOAD bytes.
        """
        size = len(payload) + beyond
        options = _SYN_OPTIONS if flags & SYN else b""
        tcp_size = 20 + len(options) + size
        sequence = self.sequence & 0xFFFFFFFF
        acknowledged = acknowledge & 0xFFFFFFFF if flags & ACK else 0
        offset_and_flags = (5 + len(options) // 4) << 12 | flags
        tcp_sum = _fold(self.tcp_sum + tcp_size)
        if self.ipv6:
            headers = _IPV6_TCP.pack(
                0x60000000, tcp_size, 6, 64, self._ends, sequence, acknowledged, offset_and_flags, 0xFFFF, tcp_sum, 0
            )
            length = 40 + tcp_size
        else:
            length = 20 + tcp_size
            ip_sum = 0xFFFF ^ _fold(self.ip_sum + length)
            headers = _IPV4_TCP.pack(
                0x4500, length, 0x4000, 0x4006, ip_sum,
                self._ends, sequence, acknowledged, offset_and_flags, 0xFFFF, tcp_sum, 0,
            )  # fmt: skip
        captured = length - beyond
        trailer = _PADDING[-captured & 3]
        if comment is not None:
            trailer += _option(_OPT_COMMENT, cut(comment)) + bytes(4)
        total = 32 + captured + len(trailer)
        before = _PACKET(6, total, 0, time_ns >> 32, time_ns & 0xFFFFFFFF, captured, length) + headers + options
        self.sequence += size + (1 if flags & (SYN | FIN) else 0)
        return before, trailer + total.to_bytes(4, "little")


def _v6(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bytes:
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


def cut(comment: str) -> bytes:
    """A comment in UTF-8, cut to the maximum length of an option."""
    encoded = comment.encode("utf-8", "replace")
    if len(encoded) <= _MAX_COMMENT:
        return encoded
    return encoded[:_MAX_COMMENT].decode("utf-8", "ignore").encode() + " …".encode()
