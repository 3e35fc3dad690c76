"""Runs observers: passes them the exchanges that the indexer has completed, and disables an observer that fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kproxy.addons.api import Observed, Observer, Progress, name_of
from kproxy.captures.findings.model import finding_json
from kproxy.decoders.filters import Expression, Matcher, parse

if TYPE_CHECKING:
    from kproxy.captures.findings.live import LiveFindings, News
    from kproxy.captures.index.summary import Summary
    from kproxy.captures.reader import Reader
    from kproxy.decoders.exchange import Exchange, StreamProblem

Warn = Callable[[str, str], None]
"""A function (line, details) that shows the user the line and logs the details."""


@dataclass(slots=True)
class _Place:
    """An observer with its compiled filter; `unknown` counts exchanges for which the filter could not decide."""

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
    """Combines several observers into the one callable that `captures.index.indexer` takes."""

    def __init__(self, observers: Iterable[Observer], warn: Warn) -> None:
        self._places = [_Place(one) for one in observers]
        self._warn = warn
        self._begun = False
        self._findings: LiveFindings | None = None

    def __call__(
        self, done: Sequence[tuple[Exchange, Summary]], problems: Sequence[StreamProblem], reader: Reader
    ) -> None:
        """Passes the observers the exchanges completed since the last call, changes of findings, and the progress."""
        if not self._begun:
            self._begin(reader)
        for exchange, summary in done:
            if not self._places:
                return
            self._show(exchange, summary, reader)
        if self._findings is not None:
            from kproxy.captures.findings.making import in_order

            items = in_order([exchange for exchange, _ in done], problems)
            self._show_findings(self._findings.add(items, reader.closings))
            if reader.finished:
                self._show_findings(self._findings.finish())
                self._findings = None
        behind = max(0, reader.source.written() - reader.position)
        for place in tuple(self._places):
            self._guard(place, partial(place.observer.progress, Progress(behind, reader.health, place.unknown)))

    def close(self) -> None:
        for place in tuple(self._places):
            self._guard(place, place.observer.close)

    def _begin(self, reader: Reader) -> None:
        """Parses the observers' filters. The definitions must be loaded before, because filters may use their names."""
        self._begun = True
        if any(_wants_findings(place.observer) for place in self._places):
            from kproxy.captures.findings.live import LiveFindings

            self._findings = LiveFindings(reader.source, reader.definitions)
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

    def _show_findings(self, news: Iterable[News]) -> None:
        for one in news:
            for place in tuple(self._places):
                if _wants_findings(place.observer):
                    self._guard(place, partial(place.observer.finding, one.change.value, finding_json(one.finding)))

    def _guard(self, place: _Place, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 (anybody's code)
            self._places.remove(place)
            self._warn(
                f"observer {name_of(place.observer)} has failed and is disabled: {type(error).__name__}: {error}",
                traceback.format_exc(),
            )


def _wants_findings(observer: Observer) -> bool:
    """Whether the observer's class overrides `finding`; rules are evaluated only if one observer does."""
    return type(observer).finding is not Observer.finding


def filter_of(observer: Observer | type[Observer]) -> Expression | None:
    """The parsed filter of an observer; None if the observer takes all exchanges.

    Raises ValueError with a message that names the observer.
    """
    text = observer.filter
    if not isinstance(text, str) or not text:
        return None
    result = parse(text)
    if result.expression is None:
        why = result.message or "the filter is empty"
        raise ValueError(f"observer {name_of(observer)}: filter: {why} (column {result.span[0] + 1} of {text!r})")
    return result.expression


def made(classes: Iterable[type[Observer]], warn: Warn) -> list[Observer]:
    """Creates one observer of each class; a class that cannot be instantiated is reported and left out."""
    found = []
    for one in classes:
        try:
            found.append(one())
        except Exception as error:  # noqa: BLE001 (anybody's code)
            warn(f"observer {one.__name__} is left out: {type(error).__name__}: {error}", traceback.format_exc())
    return found
