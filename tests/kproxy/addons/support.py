"""A capture read by the indexer with observers in it."""

from __future__ import annotations

from pathlib import Path

from kproxy.addons import Observer
from kproxy.addons.observing import Observers, Warn
from kproxy.captures.index.indexer import run

CAPTURES = sorted((Path(__file__).parents[2] / "data" / "captures").glob("*.pcap"))


def nothing(*_: str) -> None:
    """A warning that nobody reads."""


def observe(capture: Path, *observers: Observer, warn: Warn = nothing) -> None:
    """To the capture's end, without an index."""
    door = Observers(observers, warn)
    assert run([capture], None, watch=door) is None
    door.close()
