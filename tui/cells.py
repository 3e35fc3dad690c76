"""Text from the wire as cells of a terminal: escaped, so that no record can drive it, and measured as it is shown."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: a terminal obeys them
    "\u00ad\u061c\u180e"  # soft hyphen, Arabic letter mark, Mongolian vowel separator
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line ends, bidi
    "\ufe00-\ufe0f\ufeff\ufff9-\ufffb"  # variation selectors, byte order mark, interlinear
    "\ud800-\udfff"
    "\U000e0000-\U000e0fff"  # tags and variation selectors
    "]"
)
_BEYOND_ASCII = re.compile("[^ -~]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
# what a look uses of Unicode and how ASCII says it
_GLYPHS = {
    "…": "~", "│": "|", "─": "-", "▐": "[", "▌": "]", "•": "*", "✖": "x", "▾": "v", "▸": ">", "█": "#", "░": ":",
}  # fmt: skip


class Cells:
    """How text becomes cells; `ascii_only` also spells everything beyond ASCII (a terminal or locale without it)."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        self.ascii_only = ascii_only

    def escape(self, text: str) -> str:
        """The text with everything spelt that would move the cursor, change direction or take no cell."""
        text = _UNSAFE.sub(_spell, text)
        return _BEYOND_ASCII.sub(_spell, text) if self.ascii_only else text

    def fit(self, text: str, width: int, *, right: bool = False) -> str:
        """Escaped text in exactly `width` cells, cut with an ellipsis, padded on one side."""
        if width <= 0:
            return ""
        text = self.escape(text[: width * 2 + 2])
        length = cell_len(text)
        if length > width:
            return set_cell_size(text, width - 1) + self.glyph("…")
        padding = " " * (width - length)
        return padding + text if right else text + padding

    def glyph(self, glyph: str) -> str:
        """A glyph of ours, or its ASCII stand-in."""
        return _GLYPHS.get(glyph, "?") if self.ascii_only else glyph


def _spell(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
