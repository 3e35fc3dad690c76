"""Collects all views of a reading."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kproxy.captures.analysis.offsets import follow_offsets
from kproxy.captures.analysis.seen import Decoder
from kproxy.captures.bodies import Bodies
from kproxy.captures.views import VIEWS, Collector
from kproxy.decoders.exchange import Exchange, Health
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source


@runtime_checkable
class Counter(Protocol):
    """A collector that also counts exchanges of other protocols; `note` takes every exchange."""

    def note(self, exchange: Exchange) -> None: ...


class Views:
    """All views of one reading; each exchange is decoded once."""

    def __init__(self, source: Source, definitions: Definitions, health: Health | None = None) -> None:
        """`health`, if given, counts undecodable frames."""
        self._collectors = {name: view.collect() for name, view in VIEWS.items() if view.collector}
        self._counters = [one for one in self._collectors.values() if isinstance(one, Counter)]
        self._decoder = Decoder(source, definitions, health)

    def __getitem__(self, view: str) -> Collector:
        return self._collectors[view]

    def add(self, exchange: Exchange, bodies: Bodies | None = None) -> None:
        """Pass a complete exchange to all views; `bodies` are its decoded bodies, if the caller has them.

        Never raises on bad bytes.
        """
        for counter in self._counters:
            counter.note(exchange)
        seen = self._decoder.of(exchange, bodies)
        if seen is not None:
            follow_offsets(seen)
            for collector in self._collectors.values():
                collector.add(seen)
