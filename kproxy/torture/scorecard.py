"""The results of `kproxy torture` as lines of text and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from kproxy.decoders.escaping import escape as escape_text
from kproxy.torture.trial import Result

_ILLEGAL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)], "�")
"""Characters that XML cannot hold."""


def line(result: Result) -> str:
    """One line on a result."""
    recovered = "" if result.recovered is None else f"  {result.recovered:.1f} s after the fault"
    notes = f"  ({'; '.join(result.notes)})" if result.notes else ""
    return f"{result.verdict:<8} {result.scenario:<34} {result.hits:>3} hits{recovered}{notes}"


def summary(results: Sequence[Result]) -> str:
    good = sum(result.verdict.good for result in results)
    return f"{good} of {len(results)} scenarios went as they should"


def tail(output: str, lines: int) -> Iterable[str]:
    """The last lines of a program's output, escaped for a terminal."""
    return [escape_text(one) for one in output.splitlines()[-lines:]]


def junit(results: Sequence[Result], command: Sequence[str]) -> str:
    """The results as JUnit XML; a scenario that was not met is skipped, because nothing was tried."""
    cases = "".join(_case(result) for result in results)
    bad = sum(not one.verdict.good and one.verdict != "not met" for one in results)
    skipped = sum(one.verdict == "not met" for one in results)
    took = sum(one.seconds for one in results)
    name = _attribute(f"kproxy torture {' '.join(command)}")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites><testsuite name={name} tests="{len(results)}" failures="{bad}" skipped="{skipped}" '
        f'time="{took:.3f}">\n{cases}</testsuite></testsuites>\n'
    )


def _case(result: Result) -> str:
    notes = "; ".join(result.notes)
    message = _attribute(f"{result.verdict}: {notes}" if notes else str(result.verdict))
    inner = ""
    if result.verdict == "not met":
        inner = f"<skipped message={message}/>"
    elif not result.verdict.good:
        inner = f"<failure message={message}/>"
    output = f"<system-out>{escape(result.output.translate(_ILLEGAL))}</system-out>" if result.output else ""
    name = _attribute(result.scenario)
    return f'<testcase classname="kproxy.torture" name={name} time="{result.seconds:.3f}">{inner}{output}</testcase>\n'


def _attribute(text: str) -> str:
    return quoteattr(text.translate(_ILLEGAL))
