"""Paths into a body of the exchange JSON, such as "response.body.topics[].partitions[0].errorCode"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ROOTS = ("request.body", "response.body")
OPENED = "records"
"""Name of the member that a batch has in JSON only if the batch was opened."""
DECODED = "decoded"
"""Name of the member that holds the decoded content of a bytes field whose format is known."""

_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)(?:\[(\d{0,9})\])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a path: the member `name` of an object.

    If the member is a list, the step leads to all its elements with `each`, else to the element at `index`.
    """

    name: str
    each: bool = False
    index: int | None = None

    def __str__(self) -> str:
        return self.name + ("[]" if self.each else "" if self.index is None else f"[{self.index}]")


@dataclass(frozen=True, slots=True)
class Path:
    """A path; `root` is "request" or "response", `steps` lead from the body to a value."""

    root: str
    steps: tuple[Step, ...]

    @property
    def opens(self) -> bool:
        """Whether the path needs record batches to be opened."""
        names = [step.name for step in self.steps]
        return any(one == "batches" and OPENED in names[at + 1 :] for at, one in enumerate(names))

    @property
    def inside(self) -> bool:
        """Whether the path leads into the decoded content of a bytes field."""
        return any(step.name == DECODED for step in self.steps)

    def find(self, body: Any) -> Iterator[Any]:
        """The values at this path in `body`, without nulls; a value may be a list or an object."""
        return _find(body, self.steps, 0)


def _find(value: Any, steps: tuple[Step, ...], at: int) -> Iterator[Any]:
    while at < len(steps):
        step = steps[at]
        at += 1
        if not isinstance(value, dict):
            return
        value = value.get(step.name)
        if step.each:
            if isinstance(value, list):
                for element in value:
                    yield from _find(element, steps, at)
            return
        if step.index is not None:
            if not isinstance(value, list) or step.index >= len(value):
                return
            value = value[step.index]
    if value is not None:
        yield value


def read_step(text: str) -> Step | None:
    """Parse one step of a path, such as "topics[]"; None if the text is no step."""
    match = _STEP.fullmatch(text)
    if match is None:
        return None
    name, index = str(match.group(1)), match.group(2)
    return Step(name, each=index == "", index=int(index) if index else None)
