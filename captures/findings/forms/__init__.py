"""The output formats of `kproxy findings`, one row each; a new one is a row and the module that makes its text."""

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
    """Names of the captures, as the user gave them."""
    health: Json
    """The reading's "kproxy.health/1"."""
    hidden: int = 0
    """Number of findings that are not in `findings`: less severe ones, and those of the baseline."""


_MODULES: Final = {"text": "lines", "jsonl": "jsonl", "sarif": "sarif", "junit": "junit", "html": "page"}
FORMATS: Final = tuple(_MODULES)
"""Names of the formats. Each has a module in this folder with a function `lines`."""


def report_lines(form: str, report: Report) -> Iterator[str]:
    """A report as lines of text in a format; text from the wire is escaped as the format needs."""
    lines: Callable[[Report], Iterator[str]] = import_module(f"{__name__}.{_MODULES[form]}").lines
    return lines(report)
