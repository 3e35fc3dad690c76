"""Names of unsupported protocols that may carry Kafka: encrypted, compressed or rare tunnels."""

from __future__ import annotations

from typing import Final

PSEUDOWIRE: Final = "pseudowire over MPLS"
TOO_DEEP: Final = "more than 8 layers of encapsulation"
PPTP: Final = "PPTP (GRE version 1)"

ETHERTYPES: Final[dict[int, str]] = {
    0x22F3: "TRILL",
    0x880B: "PPP",
    0x88E5: "MACsec",
    0x88E7: "provider backbone bridge (IEEE 802.1ah)",
    0x8903: "FabricPath",
    0x8926: "VN-Tag (IEEE 802.1BR, Cisco)",
    0x893F: "E-Tag (IEEE 802.1BR)",
    0x894F: "network service header (NSH)",
}
"""Names of unsupported protocols by EtherType."""
PROTOCOLS: Final[dict[int, str]] = {
    50: "IPsec ESP",
    55: "minimal encapsulation (RFC 2004)",
    97: "Ethernet in IP",
    108: "compressed IP (RFC 3173)",
    115: "L2TPv3",
    137: "MPLS in IP",
}
"""Names of unsupported protocols by the protocol number in an IP header."""
PORTS: Final[dict[int, str]] = {
    1194: "OpenVPN",
    1701: "L2TP",
    3544: "Teredo",
    4500: "IPsec ESP in UDP",
    4754: "GRE in UDP",
    5246: "CAPWAP",
    5247: "CAPWAP",
    6080: "generic UDP encapsulation (GUE)",
    51820: "WireGuard",
}
"""Names of unsupported protocols by the destination port of UDP."""
QUIET: Final = frozenset({0, 0x0806, 0x8035, 0x88CC, 0x8809})
"""EtherTypes in a tunnel that are not counted because they carry no IP: ARP, RARP, LLDP, slow protocols, 0 (empty)."""


def link(number: int) -> str:
    """Name of the link layer with this LINKTYPE_ number, for the count of unread packets."""
    return f"link-layer type {number}"


def ethertype(number: int, *, tunnel: str = "") -> str:
    """Name of the protocol with this EtherType, for the count of unread packets; `tunnel` is the tunnel around it."""
    name = ETHERTYPES.get(number, f"EtherType 0x{number:04x}")
    return f"{name} in {tunnel}" if tunnel else name
