"""Blocks of packets made in one step, plain and compiled, equal those that the writer makes field by field."""

from __future__ import annotations

from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.formats import block
from kproxy.captures.formats.pcapng_writer import Direction
from tests.support.variants import each_variant_of


@each_variant_of(block)
@given(
    hosts=st.tuples(st.ip_addresses().map(str), st.ip_addresses().map(str)),
    ports=st.tuples(st.integers(0, 65535), st.integers(0, 65535)),
    sequences=st.tuples(st.integers(0, 1 << 34), st.integers(0, 1 << 34)),
    time_ns=st.integers(0, (1 << 63) - 1),
    payloads=st.lists(st.binary(max_size=70), max_size=3),
)
def test_it_is_the_packet(
    variant: ModuleType,
    hosts: tuple[str, str],
    ports: tuple[int, int],
    sequences: tuple[int, int],
    time_ns: int,
    payloads: list[bytes],
) -> None:
    wanted = Direction((hosts[0], ports[0]), (hosts[1], ports[1]), sequences[0])
    found = variant.Template(wanted.template, wanted.ipv6, wanted.ip_sum, wanted.tcp_sum, wanted.sequence)
    for payload in (*payloads, bytes(4096)):
        before, after = wanted.packet(time_ns, payload, sequences[1])
        assert found.block(time_ns, payload, sequences[1]) == before + payload + after
        assert found.sequence == wanted.sequence
