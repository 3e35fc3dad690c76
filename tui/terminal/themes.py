"""Themes: the interface paints in 16 colours, which a theme leaves to the terminal or replaces by others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

DEFAULT = "default"
"""The terminal's default colour."""


@dataclass(frozen=True)
class Theme:
    """Replacements of colours by name; `text` and `ground` replace the terminal's default text and background.

    `raised` is the background of reversed text without a colour: the cursor, the title and the bytes of a field. With
    DEFAULT such text stays reversed.
    """

    said: str
    colours: Mapping[str, str] = field(default_factory=dict)
    text: str = DEFAULT
    ground: str = DEFAULT
    raised: str = DEFAULT
    bold: bool = False
    """Whether coloured text is bold as well."""


# in the order of their numbers
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "bright_black")

THEMES: Mapping[str, Theme] = {
    "terminal": Theme("the terminal's own 16 colours"),
    "dark": Theme(
        "light on dark",
        {
            "red": "#ff7b72", "green": "#7ee787", "yellow": "#e3b341", "blue": "#79c0ff", "magenta": "#d2a8ff",
            "cyan": "#56d4dd", "white": "#d4d4d4", "bright_black": "#9a9a9a",
        },
        "#d4d4d4",
        "#1a1a1a",
        "#2d4f67",
    ),
    "light": Theme(
        "dark on light",
        {
            "red": "#b00020", "green": "#1b6e20", "yellow": "#7a5a00", "blue": "#1a4fa0", "magenta": "#7b2d8b",
            "cyan": "#00646e", "white": "#1f1f1f", "bright_black": "#666666",
        },
        "#1f1f1f",
        "#fbfbfb",
        "#c5dcf2",
    ),
    "high-contrast": Theme("nothing dim, colours bold", {"bright_black": DEFAULT}, bold=True),
    "mono": Theme("no colours", dict.fromkeys(_COLOURS, DEFAULT)),
}  # fmt: skip


class ThemeFilter(LineFilter):
    """Paints lines in a theme's colours."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(enabled=bool(theme.colours))
        self._theme = theme
        self._styled = lru_cache(maxsize=512)(self._style)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background  # everything is painted on the default background
        return [Segment(text, self._styled(style or Style.null()), control) for text, style, control in segments]

    def _style(self, style: Style) -> Style:
        theme = self._theme
        text = self._colour(style.color, theme.text)
        ground = self._colour(style.bgcolor, theme.ground)
        bold = theme.bold and text is not None and not text.is_default
        if style.reverse and style.color is None and theme.raised != DEFAULT:
            return style + Style(color=text, bgcolor=theme.raised, reverse=False)
        return style + Style(color=text, bgcolor=ground, bold=True if bold else None)

    def _colour(self, colour: RichColor | None, own: str) -> RichColor | None:
        if colour is None or colour.is_default:
            return None if own == DEFAULT else RichColor.parse(own)
        # Textual names some of them by their numbers: color(2)
        number = colour.number
        name = colour.name if number is None or number >= len(_COLOURS) else _COLOURS[number]
        return RichColor.parse(self._theme.colours.get(name, name))
