"""Makes the display filters that select the exchanges of a line of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kproxy.captures.views import Line
from kproxy.decoders.filters.values import in_quotes


def equal(field: str, value: object) -> str:
    if isinstance(value, int):
        return f"{field} == {value}"
    return f"{field} == {in_quotes(str(value))}"


def own(field: str, member: str) -> Callable[[Line], Iterator[list[str]]]:
    def tests(line: Line) -> Iterator[list[str]]:
        yield [equal(field, line[member])]

    return tests
