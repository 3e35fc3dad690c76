"""Runs observers: passes them the exchanges that the indexer has completed, and disables one that fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kproxy.addons.api import Observed, Observer, Progress, name_of
from kproxy.decoders.filters import Expression, Matcher, parse

if TYPE_CHECKING:
    from kproxy.captures.index.summary import Summary
    from kproxy.captures.reader import Reader
    from kproxy.decoders.exchange import Exchange

Warn = Callable[[str, str], None]
"""(line, details): shows the user the line and logs the details."""


@dataclass(slots=True)
class _Place:
    """An observer with its filter; `unknown` counts exchanges that the filter could not decide."""

    observer: Observer
    matcher: Matcher | None = None
    unknown: int = 0

    def sees(self, exchange: Exchange) -> bool:
        if self.matcher is None:
            return True
        matches = self.matcher.matches(exchange)
        self.unknown += matches is None
        return bool(matches)


class Observers:
    """Several observers as the single callable that `captures.index.indexer` takes."""

    def __init__(self, observers: Iterable[Observer], warn: Warn) -> None:
        self._places = [_Place(one) for one in observers]
        self._warn = warn
        self._begun = False

    def __call__(self, done: Sequence[tuple[Exchange, Summary]], reader: Reader) -> None:
        """Passes on the exchanges that became complete since the last call, and the reader's progress."""
        if not self._begun:
            self._begin(reader)
        for exchange, summary in done:
            if not self._places:
                return
            self._show(exchange, summary, reader)
        behind = max(0, reader.source.written() - reader.position)
        for place in tuple(self._places):
            self._guard(place, partial(place.observer.progress, Progress(behind, reader.health, place.unknown)))

    def close(self) -> None:
        for place in tuple(self._places):
            self._guard(place, place.observer.close)

    def _begin(self, reader: Reader) -> None:
        """Reads the filters; called once the reader has the definitions whose names they may use."""
        self._begun = True
        for place in tuple(self._places):
            try:
                expression = filter_of(place.observer)
            except ValueError as error:
                self._places.remove(place)
                self._warn(f"{error}; it is left out", "")
                continue
            if expression is not None:
                place.matcher = Matcher(expression, reader.source, reader.definitions)

    def _show(self, exchange: Exchange, summary: Summary, reader: Reader) -> None:
        observed = None
        for place in tuple(self._places):
            if place.sees(exchange):
                observed = observed or Observed.of(exchange, summary, reader)
                self._guard(place, partial(place.observer.exchange, observed))

    def _guard(self, place: _Place, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 (anybody's code)
            self._places.remove(place)
            self._warn(
                f"observer {name_of(place.observer)} has failed and sees nothing more: {type(error).__name__}: {error}",
                traceback.format_exc(),
            )


def filter_of(observer: Observer | type[Observer]) -> Expression | None:
    """An observer's filter, None if it sees all exchanges. Raises ValueError, whose text names the observer."""
    text = observer.filter
    if not isinstance(text, str) or not text:
        return None
    result = parse(text)
    if result.expression is None:
        why = result.message or "it is empty"
        raise ValueError(f"observer {name_of(observer)}: its filter: {why} (column {result.span[0] + 1} of {text!r})")
    return result.expression


def made(classes: Iterable[type[Observer]], warn: Warn) -> list[Observer]:
    """One observer of each class; one that cannot be created is reported and left out."""
    found = []
    for one in classes:
        try:
            found.append(one())
        except Exception as error:  # noqa: BLE001 (anybody's code)
            warn(f"observer {one.__name__} is left out: {type(error).__name__}: {error}", traceback.format_exc())
    return found
