"""The export dialog: which exchanges, which format, what to leave out, which file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, Static

from kproxy.captures.export.output_formats import OUTPUT_FORMATS
from kproxy.decoders.plurals import counted
from kproxy.tui.actions import registry as actions
from kproxy.tui.output.commands import Exporter
from kproxy.tui.output.exporting import NOTHING, TAKEN_OUT, THIS, Choice, Wanted, arguments, default_target
from kproxy.tui.output.paths import completions
from kproxy.tui.screens.modal import Modal
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar, HelpBar
from kproxy.tui.widgets.lines import Lines

TITLE_CELLS = 11
GOES_ON = " \\"
WHAT, FORMAT, LEAVE_OUT = "What", "Format", "Leave out"


class ExportLines(Lines):
    """A line for each setting (WHAT, FORMAT, LEAVE_OUT) with all choices."""

    CONTEXT = "export"
    BINDINGS = actions.bindings("export")
    DEFAULT_CSS = """
    ExportLines { height: 3; }
    """

    class Changed(Message):
        """Another choice was taken."""

    class Below(Message):
        """The cursor moves below the last line, to the file name."""

    def __init__(self, cells: Cells, choices: Mapping[str, Mapping[str, str]], chosen: dict[str, str]) -> None:
        """`choices` maps each line's title to its choices (name to shown text), `chosen` maps it to the chosen name."""
        super().__init__(cells)
        self.choices = choices
        self.chosen = chosen

    @property
    def count(self) -> int:
        return len(self.choices)

    def line_key(self, index: int) -> None:
        del index

    def cursor_style(self) -> Any:
        return look.PLAIN

    def segments(self, index: int, width: int) -> list[Segment]:
        title = list(self.choices)[index]
        here = index == self.cursor
        line = [Segment(self.cells.fit(f"{'>' if here else ' '}{title}", TITLE_CELLS), look.BOLD if here else look.DIM)]
        for name, text in self.choices[title].items():
            at = name == self.chosen[title]
            # brackets, so that the choice does not show by style alone
            line.append(Segment(f"[{text}]" if at else f" {text} ", look.CURSOR if at and here else look.PLAIN))
        return list(Strip(line).crop(0, width))

    def choose(self, name: str, title: str) -> None:
        self.chosen[title] = name
        self.content_changed()
        self.refresh()
        self.post_message(self.Changed())

    def action_choose(self, by: int) -> None:
        title = list(self.choices)[self.cursor]
        names = list(self.choices[title])
        self.choose(names[(names.index(self.chosen[title]) + by) % len(names)], title)

    def action_down(self) -> None:
        if self.cursor + 1 < self.count:
            self.move_to(self.cursor + 1)
        else:
            self.post_message(self.Below())

    def clicked(self, event: events.Click) -> None:
        left = TITLE_CELLS
        title = list(self.choices)[self.cursor]
        for name, text in self.choices[title].items():
            if left <= event.x < left + len(text) + 2:
                self.choose(name, title)
            left += len(text) + 2


class FileInput(Input):
    """The name of the file to write."""

    CONTEXT: ClassVar[str] = "export-file"
    BINDINGS = actions.bindings("export-file")

    def action_complete(self) -> None:
        """Extend the name by the longest common prefix of all matching paths."""
        found = [path for path, _ in completions(self.value)]
        if found:
            first, last = min(found), max(found)
            same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
            self.value = first[: max(same, len(self.value))]
            self.cursor_position = len(self.value)


class ExportScreen(Modal[Wanted | None]):
    """Returns the export that the user wants; None to export nothing."""

    CONTEXTS: ClassVar[tuple[str, ...]] = ()
    DEFAULT_CSS = """
    ExportScreen { background: ansi_default; layout: vertical; }
    ExportScreen Horizontal { height: 1; }
    ExportScreen Static { width: 11; }
    ExportScreen FileInput { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    ExportScreen #export-told { height: 1fr; }
    """

    def __init__(
        self,
        cells: Cells,
        exporter: Exporter,
        captures: Sequence[str],
        choices: Mapping[str, Choice],
        first: Wanted | None = None,
        *,
        secrets: bool = False,
        notes: Sequence[str] = (),
        stem: str = "",
    ) -> None:
        """`first` is preselected; `secrets` allows to export secrets; `stem` is passed to `default_target`."""
        super().__init__()
        self._cells = cells
        self._exporter = exporter
        self._captures = captures
        self._choices = choices
        self._notes = notes
        self._stem = stem
        number = choices[THIS].number if THIS in choices else None
        labels = {name: f"{name} {choice.count:,}" for name, choice in choices.items()}
        if number is not None:
            labels[THIS] = f"{THIS} #{number}"
        leave_out = [*([NOTHING] if secrets else []), *TAKEN_OUT]
        shown = {name: name if name in {NOTHING, "secrets"} else f"secrets+{name}" for name in leave_out}
        self._lines = {WHAT: labels, FORMAT: {name: name for name in OUTPUT_FORMATS}, LEAVE_OUT: shown}
        self._first = first
        self._chosen = {
            WHAT: first.what if first is not None and first.what in choices else next(iter(choices)),
            FORMAT: first.form if first is not None else "jsonl",
            LEAVE_OUT: first.leave_out if first is not None and first.leave_out in shown else "secrets",
        }
        self._suggested = ""
        self._warned = ""
        """The file about which the user was warned that it exists."""

    def compose(self) -> ComposeResult:
        yield Bar(self._cells, fill=look.TITLE, id="export-title")
        yield ExportLines(self._cells, self._lines, self._chosen)
        with Horizontal():
            yield Static(" File", classes="title")
            yield FileInput(compact=True, select_on_focus=False)
        yield Bar(self._cells, id="export-told")
        yield Bar(self._cells, id="export-said")
        yield HelpBar(self._cells)

    def on_mount(self) -> None:
        self.query_one("#export-title", Bar).show(([(" Export", look.TITLE)], [("esc back ", look.TITLE)]))
        if self._first is not None:
            self.file.value = str(self._first.target)
        else:
            self._suggest()
        self.lines.focus()
        self._tell()
        if self._first is not None:
            self._say_trouble(self.wanted)

    @property
    def lines(self) -> ExportLines:
        return self.query_one(ExportLines)

    @property
    def file(self) -> FileInput:
        return self.query_one(FileInput)

    @property
    def wanted(self) -> Wanted:
        """The present choices."""
        target = Path(self.file.value.strip() or ".").expanduser()
        return Wanted(self._chosen[WHAT], self._chosen[FORMAT], self._chosen[LEAVE_OUT], target)

    @property
    def _choice(self) -> Choice:
        return self._choices[self._chosen[WHAT]]

    def _suggest(self) -> None:
        """Suggest a file name for the present choices, unless the user has typed one."""
        if self.file.value == self._suggested:
            name = default_target(
                self._captures, self._chosen[FORMAT], self._chosen[WHAT], self._choice.number, self._stem
            )
            self.file.value = self._suggested = str(name)
            self.file.cursor_position = len(self._suggested)

    def _tell(self) -> None:
        """Show the meaning of the chosen format, notes, and the `kproxy export` command for the choices."""
        wanted, choice = self.wanted, self._choice
        count = counted(choice.count, "exchange", ",")
        words = ["kproxy", "export", *arguments(self._exporter, self._captures, choice, wanted, wanted.target)]
        lines: list[str] = [
            "",
            f"{count}: {OUTPUT_FORMATS[wanted.form].meaning}.",
            *self._notes,
            "",
            "The same as a command:",
            "",
        ]
        lines += command_lines(words, max(20, self.app.size.width - 2))
        self.query_one("#export-told", Bar).show(*(([(f" {line}", look.PLAIN)], []) for line in lines))
        focused = self.focused
        self.query_one(HelpBar).show_for(getattr(focused, "CONTEXT", "export"), focused, self)

    def _say(self, text: str) -> None:
        style = look.SEVERITY["E"]
        self.query_one("#export-said", Bar).show(([(f" {text}", style)] if text else [], []))

    @on(ExportLines.Changed)
    def _changed(self, event: ExportLines.Changed) -> None:
        event.stop()
        self._suggest()
        self._tell()
        self._say("")

    @on(ExportLines.Below)
    def _below(self, event: ExportLines.Below) -> None:
        event.stop()
        self.file.focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._tell()
        if self._warned != str(self.wanted.target):
            self._say("")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_begin()

    def on_descendant_focus(self) -> None:
        self._tell()

    def on_resize(self) -> None:
        self._tell()

    def action_choices(self) -> None:
        self.lines.focus()

    def _say_trouble(self, wanted: Wanted) -> bool:
        trouble = wanted.trouble(self._choice, self._captures)
        if not trouble and wanted.exists:
            trouble = f"{wanted.target} exists already: press enter again to replace it"
            self._warned = str(wanted.target)
        self._say(trouble)
        return bool(trouble)

    def action_begin(self) -> None:
        """Export if the choices are valid; replace an existing file only when asked a second time."""
        wanted = self.wanted
        again = (
            self._warned == str(wanted.target) and wanted.exists and not wanted.trouble(self._choice, self._captures)
        )
        if again:
            self.dismiss(Wanted(wanted.what, wanted.form, wanted.leave_out, wanted.target, overwrite=True))
        elif not self._say_trouble(wanted):
            self.dismiss(wanted)

    def action_close(self) -> None:
        self.dismiss(None)


def command_lines(words: Sequence[str], width: int) -> list[str]:
    """A command as lines that a shell joins to one; a word longer than `width` is cut into several lines."""
    lines = [""]
    for word in map(shlex.quote, words):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        # leaves room for the backslash of a continued line
        if len(joined) + len(GOES_ON) <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines[-1] += GOES_ON
            lines.append(word)
    return [line[at : at + width] for line in lines for at in range(0, len(line), width)]
