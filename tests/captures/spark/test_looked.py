"""The bytes of a portion, plain and compiled."""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.spark import looked
from captures.spark.compiled import COMPILED

VARIANTS = [looked, *([import_module("captures.spark._looked")] if COMPILED else [])]
variants = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__.rpartition(".")[2])
BASE = 1 << 40
DATA = bytes(range(256)) * 40


@pytest.mark.skipif(not COMPILED, reason="there was no C compiler when this was installed")
def test_it_is_made_of_the_source_that_is_here() -> None:
    source = Path(looked.__file__)
    digest = sha256(source.read_bytes() + source.with_suffix(".pxd").read_bytes()).hexdigest()
    assert digest == VARIANTS[1].SOURCE, "looked.py or looked.pxd was changed: run make"


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
