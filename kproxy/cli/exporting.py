"""The call of `kproxy export` by which the terminal interface exports exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kproxy.cli.itself import COMMAND
from kproxy.cli.options.reading import Reading

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.cli.options.viewing import Viewing
    from kproxy.tui.output.commands import Exporter


def exporter(captures: Sequence[Path] = (), reading: Reading | None = None, viewing: Viewing | None = None) -> Exporter:
    """How to call `kproxy export` with these captures and options.

    Without captures, or if one is "-", the export reads the files that the index was made of.
    """
    from kproxy.tui.output.commands import Exporter

    views: list[str] = []
    if viewing is not None:
        views += [f"--schemas={viewing.schemas}"] if viewing.schemas else []
        views += [f"--registry={viewing.registry}"] if viewing.registry else []
        parts = [(f"{rule.topic}.{rule.part}" if rule.part else rule.topic, rule.viewer) for rule in viewing.rules]
        views += [f"--view={place}={viewer}" for place, viewer in parts]
    named = () if "-" in map(str, captures) else tuple(map(str, captures))
    return Exporter((*COMMAND, "export"), tuple((reading or Reading()).words()), tuple(views), named)
