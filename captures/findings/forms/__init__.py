"""The output formats of `kproxy findings`. To add one, add a module to this folder and a row to `_MODULES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

Json = Mapping[str, Any]


class Report(NamedTuple):
    """The findings of a reading of captures, for output."""

    findings: Sequence[Json]
    """Objects of schema "kproxy.finding/1" in the order of the correlator: each symptom after its cause."""
    captures: Sequence[str]
    """Names of the captures as the user wrote them."""
    health: Json
    """The reading's "kproxy.health/1"."""
    hidden: int = 0
    """Number of findings that are not in `findings`, because they are less severe or in the baseline."""


_MODULES: Final = {"text": "lines", "jsonl": "jsonl", "sarif": "sarif", "junit": "junit", "html": "page"}
FORMATS: Final = tuple(_MODULES)
"""Names of the formats, for the option of the command."""


def report_lines(form: str, report: Report) -> Iterator[str]:
    """Yields the lines of a report in the format `form`, with text from the wire escaped as the format requires."""
    lines: Callable[[Report], Iterator[str]] = import_module(f"{__name__}.{_MODULES[form]}").lines
    return lines(report)
