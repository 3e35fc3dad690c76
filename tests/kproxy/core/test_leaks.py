"""The search for brokers' addresses in bytes that leave for clients: what it finds, and the bound on its cost."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.core import leaks
from kproxy.core.leaks import Known
from kproxy.core.rewrite import varint
from kproxy.decoders.primitives import write_unsigned_varint

HOSTS = st.text("ab", min_size=1, max_size=4)
PORTS = st.sampled_from([1, 0x6161, 0x6162, 9092])


def standing(host: str, port: int, *, compact: bool, wide: bool) -> bytes:
    """An address as it stands in a response."""
    encoded = host.encode()
    size = varint(len(encoded) + 1) if compact else len(encoded).to_bytes(2, "big")
    return size + encoded + port.to_bytes(4 if wide else 2, "big")


@given(
    st.lists(st.tuples(HOSTS, PORTS), max_size=5),
    st.tuples(HOSTS, PORTS),
    st.booleans(),
    st.booleans(),
    st.binary(max_size=20),
    st.sets(st.tuples(HOSTS, PORTS), max_size=2),
)
def test_an_address_is_found_wherever_it_stands(
    remembered: list[tuple[str, int]],
    there: tuple[str, int],
    compact: bool,
    wide: bool,
    before: bytes,
    told: set[tuple[str, int]],
) -> None:
    known = Known()
    for address in remembered:
        known.remember(*address)
    for address in told:
        known.tell(address)
    found = known.search(before + standing(*there, compact=compact, wide=wide) + b"aa")
    assert found.whole
    assert found.address is None or (found.address in remembered and found.address not in told)
    if there in remembered and there not in told:
        assert found.address is not None


def test_old_addresses_are_forgotten_and_leave_nothing() -> None:
    known = Known()
    for number in range(3 * leaks.REMEMBERED):
        known.remember(f"host-{number}", 1 + number % 7)
    assert len(known._remembered) == leaks.REMEMBERED
    assert sum(len(hosts) for lengths in known._hosts.values() for hosts in lengths.values()) == leaks.REMEMBERED
    assert known.search(standing("host-0", 1, compact=False, wide=True)).address is None


@pytest.mark.parametrize(("host", "port"), [("", 9092), ("a", 0), ("a", 70_000), ("a", -1), ("a" * 256, 9092)])
def test_an_invalid_address_is_not_remembered(host: str, port: int) -> None:
    known = Known()
    known.remember(host, port)
    assert not known._remembered
    assert not known._hosts


class Counted(bytes):
    """Counts the bytes that are searched or read in it."""

    steps = 0

    def find(self, sub: bytes, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        at = super().find(sub, start, end)
        Counted.steps += ((len(self) if end is None else end) if at < 0 else at) - start + 1
        return at

    def __getitem__(self, where: int | slice) -> int | bytes:  # type: ignore[override]
        Counted.steps += 1
        return super().__getitem__(where)


def test_the_cost_has_a_bound_and_an_incomplete_search_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst case: 239 hosts "a…a" with the port 0x6161 ("aa"), and a body of "a"."""
    known = Known()
    for size in range(1, 240):
        known.remember("a" * size, 0x6161)
    for length in (ord("a"), ord("a") - 1):
        known._forget("a" * length, 0x6161)
    monkeypatch.setattr(Counted, "steps", 0)
    found = known.search(Counted(b"a" * 268_000))
    assert (found.address, found.whole) == (None, False)
    assert Counted.steps < 4 * leaks.COMPARED
    for port in range(1, 700):
        known.remember("b", port)
    monkeypatch.setattr(Counted, "steps", 0)
    assert not known.search(Counted(Random(1).randbytes(1 << 20))).whole
    assert Counted.steps < 2 * leaks.SEARCHED


@pytest.mark.parametrize("size", [1, 5, 126, 127, 128, 200, 254, 255])
def test_hosts_of_every_length(size: int) -> None:
    """Behind a length of two bytes, and a compact one of one or two."""
    known = Known()
    host = "h" * size
    known.remember(host, 9092)
    port = (9092).to_bytes(2, "big")
    for length in (size.to_bytes(2, "big"), write_unsigned_varint(size + 1)):
        for data in (length + host.encode() + port, length + host.encode() + b"\0\0" + port):
            assert known.search(b"before" + data + b"after").address == (host, 9092)
    assert known.search(b"\3" + host.encode() + port).address is None
    known.remember("h" * 256, 9093)
    assert known.search(b"\1\0" + b"h" * 256 + (9093).to_bytes(2, "big")).address is None
