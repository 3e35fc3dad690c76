"""The base of widgets that paint their own lines, without Textual's arithmetic for borders and padding."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.containers import Container
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget


class Painted(Widget):
    """A widget without border and padding, whose lines are as wide as the widget.

    `render_line` makes the lines, which are cached until they are refreshed. A line that looks the same after a refresh
    is not sent to the terminal again.
    """

    def __init__(self, **options: Any) -> None:
        self._made: dict[int, Strip] = {}
        self._sent: dict[int, Strip] = {}
        """Lines that the terminal is known to show."""
        super().__init__(**options)

    @property
    def size(self) -> Size:
        """The outer size, as there is no gutter. Textual would look up the gutter in the screen's map every time."""
        return self.outer_size

    def _set_dirty(self, *regions: Region) -> None:
        super()._set_dirty(*regions)
        if not regions:
            self._made.clear()
        for region in regions:
            for y in region.line_range:
                self._made.pop(y, None)

    def _make(self, y: int) -> Strip:
        strip = self._made.get(y)
        if strip is None:
            strip = self._made[y] = self.render_line(y).adjust_cell_length(self.size.width)
            # the caller may or may not send the strip to the terminal
            self._sent.pop(y, None)
        return strip

    def _exchange_repaint_regions(self) -> Collection[Region]:
        """The refreshed regions that look different; Textual calls this before it sends them."""
        width = self.size.width
        changed: list[Region] = []
        for region in super()._exchange_repaint_regions():
            if region.column_span != (0, width):
                changed.append(region)
                continue
            for y in region.line_range:
                sent = self._sent.get(y)
                strip = self._make(y)
                if strip != sent:
                    changed.append(Region(0, y, width, 1))
                self._sent[y] = strip
        return changed

    def render_lines(self, crop: Region) -> list[Strip]:
        width = self.size.width
        strips = [self._make(y) for y in crop.line_range]
        if filters := self.get_line_filters():
            _, ground = self.background_colors
            for one in filters:
                strips = [strip.apply_filter(one, ground) for strip in strips]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips


class Ground(Painted, Container):
    """A container, blank wherever it has no children."""

    def render_line(self, _y: int) -> Strip:
        return Strip.blank(self.size.width)

    def show_one(self, shown: Widget, among: Iterable[Widget]) -> None:
        """Show the child `shown` and hide the others of `among`. The container's own size must stay the same.

        Faster than Textual's property `display`, which arranges all widgets of the screen anew, and than a CSS class,
        which also looks up their styles.
        """
        for child in among:
            if child.styles.set_rule("display", "block" if child is shown else "none"):
                child.refresh(layout=True)
        self._nodes._updates += 1  # noqa: SLF001 (Textual uses an arrangement again while this is unchanged)


def joined(segments: Iterable[Segment], width: int, beside: Segment, over: Style | None = None) -> Strip:
    """A strip of segments cut or padded to `width` cells, with style `over` on top, and the cell `beside` at the end.

    Under `over` text has no colours of its own: reversed, they would be blocks. Adjoining segments of the same style
    become one.
    """
    line: list[Segment] = []
    text, style = "", None
    for piece, given, _ in segments:
        own = given or None  # an empty style is the same as none
        if own == style:
            text += piece
            continue
        if text:
            line.append(Segment(text, style))
        text, style = piece, own
    line.append(Segment(text, style))
    if sum(segment.cell_length for segment in line) != width:
        line = Segment.adjust_line_length(line, width)
    if over is not None:
        line = [Segment(text, style.without_color + over if style else over) for text, style, _ in line]
    return Strip([*line, beside], width + 1)
