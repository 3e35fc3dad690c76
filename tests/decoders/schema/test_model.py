from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.schema import reading, store
from kproxy.decoders.schema.model import ALWAYS, NEVER, NO_VERSION, Versions

numbers = st.integers(0, NO_VERSION)


@given(numbers, numbers)
def test_versions_print_and_parse_to_the_same(low: int, high: int) -> None:
    versions = Versions(low, high)
    parsed = Versions.parse(str(versions))
    assert parsed == (versions or NEVER)
    assert bool(versions) == (low in versions)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("none", NEVER),
        ("0+", ALWAYS),
        ("3", Versions(3, 3)),
        ("3+", Versions(3, NO_VERSION)),
        ("3-5", Versions(3, 5)),
    ],
)
def test_the_forms_of_versions(text: str, versions: Versions) -> None:
    assert Versions.parse(text) == versions
    assert str(versions) == text


@pytest.mark.parametrize("text", ["", "x", "3-", "-", "+", "3..5", "None"])
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Versions.parse(text)


def test_membership() -> None:
    assert [version in Versions(3, 5) for version in range(2, 7)] == [False, True, True, True, False]
    assert 0 not in NEVER
    assert not NEVER


def test_equal_messages_have_equal_hashes() -> None:
    for line in (line for release in store.definitions().values() for line in release):
        again = reading.message(line._line)
        assert again == line.message
        assert again is not line.message
        assert hash(again) == hash(line.message)
