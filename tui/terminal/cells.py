"""Text from the wire as terminal cells: escaped, so that no record can control the terminal, and cut to cells."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from kproxy.decoders.escaping import escape

# Unicode glyphs of the interface and their substitutes in ASCII
_GLYPHS = {
    "…": "~", "│": "|", "─": "-", "•": "*", "✖": "x", "▾": "v", "▸": ">", "█": "#", "░": ":",
    "▪": "*", "▬": "#", "━": "=", "▲": "^", "▼": "v", "≠": "!",
}  # fmt: skip


# substitutes in plain mode, for glyphs that are decoration or whose meaning words repeat
_PLAIN = {"│": " ", "─": "-", "█": " "}


class Cells:
    """Turns text into cells; `ascii_only` spells out non-ASCII characters, for terminals and locales without Unicode.

    `plain` leaves out decoration, for screen readers.
    """

    def __init__(self, *, ascii_only: bool = False, plain: bool = False) -> None:
        self.ascii_only = ascii_only
        self.plain = plain

    def escape(self, text: str) -> str:
        """The text with characters spelt out that move the cursor, change text direction or have no width."""
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

    def fit_tail(self, text: str, width: int) -> str:
        """Like `fit`, but a text that is too long loses its beginning."""
        text = self.escape(text)
        if cell_len(text) <= width or width <= 0:
            return self.fit(text, width)
        kept = text[1 - width :] if width > 1 else ""
        while cell_len(kept) > width - 1:
            kept = kept[1:]
        return self.fit(self.glyph("…") + kept, width)

    def fit_middle(self, text: str, width: int) -> str:
        """Like `fit`, but a text that is too long loses its middle, so that names with the same beginning differ."""
        text = self.escape(text)
        if cell_len(text) <= width or width < 5:
            return self.fit(text, width)
        tail = (width - 1) // 2
        return self.fit(text, width - tail) + self.fit_tail(text, tail + 1).removeprefix(self.glyph("…"))

    def fit_keeping_last_word(self, text: str, width: int) -> str:
        """Like `fit`, but a cut text keeps its last word: an API's version, the number of further topics."""
        head, _, last = text.rpartition(" ")
        if len(text) <= width or not head or not last.isascii() or len(last) > width // 3:
            return self.fit(text, width)
        return f"{self.fit(head, width - len(last) - 1)} {self.fit(last, len(last))}"

    def glyph(self, glyph: str) -> str:
        """A glyph of the interface, or its substitute in ASCII or plain mode."""
        if self.plain and glyph in _PLAIN:
            return _PLAIN[glyph]
        return _GLYPHS.get(glyph, "?") if self.ascii_only else glyph
