"""Exporting from the exchanges screen."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kproxy.captures.export.output_formats import OUTPUT_FORMATS
from kproxy.captures.index.format import Flag
from kproxy.tui.output.copying import Copy
from kproxy.tui.output.exporting import (
    ALL,
    MARKED,
    SHOWN,
    THIS,
    Choice,
    Export,
    Wanted,
    default_target,
    numbers_test,
    of_line,
)
from kproxy.tui.screens.shared import Shared
from kproxy.tui.terminal import look

if TYPE_CHECKING:
    from kproxy.decoders.filters import Expression
    from kproxy.tui.output.commands import Exporter
    from kproxy.tui.settings.live import RunInfo
    from kproxy.tui.widgets.chrome import Part


TOLD_SECONDS = 20.0
"""How long the status line shows the result of an export."""


class Exporting:
    """Runs exports, one at a time, each in a separate process."""

    def __init__(self, shared: Shared, exporter: Exporter | None, live: RunInfo | None) -> None:
        self._shared = shared
        self._screen = shared.screen
        self._live = live
        self.exporter = exporter
        self.export: Export | None = None
        """The running export."""
        self._exported = ""
        """Result of the last export, in words."""
        self._over_at = 0.0

    @property
    def able(self) -> bool:
        """Whether anything can be exported."""
        return self.exporter is not None

    def parts(self) -> list[Part]:
        """Parts of the status line about the running export, or the result of the last one."""
        if self.export is not None:
            return [(f"  [{self.export.said()}; x stops it]", look.BOLD)]
        if self._exported and time.monotonic() - self._over_at > TOLD_SECONDS:
            self._exported = ""
        return [(f"  [{self._exported}]", look.PLAIN)] if self._exported else []

    def watch(self) -> None:
        """Notify the user once the running export has ended."""
        if self.export is not None and self.export.poll():
            self._export_over(self.export)

    def end(self) -> None:
        """Stop the running export, as exports do not outlive the interface."""
        if self.export is not None:
            self.export.stop()
            self.export = None

    def _export_over(self, export: Export) -> None:
        self.export = None
        self._exported, self._over_at = export.closing, time.monotonic()
        self._screen.app.notify(export.closing, severity="error" if export.failed else "information", timeout=10)
        if not export.failed:
            self._screen.app.hand_over(export.wanted.target)
        self._screen.show_chrome()

    # Subjects of an export.

    @property
    def captures(self) -> Sequence[str]:
        """Names of the captures that a command reads."""
        exporter = self.exporter
        if exporter is not None and exporter.captures:
            return exporter.captures
        return [] if self._shared.index is None else list(self._shared.index.meta.get("sources", []))

    def commands(
        self, name: str, *more: str, filters: Sequence[str] = (), limited: bool = True, piped: str = ""
    ) -> list[Copy]:
        """A copy of the command `kproxy NAME` that reads what is shown here; none if no command reads it.

        `more` are further arguments; `piped` is appended to the command. The command selects exchanges that pass all
        `filters`; without filters, if `limited`, those of the shown period.
        """
        if self.exporter is None:
            return []
        limits = () if filters or not limited else self._shared.captions.period.options()
        joined = " and ".join(f"({one})" for one in filters) if len(filters) > 1 else "".join(filters)
        options = (*self.exporter.options, *more, *limits, *(("-Y", joined) if joined else ()))
        command = shlex.join(["kproxy", name, *self.captures, *options]) + piped
        return [Copy("command", command, lambda: command)]

    def shown(self) -> Sequence[str]:
        """The filters that select what the list shows."""
        found = self._choices()
        return found[SHOWN].tests if SHOWN in found else found[MARKED].tests if MARKED in found else ()

    def _choices(self) -> dict[str, Choice]:
        """Sets of exchanges that can be exported, by name: SHOWN, MARKED, THIS, ALL."""
        index, pane, view = self._shared.index, self._shared.pane, self._shared.pane.view
        if index is None or view is None:
            return {}
        filters = () if view.expression is None else (portable(view.text, view.expression),)
        hidden = [row for row in pane.hidden if index.first <= row < index.count]
        shown = (*filters, *([f"not ({self._numbered(hidden)})"] if hidden else []))
        found = {SHOWN: Choice(view.count - len(hidden), shown)}
        notes = pane.notes
        rows = [] if notes is None else [row for row in notes.numbers if index.first <= row < index.count]
        marked = [row for row in rows if notes is not None and notes.is_marked(row, index.row(row))]
        if pane.marked_only:
            marked = [row for row in marked if pane.shows(row)]
            found = {}
        if marked:
            found[MARKED] = Choice(len(marked), (self._numbered(marked),))
        if pane.selected is not None:
            tests = (self._numbered([pane.selected]),) if index.first else ()
            found[THIS] = Choice(1, tests, pane.selected + 1)
        found[ALL] = Choice(index.count - index.first)
        return found

    def _numbered(self, rows: Sequence[int]) -> str:
        """A filter that finds index rows by their exchange numbers, or by times and correlation ids.

        Times are used if the beginning of a ring is deleted, because the export then numbers exchanges from 1 again.
        """
        index = self._shared.index
        if index is None or not index.first:
            return numbers_test(row + 1 for row in rows)
        from kproxy.decoders.fields import Type
        from kproxy.decoders.filters.values import LITERALS

        tests = []
        for number in rows:
            row = index.row(number)
            test = f"time == {LITERALS[Type.TIME].write(row.time)}"
            if not row.flags & Flag.NO_CORRELATION:
                test += f" and correlation == {row.correlation}"
            tests.append(f"({test})")
        return " or ".join(tests)

    def _export_notes(self) -> list[str]:
        index = self._shared.index
        return [f"{index.first:,} older exchanges were overwritten"] if index is not None and index.first else []

    @property
    def _stem(self) -> str:
        """Beginning of export file names for a run without a named recording ("kproxy-19092"); "" otherwise."""
        live = self._live
        return "" if live is None or live.recording is not None else f"kproxy-{live.bootstrap.rpartition(':')[2]}"

    # actions

    def action_export(self, line: str = "") -> None:
        """Open the export dialog; `line` ("csv FILE") fills it in, or exports at once if it names a new file."""
        exporter, choices = self.exporter, self._choices()
        if self.export is not None:
            self._ask_to_stop(self.export)
            return
        if exporter is None or not choices:
            self._screen.notify("there is nothing to export yet", timeout=3)
            return
        first = None
        if line:
            try:
                first = self._of_line(line, choices)
            except ValueError as error:
                self._screen.notify(str(error), severity="warning", timeout=4)
                return
            named = len(line.split()) > 1
            if named and not first.exists and not first.trouble(choices[first.what], self.captures):
                self._begin(choices, first)
                return
        from kproxy.tui.screens.export import ExportScreen

        screen = ExportScreen(
            self._shared.cells, exporter, self.captures, choices, first, secrets=self._shared.show_secrets,
            notes=[*self._export_notes(), *(["Exchanges that pass meanwhile are exported too."] if self._live else ())],
            stem=self._stem,
        )  # fmt: skip
        self._screen.app.push_screen(screen, partial(self._begin, choices))

    def _of_line(self, line: str, choices: dict[str, Choice]) -> Wanted:
        form = line.split(maxsplit=1)[0]
        what = THIS if form == "html" and THIS in choices else next(iter(choices))
        number = choices[what].number
        target = default_target(self.captures, form if form in OUTPUT_FORMATS else "jsonl", what, number, self._stem)
        return of_line(line, Wanted(what, form, "secrets", target))

    def _begin(self, choices: dict[str, Choice], wanted: Wanted | None) -> None:
        exporter = self.exporter
        if wanted is None or exporter is None:
            return
        try:
            self.export = Export(exporter, self.captures, choices[wanted.what], wanted, self._export_notes())
        except OSError as error:
            self._screen.notify(f"not exported: {error.strerror or error}", severity="error", timeout=6)
        self._screen.show_chrome()

    def _ask_to_stop(self, export: Export) -> None:
        from kproxy.tui.screens.menu import Choice as MenuChoice
        from kproxy.tui.screens.menu import ChoiceMenu

        choices = [MenuChoice("go on", "let it be written"), MenuChoice("stop", "stop it, and remove what is written")]
        menu = ChoiceMenu(self._shared.cells, f"An export is running: {export.wanted.target}", choices)
        self._screen.app.push_screen(menu, lambda index: self.action_stop_export() if index == 1 else None)

    def action_stop_export(self) -> None:
        if self.export is not None:
            self.export.stop()
            self._export_over(self.export)

    def arguments(self, typed: str) -> Sequence[tuple[str, str]]:
        """Completions of formats and file names."""
        from kproxy.tui.output.paths import completions, quoted

        form, space, path = typed.partition(" ")
        if not space:
            return [(name, one.meaning) for name, one in OUTPUT_FORMATS.items() if name.startswith(form)]
        return [(f"{form} {quoted(name)}", said) for name, said in completions(path.strip("'\""))]


def portable(text: str, expression: Expression) -> str:
    """The filter for a command: `text`, or `expression` as text if `text` needs saved filters or the capture's end."""
    from kproxy.decoders.filters.language import SAVED

    return str(expression) if SAVED in text or expression.relative or not text else text
