"""Options about findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

SEVERITIES: Final = ("info", "note", "warn", "error")
"""Names of severities, the lowest first."""


def telling_findings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --findings, whose value `least` is the name of the lowest severity to print, "off" for none."""
    return click.option(
        "--findings",
        "least",
        type=click.Choice(("off", *SEVERITIES)),
        default="warn",
        show_default=True,
        help=(
            "Without the terminal UI, print findings of this severity and worse when they open, become worse or are "
            "resolved."
        ),
    )(command)
