"""Makes the pcapng block of most of the relay's packets in one step, from a template and the payload.

`Direction.packet` of pcapng_writer.py makes the same block and explains every field. This module is faster only if
setup.py compiles it with the C types of block.pxd. Tests use the plain version.
"""

from __future__ import annotations

HEAD = 28
"""Number of bytes of an enhanced packet block before the packet."""


class Template:
    """One direction of a TCP connection: `template` is its block without payload, `sequence` the next sequence number.

    `ip_sum` and `tcp_sum` are the partial checksums of its headers, without lengths.
    """

    def __init__(self, template: bytes, ipv6: bool, ip_sum: int, tcp_sum: int, sequence: int) -> None:
        self.template = template
        self.ipv6 = ipv6
        self.ip_sum = ip_sum
        self.tcp_sum = tcp_sum
        self.sequence = sequence

    def block(self, time_ns: int, payload: bytes, acknowledge: int) -> bytearray:
        """The block of a packet with `payload` and the acknowledgement number `acknowledge`; advances `sequence`."""
        sequence = self.sequence
        self.sequence += len(payload)
        return _block(self.template, self.ipv6, self.ip_sum, self.tcp_sum, time_ns, payload, sequence, acknowledge)


def _block(
    template: bytes,
    ipv6: bool,
    ip_sum: int,
    tcp_sum: int,
    time_ns: int,
    payload: bytes,
    sequence: int,
    acknowledged: int,
) -> bytearray:
    headers = len(template) - HEAD
    captured = headers + len(payload)
    total = HEAD + captured + (-captured & 3) + 4
    block = bytearray(total)
    raw = block
    _copy(raw, 0, template, len(template))
    _copy(raw, len(template), payload, len(payload))
    _little(raw, 4, total)
    _little(raw, 12, time_ns >> 32)
    _little(raw, 16, time_ns & 0xFFFFFFFF)
    _little(raw, 20, captured)
    _little(raw, 24, captured)
    _little(raw, total - 4, total)
    if ipv6:
        tcp, tcp_size = HEAD + 40, captured - 40
        _big(raw, HEAD + 4, 2, tcp_size)
    else:
        tcp, tcp_size = HEAD + 20, captured - 20
        _big(raw, HEAD + 2, 2, captured)
        _big(raw, HEAD + 10, 2, 0xFFFF ^ _fold(ip_sum + captured))
    _big(raw, tcp + 4, 4, sequence)
    _big(raw, tcp + 8, 4, acknowledged)
    _big(raw, tcp + 16, 2, _fold(tcp_sum + tcp_size))
    return block


def _copy(raw: bytearray, at: int, data: bytes, size: int) -> None:
    for i in range(size):
        raw[at + i] = data[i]


def _little(raw: bytearray, at: int, value: int) -> None:
    for i in range(4):
        raw[at + i] = value >> 8 * i & 0xFF


def _big(raw: bytearray, at: int, size: int, value: int) -> None:
    for i in range(size):
        raw[at + i] = value >> 8 * (size - 1 - i) & 0xFF


def _fold(value: int) -> int:
    value = (value & 0xFFFF) + (value >> 16)
    return (value & 0xFFFF) + (value >> 16)
