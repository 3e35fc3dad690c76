"""The command line, which is also the palette: it lists the actions that can run and match the typed text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.action import Action
from kproxy.tui.actions.keymap import keymap_of
from kproxy.tui.screens.modal import Modal
from kproxy.tui.settings.keeping import History
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar, HelpBar
from kproxy.tui.widgets.lines import Lines

MOST_RECENT = 8
"""Lines of the history that are offered while nothing is typed."""
NAME_CELLS, KEY_CELLS = 26, 12


class Chosen(NamedTuple):
    """An action to run, and what was typed after its name."""

    action: Action
    argument: str = ""


class Offer(NamedTuple):
    """A line of the palette: `text` is the command, `keys` the action's keys or its argument, `said` an explanation."""

    text: str
    keys: str
    said: str


Arguments = Callable[[Action, str], Sequence[tuple[str, str]]]
"""Maps an action and the argument typed so far to completions of the argument, each with an explanation."""


class CommandInput(Input):
    CONTEXT: ClassVar[str] = "command"
    BINDINGS = actions.bindings("command")

    class Moved(Message):
        """Asks to move the mark by some lines."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class TakeWanted(Message):
        """Asks to copy the marked line into the input."""

    def __init__(self, text: str, **options: Any) -> None:
        super().__init__(text, compact=True, select_on_focus=False, **options)

    def action_choose(self, by: int) -> None:
        self.post_message(self.Moved(by))

    def action_take(self) -> None:
        self.post_message(self.TakeWanted())


class OfferLines(Lines, can_focus=False):
    """The palette: lines that can be run; enter runs the one under the cursor."""

    CONTEXT = "command"

    class Taken(Message):
        """A line was clicked."""

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self.offers: list[Offer] = []

    @property
    def count(self) -> int:
        return len(self.offers)

    @property
    def offer(self) -> Offer | None:
        return self.offers[self.cursor] if self.offers else None

    def show(self, offers: list[Offer]) -> None:
        self.offers = offers
        self.cursor = self.top = 0
        self.content_changed()

    def cursor_style(self) -> Any:
        return look.CURSOR

    def segments(self, index: int, width: int) -> list[Segment]:
        offer = self.offers[index]
        names = max(NAME_CELLS, min(len(offer.text) + 2, width // 2)) if not offer.keys else NAME_CELLS
        return [
            Segment(self.cells.fit(f"{'>' if index == self.cursor else ' '}{offer.text}", names)),
            Segment(self.cells.fit(offer.keys, KEY_CELLS), look.KEY),
            Segment(self.cells.fit(f" {offer.said}", width - names - KEY_CELLS), look.DIM),
        ]

    def clicked(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Taken())


class CommandScreen(Modal[Chosen | None]):
    """The command line as a dialog; returns the action to run, None for none."""

    CONTEXTS: ClassVar[tuple[str, ...]] = ()
    DEFAULT_CSS = """
    CommandScreen { background: ansi_default; layout: vertical; }
    CommandScreen Horizontal { height: 1; }
    CommandScreen Static { width: 2; }
    CommandScreen CommandInput { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    """

    def __init__(
        self, cells: Cells, able: Sequence[Action], arguments: Arguments, history: History, text: str = ""
    ) -> None:
        """`able` are the actions that can run now."""
        super().__init__()
        self._cells = cells
        self._actions = {action.command: action for action in able}
        self._arguments = arguments
        self._history = history
        self._text = text

    def compose(self) -> ComposeResult:
        yield Bar(self._cells, fill=look.TITLE, id="command-title")
        with Horizontal():
            yield Static(":")
            yield CommandInput(self._text)
        yield OfferLines(self._cells)
        yield Bar(self._cells, id="command-said")
        yield HelpBar(self._cells)

    def on_mount(self) -> None:
        self.query_one("#command-title", Bar).show(([(" Command", look.TITLE)], [("esc back ", look.TITLE)]))
        self.query_one(HelpBar).show_for("command", self.input, self)
        self.input.focus()
        self._offer()

    @property
    def input(self) -> CommandInput:
        return self.query_one(CommandInput)

    @property
    def lines(self) -> OfferLines:
        return self.query_one(OfferLines)

    def _read(self, text: str) -> Chosen | None:
        """The action with the longest name that the text begins with, and the rest of the text as its argument."""
        text = text.strip()
        for name in sorted(self._actions, key=len, reverse=True):
            if text == name or text.startswith(f"{name} "):
                action, rest = self._actions[name], text[len(name) :].strip()
                return Chosen(action, rest) if action.argument or not rest else None
        return None

    def _offer(self) -> None:
        text = self.input.value.lstrip()
        chosen = self._read(text)
        takes = chosen is not None and bool(chosen.action.argument) and text.startswith(f"{chosen.action.command} ")
        if chosen is not None and takes:
            longer = [action for name, action in self._actions.items() if name.startswith(text) and name != text]
            offers = [self._named(action) for action in longer]
            found = self._arguments(chosen.action, chosen.argument)
            offers += [Offer(f"{chosen.action.command} {argument}", "", said) for argument, said in found]
        else:
            offers = self._found(text.strip())
        self.lines.show(offers)
        self._say(chosen.action if chosen is not None and takes else None)

    def _named(self, action: Action) -> Offer:
        keys = keymap_of(self.app).text(action) if action.keys else action.argument
        return Offer(action.command, keys, action.help)

    def _found(self, text: str) -> list[Offer]:
        """Actions whose name or help match the text, best match first; recent lines first while nothing is typed."""
        from textual.fuzzy import Matcher

        offers = [self._named(action) for action in sorted(self._actions.values(), key=lambda one: not one.bar)]
        if not text:
            recent = [line for line in reversed(self._history.lines) if self._read(line) is not None][:MOST_RECENT]
            return [*(Offer(line, "", "run before") for line in recent), *offers]
        matcher = Matcher(text)
        folded = text.casefold()
        scores = {
            offer: matcher.match(offer.text) + offer.text.startswith(folded) or 0.1 * (folded in offer.said.casefold())
            for offer in offers
        }
        return sorted((offer for offer in offers if scores[offer]), key=lambda offer: -scores[offer])

    def _say(self, action: Action | None) -> None:
        said = f" {action.command} {action.argument}: {action.help}" if action is not None else ""
        self.query_one("#command-said", Bar).show(([(said, look.PLAIN)], []))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._offer()

    @on(CommandInput.Moved)
    def _moved(self, event: CommandInput.Moved) -> None:
        event.stop()
        self.lines.move_to(self.lines.cursor + event.by)

    @on(CommandInput.TakeWanted)
    def _take(self, event: CommandInput.TakeWanted) -> None:
        event.stop()
        self._take_offer()

    def _take_offer(self) -> None:
        offer = self.lines.offer
        if offer is None:
            return
        action = self._actions.get(offer.text)
        self.input.value = f"{offer.text} " if action is not None and action.argument else offer.text
        self.input.cursor_position = len(self.input.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._run()

    @on(OfferLines.Taken)
    def _clicked(self, event: OfferLines.Taken) -> None:
        event.stop()
        self._run()

    def _run(self) -> None:
        """Run the typed line if it is a whole command and no other line was marked, else the marked line."""
        typed, offer = self._read(self.input.value), self.lines.offer
        marked = self._read(offer.text) if offer is not None else None
        chosen = marked if marked is not None and (self.lines.cursor or typed is None) else typed
        if chosen is None:
            words = "no action has this name" if self.input.value.strip() else "nothing is typed"
            self.query_one("#command-said", Bar).show(([(f" {words}", look.SEVERITY["E"])], []))
        elif chosen.action.must_have_argument and not chosen.argument:
            self.input.value = f"{chosen.action.command} "
            self.input.cursor_position = len(self.input.value)
        else:
            self._history.add(f"{chosen.action.command} {chosen.argument}".strip())
            self.dismiss(chosen)

    def action_close(self) -> None:
        self.dismiss(None)
