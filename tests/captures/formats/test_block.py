"""A packet's whole block at once, plain and compiled, against what the writer makes field by field."""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.formats import block
from captures.formats.compiled import COMPILED
from captures.formats.pcapng_writer import Direction

VARIANTS = [block, *([import_module("captures.formats._block")] if COMPILED else [])]


@pytest.mark.skipif(not COMPILED, reason="there was no C compiler when this was installed")
def test_it_is_made_of_the_source_that_is_here() -> None:
    source = Path(block.__file__)
    digest = sha256(source.read_bytes() + source.with_suffix(".pxd").read_bytes()).hexdigest()
    assert digest == VARIANTS[1].SOURCE, "block.py or block.pxd was changed: run make"


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__.rpartition(".")[2])
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
