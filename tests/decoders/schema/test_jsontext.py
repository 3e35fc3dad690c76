from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.decoders.schema.jsontext import DEEPEST, DefinitionError, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_reads_what_json_reads(value: Any, indent: int | None, ascii_only: bool) -> None:
    assert parse(json.dumps(value, indent=indent, ensure_ascii=ascii_only)).plain() == value


def _read(parser: Any, text: str) -> Any:
    try:
        return parser(text)
    except ValueError as error:
        return error


@settings(deadline=None)
@given(st.text(alphabet='{}[]:,"\\/ \n019.eE+-truefalsn\u00e9\x00'))
def test_any_text_is_read_as_json_does_or_refused(text: str) -> None:
    found, expected = _read(parse, text), _read(json.loads, text)
    if isinstance(found, DefinitionError):
        assert 1 <= found.line <= text.count("\n") + 1
        assert isinstance(expected, ValueError) or "appears twice" in found.message
    elif "//" not in text:
        assert found.plain() == expected


def test_lines_and_comments() -> None:
    element = parse('// a comment\n{\n  "a": 1, // "b": 2\n  "url": "http://x",\n  "c": [\n  true]}\n// end')
    assert element.plain() == {"a": 1, "url": "http://x", "c": [True]}
    assert {name: one.line for name, one in element.value.items()} == {"a": 3, "url": 4, "c": 5}
    assert (element.line, element.value["c"].value[0].line) == (2, 6)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "a value is missing before the end"),
        ("{\n", 2, "a name in quotes is missing before the end"),
        ('{"a"\n 1}', 2, "a colon is missing before '1'"),
        ('{"a": 1\n "b": 2}', 2, "a comma or } is missing before '\"'"),
        ("[1,\n2", 2, "a comma or ] is missing before the end"),
        ("[1,\n]", 2, "a value is missing before ']'"),
        ('{"a": 1,\n"a": 2}', 2, "'a' appears twice in one object"),
        ("{}\n{}", 2, "unexpected text after the value"),
        ('"\\x"', 1, "Invalid \\escape"),
        ("01", 1, "a value is missing before '0'"),
        ("[" * (DEEPEST + 1), 1, f"more than {DEEPEST} levels of objects and arrays"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(text)
    assert reason in str(caught.value)
    assert caught.value.line == line
