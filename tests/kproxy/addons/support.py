"""A capture read by the indexer with observers in it."""

from __future__ import annotations

from pathlib import Path

from kproxy.addons import Observer
from kproxy.addons.observing import Observers, Warn
from kproxy.captures.findings.model import Finding
from kproxy.captures.findings.reading import Findings
from kproxy.captures.index.indexer import run
from kproxy.captures.reader import read

CAPTURES = sorted((Path(__file__).parents[2] / "data" / "captures").glob("*.pcap"))


def nothing(*_: str) -> None:
    """A warning that nobody reads."""


def observe(capture: Path, *observers: Observer, warn: Warn = nothing) -> None:
    """To the capture's end, without an index."""
    door = Observers(observers, warn)
    assert run([capture], None, watch=door) is None
    door.close()


def findings_of(capture: Path) -> list[Finding]:
    """Those of `kproxy findings`."""
    reader = read([capture])
    found = Findings(reader.source, reader.definitions)
    for batch in reader.batches():
        found.add(batch, reader.closings)
    reader.close()
    return found.finish()
