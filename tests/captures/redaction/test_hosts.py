from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.redaction.hosts import Hosts


def hosts(*names: str) -> Hosts:
    made = Hosts(b"salt")
    for name in names:
        made.learn(name)
    return made


@given(st.ip_addresses(v=4))
def test_an_address_becomes_another_as_long(address: ipaddress.IPv4Address) -> None:
    known = hosts(str(address))
    other = known.name(str(address))
    assert len(other) == len(str(address))
    assert other != str(address)
    assert known.packed(address.packed) == ipaddress.IPv4Address(other).packed
    assert known.content(b"/" + str(address).encode()) == b"/" + other.encode()


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_too(address: ipaddress.IPv6Address) -> None:
    known = hosts(str(address))
    other = known.name(str(address))
    assert len(other) == len(str(address))
    assert str(ipaddress.IPv6Address(other)) == other
    assert known.packed(address.packed) == ipaddress.IPv6Address(other).packed or address.ipv4_mapped is not None


def test_headers_and_bodies_agree() -> None:
    known = hosts("10.20.30.40", "kafka-1.internal", "::1")
    other = known.name("10.20.30.40")
    assert known.address("10.20.30.40:9092") == f"{other}:9092"
    assert known.address("[::1]:9092") == f"[{known.name('::1')}]:9092"
    mapped = ipaddress.IPv6Address("::ffff:10.20.30.40").packed
    assert known.packed(mapped)[12:] == ipaddress.IPv4Address(other).packed
    assert known.text("PLAINTEXT://kafka-1.internal:9092") == f"PLAINTEXT://{known.name('kafka-1.internal')}:9092"
    assert known.name("kafka-1.internal").count(".") == 1


def test_names_are_found_within_text_and_what_looks_like_an_address_too() -> None:
    known = hosts("broker1", "broker12", "a")
    text = known.text("from broker12 via BROKER1 to 192.168.7.9, a")
    assert "broker" not in text.lower()
    assert "192.168.7.9" not in text
    assert text.endswith(", a")
    assert known.text("a") != "a"
    assert known.text("version 1.2.3") == "version 1.2.3"


def test_two_hosts_never_become_one() -> None:
    names = [f"10.0.{i // 200}.{i % 200}" for i in range(2000)]
    known = hosts(*names)
    others = {known.name(name) for name in names}
    assert len(others) == len(names)
    assert not others & set(names)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"host": "one", "x": [{"clientHost": "/two"}]}, {"one", "two"}),
        ({"value": "PLAINTEXT://one:9092,SSL://[fe80::1]:9093"}, {"one", "fe80::1"}),
        ({"value": "1@one:9093,2@two.internal:9093"}, {"one", "two.internal"}),
        ({"name": "https"}, set()),
    ],
)
def test_hosts_that_values_name(values: object, found: set[str]) -> None:
    known = hosts()
    known.learn_values(values)
    assert set(known.names) == found


def test_another_salt_gives_other_names() -> None:
    assert hosts("10.20.30.40").name("10.20.30.40") != Hosts(b"pepper").name("10.20.30.40")
