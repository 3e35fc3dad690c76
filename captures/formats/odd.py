"""Reads link layers packet by packet: Linux's NFLOG, and the many that scapy knows where it is installed.

scapy is under GPL-2.0-only, so distributions of kproxy may leave it out. Only `find_ip` and captures/sniffing.py use
it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from kproxy.captures.formats.plain import IPV4, IPV6
from kproxy.decoders.extras import installing

NFLOG = 239
NFLOG_PAYLOAD = 9
"""Number of the NFLOG attribute that holds the packet (LINKTYPE_NFLOG)."""


@lru_cache(maxsize=64)
def _layer(link: int) -> Any:
    """Scapy's packet class for a link-layer type; None if scapy lacks one or is not installed."""
    try:
        import scapy.layers.all  # noqa: F401  # fills the table
        from scapy.config import conf
    except ImportError:
        return None
    return conf.l2types.num2layer.get(link)


def not_read(links: Iterable[int]) -> str:
    """The message that packets of these link-layer types cannot be read."""
    names = ", ".join(map(str, sorted(links)))
    missing = "" if find_spec("scapy") else f" without scapy, which is not installed ({installing('sniff')})"
    return f"packets of link-layer type {names} cannot be read{missing}"


def find_ip(link: int, data: bytes) -> tuple[int, int] | tuple[()] | None:
    """(offset, EtherType) of the outermost IP packet in a frame; () if the frame holds none.

    None if the link-layer type itself is unknown.
    """
    if link == NFLOG:
        return _nflog(data)
    layer = _layer(link)
    if layer is None:
        return None
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    try:
        packet = layer(data)
    except Exception:  # noqa: BLE001
        return ()  # damaged bytes make scapy raise various exceptions
    for kind, protocol in ((IP, IPV4), (IPv6, IPV6)):
        found = packet.getlayer(kind)
        if found is not None and found.original:
            offset = data.find(found.original)
            if offset >= 0:
                return offset, protocol
    return ()


def _nflog(data: bytes) -> tuple[int, int] | tuple[()]:
    """(offset, EtherType) of the packet in an NFLOG frame; () if there is none.

    A frame has a header of four bytes, then attributes in the byte order of the machine.
    """
    for order in "<>":
        position = 4
        while position + 4 < len(data):
            length, kind = struct.unpack_from(order + "HH", data, position)
            if length < 4:
                break
            if kind == NFLOG_PAYLOAD:
                protocol = {4: IPV4, 6: IPV6}.get(data[position + 4] >> 4)
                return () if protocol is None else (position + 4, protocol)
            position += (length + 3) & ~3
    return ()
