"""Menus that fill the screen: the user takes one of several choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.message import Message

from kproxy.decoders.filters.language import SAVED
from kproxy.tui.actions import registry as actions
from kproxy.tui.screens.modal import Modal
from kproxy.tui.search.clauses import FORMS, Clause, joined
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar, HelpBar
from kproxy.tui.widgets.lines import Lines

T = TypeVar("T")


class Choice(NamedTuple):
    """A line of a menu."""

    name: str
    text: str


class MenuLines(Lines):
    """The choices of a menu, one on each line."""

    CONTEXT = "menu"
    BINDINGS = actions.bindings("menu")

    class Taken(Message):
        """The line under the cursor was clicked, or entered."""

    def __init__(self, cells: Cells, choices: Sequence[Choice], **options: Any) -> None:
        super().__init__(cells, **options)
        self._choices = choices
        self._names = max((len(choice.name) for choice in choices), default=0)

    @property
    def count(self) -> int:
        return len(self._choices)

    def replace(self, choices: Sequence[Choice]) -> None:
        """Show other choices; the cursor stays on its line."""
        self._choices = choices
        self.content_changed()

    def segments(self, index: int, width: int) -> list[Segment]:
        choice = self._choices[index]
        names = min(self._names + 2, width // 2)
        return [
            Segment(self.cells.fit(f"{'>' if index == self.cursor else ' '}{choice.name}", names + 1), look.NAME),
            Segment(self.cells.fit(choice.text, width - names - 1)),
        ]

    def clicked(self, event: events.Click) -> None:
        del event
        self.action_take()

    def action_take(self) -> None:
        self.post_message(self.Taken())


class MenuScreen(Modal[T], Generic[T]):
    """A title, the choices, a line about them, and keys. A subclass decides what taking a choice returns."""

    CONTEXT: ClassVar[str] = "menu"
    CONTEXTS: ClassVar[tuple[str, ...]] = ()
    BINDINGS: ClassVar = []
    DEFAULT_CSS = """
    MenuScreen { background: ansi_default; layout: vertical; }
    """

    def __init__(self, cells: Cells, title: str, choices: Sequence[Choice], at: int = 0) -> None:
        super().__init__()
        self._cells = cells
        self._title = title
        self._choices = choices
        self._at = at

    def compose(self) -> ComposeResult:
        yield Bar(self._cells, fill=look.TITLE, id="menu-title")
        yield MenuLines(self._cells, self._choices)
        yield Bar(self._cells, id="menu-said")
        yield HelpBar(self._cells)

    def on_mount(self) -> None:
        self.lines.focus()
        self.lines.move_to(self._at)
        self.show_chrome()

    @property
    def lines(self) -> MenuLines:
        return self.query_one(MenuLines)

    def show_chrome(self) -> None:
        """Show the title and the keys."""
        self.query_one("#menu-title", Bar).show(([(f" {self._title}", look.TITLE)], [("esc back ", look.TITLE)]))
        self.query_one(HelpBar).show_for(self.CONTEXT, self, self)

    def on_menu_lines_taken(self, event: MenuLines.Taken) -> None:
        event.stop()
        self.taken(self.lines.cursor)

    def taken(self, index: int) -> None:
        """A choice was taken."""
        raise NotImplementedError

    def action_close(self) -> None:
        self.dismiss(None)


class ChoiceMenu(MenuScreen[int | None]):
    """Returns the index of the choice taken, None for none."""

    def taken(self, index: int) -> None:
        self.dismiss(index)


class Asked(NamedTuple):
    """A filter to be applied, or only put into the filter bar (`prepared`)."""

    text: str
    prepared: bool


class FilterMenu(MenuScreen[Asked | None]):
    """A menu of clauses; the key pressed chooses how the clause joins the applied filter (`FORMS`)."""

    CONTEXT = "forms"
    BINDINGS: ClassVar = actions.bindings("forms")

    def __init__(
        self,
        cells: Cells,
        title: str,
        clauses: Sequence[Clause],
        applied: str,
        saved: Mapping[str, str],
        at: int = 0,
    ) -> None:
        super().__init__(cells, title, [Choice(name, _said(text, saved)) for name, text in clauses], at)
        self._clauses = clauses
        self._applied = applied
        self._saved = saved
        self._prepares = False

    def show_chrome(self) -> None:
        super().show_chrome()
        words = "put into the line, not applied" if self._prepares else "applied at once"
        applied = f" now: {self._applied}" if self._applied else " now: no filter"
        self.query_one("#menu-said", Bar).show(([(applied, look.PLAIN)], [(f"{words} (tab) ", look.BOLD)]))

    def taken(self, index: int) -> None:
        self._answer(index, "selected")

    def action_form(self, form: str) -> None:
        self._answer(self.lines.cursor, form)

    def action_prepare(self) -> None:
        self._prepares = not self._prepares
        self.show_chrome()

    def _answer(self, index: int, form: str) -> None:
        text = joined(self._applied, FORMS[form], self._clauses[index].text, self._saved)
        self.dismiss(Asked(text, self._prepares))


def _said(text: str, saved: Mapping[str, str]) -> str:
    """The text shown for a clause; for a saved filter ("$NAME") the filter's text."""
    return saved.get(text.removeprefix(SAVED), text) if text.startswith(SAVED) else text
