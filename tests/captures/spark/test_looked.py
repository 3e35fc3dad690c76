"""Reading the bytes of a portion, plain and compiled."""

from __future__ import annotations

from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.spark.claims import looked
from tests.support.variants import each_variant_of

variants = each_variant_of(looked)
BASE = 1 << 40
DATA = bytes(range(256)) * 40


@variants
@given(st.lists(st.tuples(st.integers(0, len(DATA) + 10), st.integers(-3, len(DATA) + 10))))
def test_bytes_are_those_of_the_addresses(variant: ModuleType, looks: list[tuple[int, int]]) -> None:
    source = variant.Looked(variant.Mapped(memoryview(DATA), BASE))
    for start, size in looks:
        expected = DATA[start : max(start + size, start)]
        assert source.read(BASE + start, BASE + start + size) == expected
    assert source.starts.tolist() == [BASE + start for start, _ in looks]
    assert source.ends.tolist() == [BASE + start + size for start, size in looks]


@variants
def test_bytes_before_what_is_mapped_are_not_there(variant: ModuleType) -> None:
    mapped = variant.Mapped(memoryview(DATA), BASE)
    assert bytes(mapped.read(BASE - 3, BASE + 5)) == DATA[:5]
    assert bytes(mapped.read(BASE - 9, BASE - 3)) == b""
    assert variant.Mapped(memoryview(b""), BASE).read(BASE, BASE + 4) == b""


@variants
def test_what_is_much_is_not_copied(variant: ModuleType) -> None:
    mapped = variant.Mapped(memoryview(DATA), BASE)
    assert isinstance(mapped.read(BASE, BASE + 100), bytes)
    assert isinstance(mapped.read(BASE, BASE + len(DATA)), memoryview)
