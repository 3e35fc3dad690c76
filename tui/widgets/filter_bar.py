"""The filter bar: the input line, a word for the text's state, an error with its position marked, suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from kproxy.tui.listing.counting import SlicedCounts
from kproxy.tui.settings.keeping import History, SavedFilters
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.filter_line import FilterInput
from kproxy.tui.widgets.painted import Ground
from kproxy.tui.widgets.suggestions import Suggestions

if TYPE_CHECKING:
    from kproxy.decoders.filters import Completion, Result

QUIET_SECONDS = 0.12
"""Pause in typing after which the text is parsed."""
SLICE_SECONDS = 0.005
"""Seconds between slices of counting the suggested values."""

STATES = {
    "ok": ("ok", Style(color="green")),
    "unfinished": ("unfinished", Style(color="yellow")),
    "error": ("error", Style(color="red", bold=True)),
    "empty": ("", look.PLAIN),
}
"""By status of the text (decoders.filters.parser.Status), the word that is shown, and its style."""
APPLICABLE = {"ok", "empty"}


class FilterBar(Ground):
    """Parses the text while it is typed, but posts only complete filters: a broken filter changes nothing."""

    DEFAULT_CSS = """
    FilterBar { height: auto; }
    FilterBar #filter-row { height: 1; layout: horizontal; }
    FilterBar #filter-label { width: 9; }
    FilterBar FilterInput { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    FilterBar #filter-state { width: auto; min-width: 2; padding: 0 1; }
    FilterBar #filter-error { height: 1; display: none; }
    FilterBar.-broken #filter-error { display: block; }
    """

    class Applied(Message):
        """A valid filter is applied; an empty one shows all exchanges."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """The bar was left; the applied filter stays."""

    def __init__(
        self, cells: Cells, saved: SavedFilters | None = None, history: History | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._cells = cells
        self._saved = SavedFilters() if saved is None else saved
        self._history = History() if history is None else history
        self._suggestions = Suggestions(cells)
        self._completion: Completion | None = None
        self._counts_of: SlicedCounts | None = None
        self._applied = ""
        self._counts = ""
        self._search: str | None = None
        """A filter that searches for the typed text, if the text itself is no filter; else None."""
        self._result: Result | None = None
        """What the latest parse of the filter's text gave; None before the first parse."""
        self._timer: Timer | None = None
        self._counting: Timer | None = None

    def compose(self) -> ComposeResult:
        with Ground(id="filter-row"):
            yield Static(" Filter ", id="filter-label")
            yield FilterInput(self._suggestions, self._history, id="filter-input")
            yield Static("", id="filter-state")
        yield Static("", id="filter-error")
        yield self._suggestions

    @property
    def input(self) -> FilterInput:
        return self.query_one(FilterInput)

    @property
    def broken(self) -> bool:
        return self.has_class("-broken")

    @property
    def applied(self) -> str:
        """Text of the applied filter, "" for none."""
        return self._applied

    @property
    def recent(self) -> list[str]:
        """The filters that were applied, the latest first."""
        return self._history.lines[::-1]

    @property
    def pending(self) -> bool:
        """Whether the text differs from the applied filter."""
        return self.input.value.strip() != self._applied

    def use(self, counts: SlicedCounts) -> None:
        """Suggest the values that `counts` finds in the index."""
        self._counts_of = counts

    def set_text(self, text: str) -> None:
        """Put a text into the line, and apply it if it is a complete filter."""
        self.input.set_value(text)
        self._submit()

    def prepare(self, text: str) -> None:
        """Put a text into the line to be edited, without applying it."""
        self.edit()
        self.input.set_value(text)
        self._judge()

    def set_counts(self, counts: str) -> None:
        """Show counts at the right: "312 of 18,204"."""
        if counts != self._counts:
            self._counts = counts
            self._show_state()

    def edit(self) -> None:
        self.input.focus()
        self.input.cursor_position = len(self.input.value)

    def restore(self) -> None:
        """Put the applied filter back into the line."""
        self.input.set_value(self._applied)
        self._judge()
        self.close_suggestions()

    # typing

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(QUIET_SECONDS, self._quiet)

    def _quiet(self) -> None:
        self._judge()
        if self.input.has_focus and self.input.value != self._applied:
            self._suggest()
        else:
            self.close_suggestions()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        """Apply a complete filter, take the marked suggestion for an unfinished one, or search for words."""
        event.stop()
        self._judge()
        if self._result is not None and self._result.status == "unfinished":
            self._suggest()  # the suggestions may date from before the last keys
            if self._suggestions.candidate is not None:
                self._take()
            return
        self._submit()

    @on(FilterInput.Left)
    def _left(self, event: FilterInput.Left) -> None:
        event.stop()
        self.post_message(self.Left())

    def _submit(self) -> None:
        self._judge()
        if self._search is not None:
            self.input.set_value(self._search)
            self._judge()
        self.close_suggestions()
        if self._result is not None and self._result.status in APPLICABLE:
            text = self.input.value.strip()
            self._applied = text
            self.input.remember(text)
            self.post_message(self.Applied(text))
        self._show_state()

    def _judge(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        from kproxy.decoders.filters import as_search, parse

        result = self._result = parse(self.input.value, self._saved)
        self._search = as_search(self.input.value) if result.status == "error" else None
        self.input.mark.result = None if self._search else result
        self.input.refresh()
        broken = result.status == "error"
        self.set_class(broken, "-broken")
        if broken:
            message = f"{result.message}  (col {result.span[0] + 1})"
            text = Text(self._cells.escape(f"         {message}"), no_wrap=True, overflow="ellipsis", end="")
            if self._search is None:
                text.stylize(look.SEVERITY["E"])
            self.query_one("#filter-error", Static).update(text)
        self._show_state()

    def _show_state(self) -> None:
        status = "empty" if self._result is None else self._result.status
        word, style = STATES[status]
        if self._search is not None:
            word, style = "enter searches for this text", STATES["ok"][1]
        if self._result is not None and self._result.expression is not None and status == "ok":
            word = f"ok {self._result.expression.cost}"
        if self.pending and status in APPLICABLE:
            word = f"{word}, enter applies".lstrip(", ")
        text = Text(no_wrap=True, end="")
        text.append(word, style)
        if self._counts:
            text.append(f"  {self._counts}")
        self.query_one("#filter-state", Static).update(text)

    # suggestions

    def close_suggestions(self) -> None:
        if self._counting is not None:
            self._counting.stop()
            self._counting = None
        self._suggestions.close()

    @on(FilterInput.SuggestionWanted)
    def _suggestion_wanted(self, event: FilterInput.SuggestionWanted) -> None:
        event.stop()
        self._judge()
        self._suggest()

    def _suggest(self) -> None:
        if self._counting is not None:
            self._counting.stop()
            self._counting = None
        if self._counts_of is not None:
            self._counts_of.forget_asked()
        self._offer()
        if self._counts_of is not None and self._counts_of.asked:
            self._counting = self.set_timer(SLICE_SECONDS, self._count_on)

    def _offer(self) -> None:
        from kproxy.decoders.filters import complete

        completion = complete(self.input.value, self.input.cursor_position, self._counts_of, self._saved)
        self._completion = completion
        self._suggestions.offer(completion.candidates)

    def _count_on(self) -> None:
        """Count another slice of rows for the suggested values, and show the new counts."""
        self._counting = None
        if self._counts_of is None or not self._suggestions.is_open:
            return
        left = self._counts_of.advance()
        self._offer()
        if left:
            self._counting = self.set_timer(SLICE_SECONDS, self._count_on)

    @on(FilterInput.SuggestionTaken)
    @on(Suggestions.Taken)
    def _taken(self, event: Message) -> None:
        event.stop()
        self._take()

    def _take(self) -> None:
        """Put the marked suggestion into the line; an example is selected, so that typing replaces it."""
        candidate, completion = self._suggestions.candidate, self._completion
        if candidate is None or completion is None:
            return
        text, cursor = completion.accept(self.input.value, candidate)
        if candidate.kind in {"operator", "keyword"} and candidate.text.isalpha() | candidate.text.endswith("="):
            text, cursor = f"{text[:cursor]} {text[cursor:].lstrip()}", cursor + 1
        with self.prevent(Input.Changed):
            self.input.value = text
            self.input.cursor_position = cursor
            if candidate.kind == "example":
                self.input.selection = Selection(cursor - len(candidate.text), cursor)
        self.input.focus()
        self._suggestions.close()
        self._judge()
        self._suggest()
