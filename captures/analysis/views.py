"""Collects all views of a reading, and makes text of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from kproxy.captures.analysis.seen import Decoder
from kproxy.captures.bodies import Bodies
from kproxy.captures.text import utc
from kproxy.captures.views import VIEWS, Clock, Collector, Line
from kproxy.decoders.escaping import escape
from kproxy.decoders.exchange import Exchange, Health
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source


@runtime_checkable
class Counter(Protocol):
    """A collector that also counts exchanges that cannot be decoded; `note` takes every exchange."""

    def note(self, exchange: Exchange) -> None: ...


class Views:
    """All views of one reading; each exchange is decoded once."""

    def __init__(self, source: Source, definitions: Definitions, health: Health | None = None) -> None:
        """`health`, if present, counts undecodable frames."""
        self._collectors = {name: view.collect() for name, view in VIEWS.items()}
        self._counters = [one for one in self._collectors.values() if isinstance(one, Counter)]
        self._decoder = Decoder(source, definitions, health)

    def __getitem__(self, view: str) -> Collector:
        return self._collectors[view]

    def add(self, exchange: Exchange, bodies: Bodies | None = None) -> None:
        """Process a complete exchange; `bodies` are its decoded bodies, if there are any. Never raises on bad bytes."""
        for counter in self._counters:
            counter.note(exchange)
        seen = self._decoder.of(exchange, bodies)
        if seen is not None:
            for collector in self._collectors.values():
                collector.add(seen)


def view_text(view: str, lines: Iterable[Line], clock: Clock = utc) -> Iterator[str]:
    """A view as lines of text, with control characters escaped; `clock` writes its times."""
    return map(escape, VIEWS[view].text(lines, clock))
