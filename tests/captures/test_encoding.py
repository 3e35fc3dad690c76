"""Objects as bytes of JSON, read again by the standard library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.export.encoding import encode

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | FLOATS | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES)
def test_it_is_read_as_it_was(value: Any) -> None:
    text = encode(value)
    assert json.loads(text) == value
    assert b"\n" not in text


@pytest.mark.parametrize("beside", [0, 1 << 64])
def test_it_has_one_form_whoever_writes_it(beside: int) -> None:
    value = {"a": [1, None, True], "b": {"c": "\u00e9\x7f\t"}, "d": [], "e": beside}
    assert encode(value) == b'{"a":[1,null,true],"b":{"c":"\xc3\xa9\\u007f\\t"},"d":[],"e":%d}' % beside


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert encode({"name": "a\udc80"}) == b'{"name":"a?"}'
