from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kproxy.tui.terminal.cells import Cells


@given(st.text(), st.integers(0, 60), st.booleans(), st.booleans())
def test_fitted_text_takes_exactly_its_cells(text: str, width: int, ascii_only: bool, right: bool) -> None:
    fitted = Cells(ascii_only=ascii_only).fit(text, width, right=right)
    assert cell_len(fitted) == width
    assert not ascii_only or fitted.isascii()


@given(st.text())
def test_escaped_text_cannot_drive_a_terminal(text: str) -> None:
    escaped = Cells().escape(text)
    for character in escaped:
        code = ord(character)
        assert code >= 0x20
        assert not 0x7F <= code < 0xA0
        assert not 0x200B <= code <= 0x200F
        assert not 0x202A <= code <= 0x202E
        assert not 0x2066 <= code <= 0x2069


def test_escapes_are_readable() -> None:
    cells = Cells()
    assert cells.escape("a\x1b[31m\n\u202e") == "a\\x1b[31m\\n\\u202e"
    assert cells.fit("漢字漢字", 5) == "漢字…"
    assert cells.fit("漢字漢字", 4) == "漢 …"
    assert Cells(ascii_only=True).fit("größe…", 30).rstrip() == "gr\\xf6\\xdfe\\u2026"
