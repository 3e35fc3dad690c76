"""What the configuration says of the terminal interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.cli import settings

if TYPE_CHECKING:
    from tui.preferences import Preferences


def preferences() -> Preferences:
    """Saved filters, keys, and the directory where the interface keeps its own."""
    from pathlib import Path

    import platformdirs

    from tui.preferences import Preferences

    return Preferences(
        filters=_texts("filters"),
        keymap=_texts("keymap"),
        state=Path(platformdirs.user_state_dir("kproxy", appauthor=False)),
    )


def _texts(table: str) -> dict[str, str]:
    """The entries of a table that are texts; the others are warned of."""
    entries = settings.table(table)
    for name, value in entries.items():
        if not isinstance(value, str):
            settings.warn(f"configuration [{table}]: {name!r} is no text")
    return {name: value for name, value in entries.items() if isinstance(value, str)}
