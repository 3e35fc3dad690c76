"""A stretch of time that limits what is shown or counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.decoders.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` on and before `until`, in ns since the epoch; None where it has no beginning or no end."""

    since: int | None = None
    until: int | None = None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None

    def has(self, exchange: Exchange) -> bool:
        """Whether the request lies in the period, or the response if the request is missing."""
        frame = exchange.request or exchange.response
        if frame is None:
            return True
        return (self.since is None or frame.time >= self.since) and (self.until is None or frame.time < self.until)

    def tests(self) -> list[str]:
        """The display filters that an exchange in the period passes."""
        return [f"{test} {text}" for test, _, text in self._ends()]

    def options(self) -> list[str]:
        """The options of commands that select the period."""
        return [part for _, option, text in self._ends() for part in (option, text)]

    def _ends(self) -> Iterator[tuple[str, str, str]]:
        """For each end of the period: (comparison of its display filter, option of commands, time as text for both)."""
        from kproxy.decoders.fields import Type
        from kproxy.decoders.filters.values import LITERALS

        for test, option, time in (("time >=", "--since", self.since), ("time <", "--until", self.until)):
            if time is not None:
                yield test, option, LITERALS[Type.TIME].write(time)
