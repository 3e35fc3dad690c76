"""The door for observers: hands them what the indexer has completed, and shuts out the one that fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kproxy.addons.api import Observed, Observer, Progress, name_of

if TYPE_CHECKING:
    from captures.index.writer import Summary
    from captures.reader import Reader
    from decoders.exchange import Exchange

Warn = Callable[[str, str], None]
"""Tells the user a line, and the log the details."""


class Observers:
    """Several observers as the one that `captures.index.indexer` knows."""

    def __init__(self, observers: Iterable[Observer], warn: Warn) -> None:
        self._observers = list(observers)
        self._warn = warn

    def __call__(self, done: Sequence[tuple[Exchange, Summary]], reader: Reader) -> None:
        """What became complete since the last call, and how far the reading is."""
        for exchange, summary in done:
            if not self._observers:
                return
            observed = Observed.of(exchange, summary, reader)
            self._each(lambda observer, seen=observed: observer.exchange(seen))  # type: ignore[misc]  # bound early
        progress = Progress(max(0, reader.source.written() - reader.position), reader.health)
        self._each(lambda observer: observer.progress(progress))

    def close(self) -> None:
        self._each(lambda observer: observer.close())

    def _each(self, call: Callable[[Observer], None]) -> None:
        for observer in tuple(self._observers):
            try:
                call(observer)
            except Exception as error:  # noqa: BLE001 (anybody's code)
                self._observers.remove(observer)
                self._warn(
                    f"observer {name_of(observer)} has failed and sees nothing more: {type(error).__name__}: {error}",
                    traceback.format_exc(),
                )


def made(classes: Iterable[type[Observer]], warn: Warn) -> list[Observer]:
    """One of each class; one that cannot be made is named and left out."""
    found = []
    for one in classes:
        try:
            found.append(one())
        except Exception as error:  # noqa: BLE001 (anybody's code)
            warn(f"observer {one.__name__} is left out: {type(error).__name__}: {error}", traceback.format_exc())
    return found
