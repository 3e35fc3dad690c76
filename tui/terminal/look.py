"""Styles in the terminal's own 16 colours. Colour is never the only sign: letters and words say the same."""

from __future__ import annotations

from functools import lru_cache

from rich.style import Style

PLAIN = Style.null()
DIM = Style(color="bright_black")
BOLD = Style(bold=True)
CURSOR = Style(reverse=True)
CURSOR_AWAY = Style(underline=True, bold=True)
"""The cursor of a pane without the focus."""
HEADING = Style(bold=True, underline=True)
TITLE = Style(reverse=True)
TITLE_ALARM = Style(reverse=True, bold=True, color="red")
BYTES = Style(reverse=True)
BYTE_CURSOR = Style(reverse=True, bold=True, underline=True)
UNPARSED = Style(underline=True, color="yellow")
NAME = Style(color="cyan")
KEY = Style(bold=True)

SEVERITY = {
    "E": Style(color="red", bold=True),
    "W": Style(color="yellow"),
    "N": Style(color="cyan"),
}
OK = Style(color="green")
WAITING = Style(color="bright_black")

CLASS = {
    "group": Style(color="magenta"),
    "transaction": Style(color="yellow"),
    "admin": Style(color="blue"),
    "security": Style(color="red"),
    "control": Style(color="bright_black"),
    "quorum": Style(color="bright_black"),
    "share": Style(color="magenta"),
    "streams": Style(color="magenta"),
}
"""Colour of the API column by class of API; other classes are plain."""


@lru_cache(maxsize=1024)
def pressed(style: Style, action: str) -> Style:
    """A style whose text runs a Textual action ("app.go('stats')") when clicked."""
    return style + Style(meta={"@click": action})
