"""Regular expressions of filters match as Python's do, and their time is bounded by the length of the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.filters import Status, parse
from kproxy.decoders.filters.regex import BadRegex, searcher

PARTS = st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", r"\d", r"\.", "x", "^", "$", r"\b", "(?i:A)", "é"])
PATTERNS = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,2}", "*?"])).map(lambda one: f"(?:{one[0]}){one[1]}"),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text("abAB.é12x ", max_size=12))
def test_it_finds_what_python_finds(pattern: str, text: str) -> None:
    assert searcher(pattern)(text) == (re.search(pattern, text, re.ASCII) is not None)


@pytest.mark.timeout(60)  # Python's re would take years
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "((a*)*)*b$", r"(\w+\s?)*:"])
def test_none_backtracks(pattern: str) -> None:
    fits = searcher(pattern)
    assert not fits("a" * 100_000 + "!")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a(b", "missing )"),
        ("a**", "bad repetition operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid perl operator"),
        ("[z-a]", "invalid character class range"),
        ("((a{100}){100}){100}", "invalid repetition size"),
        (r"(?i)\pL{4}", "too large"),
    ],
)
def test_what_is_none_is_refused(pattern: str, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadRegex, match=re.escape(why)):
        searcher(pattern)
    result = parse(f"client.id ~ '{pattern}' or api")
    assert result.status is Status.ERROR
    assert "is not a regular expression" in (result.message or "")
    assert capfd.readouterr() == ("", "")


def test_any_text_can_be_searched() -> None:
    assert searcher("a.b")("a\ud800b")
    assert searcher("\ud800")("a\ud800b")
    assert searcher("^$")("")
