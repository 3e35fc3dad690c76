"""Text from the wire as cells of a terminal: escaped, so that no record can drive it, and measured as it is shown."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from kproxy.decoders.escaping import escape

# what a look uses of Unicode and how ASCII says it
_GLYPHS = {
    "…": "~", "│": "|", "─": "-", "▐": "[", "▌": "]", "•": "*", "✖": "x", "▾": "v", "▸": ">", "█": "#", "░": ":",
    "▪": "*", "▬": "#", "━": "=",
}  # fmt: skip


# glyphs that are drawn and say nothing, or that words say in plain text
_PLAIN = {"│": " ", "─": "-", "█": " ", "▐": "[", "▌": "]"}


class Cells:
    """How text becomes cells; `ascii_only` also spells everything beyond ASCII (a terminal or locale without it).

    `plain` draws nothing: somebody listens to the screen.
    """

    def __init__(self, *, ascii_only: bool = False, plain: bool = False) -> None:
        self.ascii_only = ascii_only
        self.plain = plain

    def escape(self, text: str) -> str:
        """The text with everything spelt that would move the cursor, change direction or take no cell."""
        return escape(text, ascii_only=self.ascii_only)

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

    def fit_keeping_last_word(self, text: str, width: int) -> str:
        """Like `fit`, but a text that is cut keeps its last word: the version of an API, how many more topics."""
        head, _, last = text.rpartition(" ")
        if len(text) <= width or not head or not last.isascii() or len(last) > width // 3:
            return self.fit(text, width)
        return f"{self.fit(head, width - len(last) - 1)} {self.fit(last, len(last))}"

    def glyph(self, glyph: str) -> str:
        """A glyph of ours, or what stands in for it."""
        if self.plain and glyph in _PLAIN:
            return _PLAIN[glyph]
        return _GLYPHS.get(glyph, "?") if self.ascii_only else glyph
