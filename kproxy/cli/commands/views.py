"""The commands of the views across exchanges: `kproxy topics`, `groups`, `txns`, `conns`, `clients`, `cluster`."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.captures.analysis.texts import view_text
from kproxy.captures.analysis.views import Views
from kproxy.captures.views import VIEWS, Command, Line, View
from kproxy.cli import readings
from kproxy.cli.options.reading import Reading, captured, reading_options
from kproxy.cli.options.selecting import Criteria, selecting
from kproxy.cli.options.tabling import tabled, tabling

if TYPE_CHECKING:
    from collections.abc import Iterable


def __getattr__(name: str) -> click.Command:
    """The click command of the view that has this name."""
    for view in VIEWS.values():
        if view.command is not None and view.command.name == name:
            return _command(view, view.command)
    raise AttributeError(name)


def _command(view: View, command: Command) -> click.Command:
    @captured
    @tabling(view.screen.tables)
    @selecting
    @reading_options
    def run(**options: Any) -> None:
        _show(view, **options)

    return click.command(name=command.name, help=command.manual)(run)


def _show(
    view: View,
    captures: tuple[Path, ...],
    criteria: Criteria,
    reading: Reading,
    **table: Any,
) -> None:
    from kproxy.captures.analysis.concerned import with_findings
    from kproxy.captures.findings.model import finding_json
    from kproxy.captures.findings.reading import Findings
    from kproxy.decoders.exchange import Exchange

    asked = tabled(view.screen.tables, **table)
    selection = criteria.selection()
    reader = reading.reader(captures)
    views = Views(reader.source, reader.definitions, reader.health)
    findings = Findings(reader.source, reader.definitions) if asked is not None and asked.shows("findings") else None
    with closing(reader):
        for items in readings.items(reader, selection):
            for item in items:
                if isinstance(item, Exchange):
                    views.add(item)
            if findings is not None:
                findings.add(items, reader.closings)
    what = view.name.removesuffix("s")
    if asked is None:
        readings.tell(reader, selection, what, views[view.name].lines(), partial(view_text, view.name))
        return
    lines: Iterable[Line] = views[asked.table.view].lines()
    if findings is not None:
        lines = with_findings(lines, map(finding_json, findings.finish()))
    readings.tell(reader, selection, what, asked.objects(lines), asked.text)
