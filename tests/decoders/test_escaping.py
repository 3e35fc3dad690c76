"""Text from elsewhere never controls the terminal or program that shows it."""

from __future__ import annotations

import json
import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.escaping import LONGEST, escape, in_json, in_sheet, json_text, message

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
HOSTILE = f"{CLIPBOARD}\r\nkproxy: forged\x9b31m\x7f\u202egnp.exe\u2066\u061c"


def controls(text: str) -> set[str]:
    """Characters that may control a terminal, or that change the direction of text."""
    return {one for one in text if unicodedata.category(one) in {"Cc", "Cs"} or unicodedata.bidirectional(one) in BIDI}


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text())
def test_nothing_escaped_controls_a_terminal(text: str) -> None:
    assert not controls(escape(text))
    assert not controls(message(text))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_keeps_its_value_and_controls_nothing(text: str) -> None:
    data = in_json(orjson.dumps({text: [text]}))
    assert json.loads(data) == {text: [text]}
    assert not controls(data.decode())


def test_every_character_in_json() -> None:
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x3000)])) + "".join(map(chr, range(0x10000, 0x11000)))
    data = in_json(orjson.dumps(text))
    assert json.loads(data) == text
    assert not controls(data.decode())


@given(st.text())
def test_json_of_any_text_controls_nothing(text: str) -> None:
    shown = json_text({"text": text}, indent=2)
    assert json.loads(shown) == {"text": text.encode("utf-8", "replace").decode()}
    assert not controls(shown.replace("\n", ""))


def test_a_message_is_one_line_of_bounded_length() -> None:
    assert message(HOSTILE + "x" * 32_000).count("\n") == 0
    assert len(message("\x1b" * 32_000)) < 5 * LONGEST
    assert message("x" * (LONGEST + 5)).endswith("… (5 characters more)")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_sheet_calculates_nothing(text: str) -> None:
    assert in_sheet(text) == f"'{text}"
    assert in_sheet(f"x{text}") == f"x{text}"
