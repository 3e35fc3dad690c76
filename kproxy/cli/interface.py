"""What options and the configuration say of the terminal interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kproxy.cli import settings

if TYPE_CHECKING:
    from tui.preferences import Preferences

Command = TypeVar("Command", bound=Callable[..., Any])

THEMES = ("terminal", "dark", "light", "high-contrast", "mono")
"""Names of tui.themes.THEMES, which help must not load."""
_CHOSEN = "kproxy.interface"


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(_CHOSEN, {})[parameter.name] = value


def painting(command: Command) -> Command:
    """Add --theme, --plain and --no-mouse, which `preferences` reads."""
    options = [
        click.option("--theme", "theme", type=click.Choice(THEMES), default=THEMES[0], expose_value=False,
                     callback=_keep, help="Colours of the terminal UI."),
        click.option("--plain", "plain", is_flag=True, expose_value=False, callback=_keep,
                     help="For screen readers: one pane at a time, no boxes, the terminal's cursor on the line."),
        click.option("--no-mouse", "no_mouse", is_flag=True, expose_value=False, callback=_keep,
                     help="Leave the mouse to the terminal."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def preferences() -> Preferences:
    """What the user has set up, for the command that runs."""
    from pathlib import Path

    import platformdirs

    from tui.preferences import Preferences

    chosen = click.get_current_context().meta.get(_CHOSEN, {})
    return Preferences(
        filters=_texts("filters"),
        keymap=_texts("keymap"),
        theme=chosen.get("theme", THEMES[0]),
        plain=chosen.get("plain", False),
        mouse=not chosen.get("no_mouse", False),
        state=Path(platformdirs.user_state_dir("kproxy", appauthor=False)),
    )


def _texts(table: str) -> dict[str, str]:
    """The entries of a table that are texts; the others are warned of."""
    entries = settings.table(table)
    for name, value in entries.items():
        if not isinstance(value, str):
            settings.warn(f"configuration [{table}]: {name!r} is no text")
    return {name: value for name, value in entries.items() if isinstance(value, str)}
