"""The commands of the views across exchanges: `kproxy topics`, `groups`, `txns`, `conns`, `cluster`."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.captures.analysis.views import Views, view_text
from kproxy.captures.views import VIEWS, Command, View
from kproxy.cli import readings
from kproxy.cli.options.reading import captured, decrypting, defining, porting, releasing, spooling
from kproxy.cli.options.selecting import Selection, selecting

if TYPE_CHECKING:
    from kproxy.captures.ports import Ports
    from kproxy.captures.spool import Spooling
    from kproxy.decoders.filters import Expression


def __getattr__(name: str) -> click.Command:
    """The click command of the view that has this name."""
    for view in VIEWS.values():
        if view.command is not None and view.command.name == name:
            return _command(view, view.command)
    raise AttributeError(name)


def _command(view: View, command: Command) -> click.Command:
    @captured
    @selecting
    @porting
    @releasing
    @defining
    @decrypting
    @spooling
    def run(**options: Any) -> None:
        _show(view.name, **options)

    return click.command(name=command.name, help=command.manual)(run)


def _show(
    view: str,
    captures: tuple[Path, ...],
    expression: Expression | None,
    count: int | None,
    since: int | None,
    until: int | None,
    ports: Ports | None,
    release: str | None,
    user_definitions: tuple[str, ...],
    keylog: Path | None,
    spooling: Spooling,
) -> None:
    from kproxy.captures.reader import read

    selection = Selection(expression, count, since, until)
    reader = read(
        list(captures),
        ports=ports,
        release=release,
        user_definitions=user_definitions,
        keylog=keylog,
        spooling=spooling,
    )
    views = Views(reader.source, reader.definitions, reader.health)
    with closing(reader):
        for exchange in readings.exchanges(reader, selection):
            views.add(exchange)
    readings.tell(reader, selection, view.removesuffix("s"), views[view].lines(), partial(view_text, view))
