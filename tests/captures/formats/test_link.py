"""Link layers, IP and tunnels: packets are built by scapy, whose reading is compared as well."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.config import conf
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, fragment6
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, GRE, LLC, SNAP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Dot3, Ether, Loopback
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN

from kproxy.captures.export.oneline import health_note
from kproxy.captures.formats.detect import walker
from kproxy.captures.formats.link import LinkLayers
from kproxy.captures.reader import read
from kproxy.captures.tcp.packets import endpoints, nothing, turned
from tests.captures import files

PAYLOAD = bytes(range(200))
TCP4 = IP(src="10.1.2.3", dst="10.9.8.7") / TCP(sport=51234, dport=9092, seq=7, ack=8, flags="PA") / PAYLOAD
TCP6 = IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=51234, dport=9092, seq=7, ack=8, flags="PA") / PAYLOAD
OPTIONS = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 2)), ("NOP", None), ("WScale", 7)]
MAC: dict[str, Any] = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
BSD_INET6 = b"\x1e\x00\x00\x00"


def ends(family: int) -> tuple[str, str]:
    return ("10.1.2.3:51234", "10.9.8.7:9092") if family == 4 else ("[fd00::1]:51234", "[fd00::2]:9092")


CASES: dict[str, tuple[int, Callable[[], Any], int]] = {
    "ethernet": (1, lambda: Ether(**MAC) / TCP4, 4),
    "ethernet 6": (1, lambda: Ether(**MAC) / TCP6, 6),
    "tcp options": (
        1,
        lambda: (
            Ether(**MAC)
            / IP(src="10.1.2.3", dst="10.9.8.7")
            / TCP(sport=51234, dport=9092, seq=7, ack=8, flags="PA", options=OPTIONS)
            / PAYLOAD
        ),
        4,
    ),
    "ip options": (
        1,
        lambda: (
            Ether(**MAC)
            / IP(src="10.1.2.3", dst="10.9.8.7", options=b"\x94\x04\x00\x00")
            / TCP(sport=51234, dport=9092, seq=7, ack=8, flags="PA")
            / PAYLOAD
        ),
        4,
    ),
    "vlan": (1, lambda: Ether(**MAC) / Dot1Q(vlan=5) / TCP4, 4),
    "qinq": (1, lambda: Ether(**MAC) / Dot1AD(vlan=5) / Dot1Q(vlan=6) / TCP6, 6),
    "cooked": (113, lambda: CookedLinux(proto=0x0800) / TCP4, 4),
    "cooked 6": (113, lambda: CookedLinux(proto=0x86DD) / TCP6, 6),
    "cooked 2": (276, lambda: CookedLinuxV2(proto=0x0800) / TCP4, 4),
    "null": (0, lambda: Loopback(type=2) / TCP4, 4),
    "null of another byte order": (0, lambda: b"\x00\x00\x00\x02" + bytes(TCP4), 4),
    "null 6": (0, lambda: BSD_INET6 + bytes(TCP6), 6),
    "loop": (108, lambda: b"\x00\x00\x00\x18" + bytes(TCP6), 6),
    "raw": (101, lambda: TCP4, 4),
    "raw 6": (101, lambda: TCP6, 6),
    "raw ipv4": (228, lambda: TCP4, 4),
    "raw ipv6": (229, lambda: TCP6, 6),
    "hop by hop": (
        1,
        lambda: (
            Ether(**MAC)
            / IPv6(src="fd00::1", dst="fd00::2")
            / IPv6ExtHdrHopByHop()
            / IPv6ExtHdrDestOpt()
            / TCP(sport=51234, dport=9092, seq=7, ack=8, flags="PA")
            / PAYLOAD
        ),
        6,
    ),
    "vxlan": (1, lambda: Ether(**MAC) / IP() / UDP(dport=4789) / VXLAN(vni=4) / Ether(**MAC) / TCP4, 4),
    "geneve": (
        1,
        lambda: Ether(**MAC) / IP() / UDP(dport=6081) / GENEVE(proto=0x6558, vni=4) / Ether(**MAC) / TCP6,
        6,
    ),
    "gre": (1, lambda: Ether(**MAC) / IP() / GRE(key_present=1, key=5) / TCP4, 4),
    "ip in ip": (1, lambda: Ether(**MAC) / IP(proto=4) / TCP4, 4),
    "6 in 4": (1, lambda: Ether(**MAC) / IP(proto=41) / TCP6, 6),
    "mpls": (1, lambda: Ether(**MAC, type=0x8847) / MPLS(s=0) / MPLS(s=1) / TCP4, 4),
    "pppoe": (1, lambda: Ether(**MAC, type=0x8864) / PPPoE() / PPP() / TCP4, 4),
    "vxlan gpe": (1, lambda: Ether(**MAC) / IP() / UDP(dport=4790) / b"\x0c\0\0\1\0\0\5\0" / TCP4, 4),
    "mpls in udp": (1, lambda: Ether(**MAC) / IP() / UDP(dport=6635) / MPLS(s=1) / TCP4, 4),
    "gtp-u": (1, lambda: Ether(**MAC) / IP() / UDP(dport=2152) / b"\x30\xff\0\xf0\0\0\0\7" / TCP4, 4),
    "gtp-u with a number": (
        1,
        lambda: Ether(**MAC) / IP() / UDP(dport=2152) / b"\x32\xff\1\x08\0\0\0\7\0\x09\0\0" / TCP6,
        6,
    ),
    "gtp-u with an extension": (
        1,
        lambda: Ether(**MAC) / IP() / UDP(dport=2152) / b"\x34\xff\0\xf8\0\0\0\7\0\0\0\x85\1\0\7\0" / TCP4,
        4,
    ),
    "llc": (1, lambda: Dot3(**MAC) / LLC() / SNAP() / TCP4, 4),
    "llc behind a vlan tag": (1, lambda: Ether(**MAC) / Dot1Q(vlan=5, type=len(TCP6) + 8) / LLC() / SNAP() / TCP6, 6),
    "llc in a tunnel": (
        1,
        lambda: Ether(**MAC) / IP() / UDP(dport=4789) / VXLAN(vni=4) / Dot3(**MAC) / LLC() / SNAP() / TCP4,
        4,
    ),
    "erspan 1": (1, lambda: Ether(**MAC) / IP() / GRE(proto=0x88BE) / Ether(**MAC) / TCP4, 4),
    "erspan 2": (
        1,
        lambda: (
            Ether(**MAC) / IP() / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II(session_id=5) / Ether(**MAC) / TCP4
        ),
        4,
    ),
    "erspan 3": (
        1,
        lambda: (
            Ether(**MAC) / IP() / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III(session_id=5) / Ether(**MAC) / TCP6
        ),
        6,
    ),
    "authenticated": (
        1,
        lambda: (
            Ether(**MAC)
            / IP(src="10.1.2.3", dst="10.9.8.7")
            / AH(payloadlen=4, icv=bytes(12), nh=6)
            / TCP(sport=51234, dport=9092, seq=7, ack=8, flags="PA")
            / PAYLOAD
        ),
        4,
    ),
    "cisco hdlc": (104, lambda: b"\x0f\0\x08\0" + bytes(TCP4), 4),
    "nflog": (239, lambda: b"\2\0\0\0" + b"\x08\0\1\0\x08\0\0\0" + struct.pack("<HH", 244, 9) + bytes(TCP4), 4),
    "ppp, through scapy": (9, lambda: PPP() / TCP4, 4),
}


@pytest.mark.parametrize("name", CASES)
def test_link_layers_and_tunnels(name: str) -> None:
    link, build, family = CASES[name]
    frame = bytes(build())
    padded = frame + bytes(6) if link == 1 else frame
    data = files.pcap([(5_000, padded), (6_000, padded)], link=link)

    found = files.segments(data)

    assert [endpoints(key) for key in found.keys] == [ends(family)] * 2
    assert [row[1:] for row in files.rows(found, data)] == [(time, 7, 8, 0x18, 200, PAYLOAD) for time in (5_000, 6_000)]
    if link in conf.l2types.num2layer and link not in {0, 108}:  # in these scapy knows only this system's families
        if name == "authenticated" or "gtp" in name or name == "llc behind a vlan tag":
            return  # scapy reads no further than the header
        second: Any = conf.l2types.num2layer[link](frame)
        assert bytes(second[TCP].payload)[:200] == PAYLOAD


UNREAD: dict[str, tuple[int, Callable[[], Any]]] = {
    "pseudowire over MPLS": (1, lambda: Ether(**MAC, type=0x8847) / MPLS(s=1) / bytes(4) / Ether(**MAC) / TCP4),
    "PPTP (GRE version 1)": (1, lambda: Ether(**MAC) / IP() / GRE(version=1, proto=0x880B) / TCP4),
    "PPP": (1, lambda: Ether(**MAC) / IP() / GRE(proto=0x880B) / TCP4),
    "EtherType 0x9999": (1, lambda: Ether(**MAC) / IP() / GRE(proto=0x9999) / TCP4),
    "IPsec ESP": (1, lambda: Ether(**MAC) / IP(proto=50) / PAYLOAD),
    "L2TPv3": (1, lambda: Ether(**MAC) / IPv6(nh=115) / PAYLOAD),
    "WireGuard": (1, lambda: Ether(**MAC) / IP() / UDP(dport=51820) / PAYLOAD),
    "network service header (NSH)": (
        1,
        lambda: Ether(**MAC) / IP() / UDP(dport=4790) / b"\x0c\0\0\4\0\0\5\0" / PAYLOAD,
    ),
    "MACsec": (1, lambda: Ether(**MAC, type=0x88E5) / PAYLOAD),
    "more than 8 layers of encapsulation": (
        1,
        lambda: Ether(**MAC) / reduce(lambda inner, _: IP() / inner, range(9), TCP4),
    ),
    "link-layer type 147": (147, lambda: PAYLOAD),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_link_or_tunnel_that_is_not_read_is_counted_by_name(name: str, tmp_path: Path) -> None:
    link, build = UNREAD[name]
    path = tmp_path / "tunnel.pcap"
    path.write_bytes(files.pcap([(1, bytes(build())), (2, bytes(Ether(**MAC) / TCP4)), (3, bytes(build()))], link=link))
    reader = read(path)
    reader.finish()
    count = 3 if link != 1 else 2
    assert reader.health.unread == {name: count}
    assert f"{count} packets not read: {name}" in (health_note(reader.health) or "")


def test_what_is_read_is_not_counted_as_unread() -> None:
    links = LinkLayers()
    for link, build, _ in CASES.values():
        data = files.pcap([(5_000, bytes(build()))], link=link)
        found = walker(memoryview(data), whole=True)
        assert found is not None
        records = found.walk(memoryview(data), 10)
        assert records is not None
        links.segments(memoryview(data), records, 0)
    assert not links.unread


def test_what_is_no_tcp_is_passed_over() -> None:
    others: list[Any] = [
        Ether(**MAC) / ARP(),
        Ether(**MAC) / IP() / UDP() / b"x",
        Ether(**MAC, type=0x88CC) / b"lldp",
        b"",
        b"x" * 13,
    ]
    data = files.pcap([(1, bytes(frame)) for frame in [*others, Ether(**MAC) / TCP4]])

    assert len(files.segments(data)) == 1


FEW = st.sampled_from([0, 1, 127, 128, 255])
"""Few values, so that keys often agree in some of their parts and sometimes in all."""


@given(st.lists(st.tuples(st.sampled_from([4, 6]), st.integers(0, 35), FEW), max_size=40))
def test_every_segment_has_its_own_direction(packets: list[tuple[int, int, int]]) -> None:
    frames: list[files.Packet] = []
    keys: list[bytes] = []
    for family, place, value in packets:
        key = bytearray(12 if family == 4 else 36)
        key[place % len(key)] = value
        tcp = bytes(key[-4:]) + struct.pack(">IIBBHHH", 7, 8, 5 << 4, 0x10, 0, 0, 0)
        head = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) if family == 4 else b"\x60\0\0\0\0\x14\x06\x40"
        frames.append((len(frames), head + bytes(key[:-4]) + tcp))
        keys.append(bytes(key))

    data = memoryview(files.pcap(frames, link=101))
    found = walker(data, whole=True)
    records = None if found is None else found.walk(data, 100)
    segments = nothing() if records is None else LinkLayers().segments(data, records, 0)

    assert segments.keys == keys
    assert sorted(segments.directions) == sorted(set(keys))
    assert segments.first == [keys.index(key) for key in segments.directions]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2)])
def test_fragments_are_stretches_of_their_segment(family: int, order: tuple[int, ...]) -> None:
    payload = bytes(range(256)) * 10
    tcp = TCP(sport=51234, dport=9092, seq=0xFFFFFFF0, ack=8, flags="FPA") / payload
    if family == 4:
        pieces = fragment(IP(src="10.1.2.3", dst="10.9.8.7", id=77) / tcp, fragsize=800)  # type: ignore[no-untyped-call]
    else:
        whole = IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrFragment(id=77) / tcp
        pieces = fragment6(whole, 900)  # type: ignore[no-untyped-call]
    assert len(pieces) >= 3
    chosen = [pieces[i] for i in order if i < len(pieces)]
    data = files.pcap([(i, bytes(Ether(**MAC) / piece)) for i, piece in enumerate(chosen)])

    for step in (1, 100):
        found = files.segments(data, step=step)
        stream = bytearray(len(payload))
        for row in files.rows(found, data):
            assert endpoints(row[0]) == ends(family)
            offset = (row[2] - 0xFFFFFFF0) % (1 << 32)
            stream[offset : offset + row[5]] = row[6]
            assert bool(row[4] & 1) == (offset + row[5] == len(payload))
        assert bytes(stream) == payload


def test_snap_length_keeps_the_length_on_the_wire() -> None:
    data = files.pcap([(1, bytes(Ether(**MAC) / TCP4))], snap=96)

    (row,) = files.rows(files.segments(data), data)
    assert row[5:] == (200, PAYLOAD[: 96 - 54])


def test_segmentation_offload_leaves_no_ip_length() -> None:
    frame = bytearray(bytes(Ether(**MAC) / TCP4))
    frame[16:18] = b"\x00\x00"
    data = files.pcap([(1, bytes(frame))])

    (row,) = files.rows(files.segments(data), data)
    assert row[5:] == (200, PAYLOAD)


def test_an_unknown_link_layer_is_named() -> None:
    data = files.pcap([(1, b"abcdef")], link=147)
    view = memoryview(data)
    found = walker(view, whole=True)
    assert found is not None
    links = LinkLayers()
    records = found.walk(view, 10)
    assert records is not None
    assert len(links.segments(view, records, 0)) == 0
    assert links.unknown == {147}


def test_turned() -> None:
    for frame in (TCP4, TCP6):
        (key,) = files.segments(files.pcap([(1, bytes(frame))], link=101)).keys
        assert endpoints(turned(key)) == endpoints(key)[::-1]
        assert turned(turned(key)) == key
