"""The options and configuration of the terminal interface."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kproxy.cli import settings

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.tui.settings.preferences import Preferences

Command = TypeVar("Command", bound=Callable[..., Any])

THEMES = ("terminal", "dark", "light", "high-contrast", "mono")
"""Names of tui.terminal.themes.THEMES, repeated so that --help does not load it."""
_CHOSEN = "kproxy.interface"
_READ_ONLY = "kproxy.read-only"


def painting(command: Command) -> Command:
    """Adds --theme, --ascii, --plain and --no-mouse, which `preferences` reads."""

    @functools.wraps(command)
    def painted(*args: Any, theme: str, ascii_only: bool, plain: bool, no_mouse: bool, **rest: Any) -> Any:
        click.get_current_context().meta[_CHOSEN] = {
            "theme": theme,
            "ascii_only": ascii_only,
            "plain": plain,
            "mouse": not no_mouse,
        }
        return command(*args, **rest)

    options = [
        click.option("--theme", type=click.Choice(THEMES), default=THEMES[0], help="Colours of the terminal UI."),
        click.option(
            "--ascii",
            "ascii_only",
            is_flag=True,
            help="Draw with ASCII only, as if the locale were C.",
        ),
        click.option(
            "--plain",
            is_flag=True,
            help="For screen readers: one pane at a time, no boxes, the terminal's cursor on the line.",
        ),
        click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal, to select text."),
    ]
    made: Any = painted
    for option in reversed(options):
        made = option(made)
    return cast("Command", made)


def guarded(command: Command) -> Command:
    """Adds --read-only, which `preferences` reads."""
    option = click.option(
        "--read-only",
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.update({_READ_ONLY: value}),
        help="Write no files and open no other captures; marks, comments and saved filters last until you leave.",
    )
    return option(command)


def _state() -> Path:
    """The directory of the interface's histories and saved filters."""
    import platformdirs

    return platformdirs.user_state_path("kproxy", appauthor=False)


def saved_filters() -> Mapping[str, str]:
    """Filters by name, from the configuration and those saved in the interface. Raises Failure (exit 2)."""
    from kproxy.tui.settings.keeping import SavedFilters
    from kproxy.tui.settings.preferences import SAVED_FILTERS

    settings.read_sources()
    return SavedFilters(_texts("filters"), _state() / SAVED_FILTERS)


def preferences() -> Preferences:
    """The user's preferences, from the configuration and the options of the running command."""
    from kproxy.tui.settings.preferences import Preferences

    for line in _no_texts():
        settings.warn(line)
    meta = click.get_current_context().meta
    return Preferences(
        filters=_texts("filters"),
        keymap=_texts("keymap"),
        **meta[_CHOSEN],
        read_only=meta.get(_READ_ONLY, False),
        looks_for_findings=True,
        state=_state(),
    )


def unfit() -> Iterator[str]:
    """The errors in the tables [filters] and [keymap], one line each."""
    from kproxy.decoders.filters import parse
    from kproxy.tui.actions.keymap import Keymap

    yield from _no_texts()
    for name, text in _texts("filters").items():
        result = parse(text)
        if result.expression is None:
            yield f"configuration [filters]: {name}: {result.message or 'an empty filter'}"
    yield from (f"configuration [keymap]: {problem}" for problem in Keymap(_texts("keymap")).problems)


def _texts(table: str) -> dict[str, str]:
    return {name: value for name, value in settings.table(table).items() if isinstance(value, str)}


def _no_texts() -> Iterator[str]:
    for table in ("filters", "keymap"):
        for name, value in settings.table(table).items():
            if not isinstance(value, str):
                yield f"configuration [{table}]: {name!r} is not a string"
