"""Makes facts of a connection's TCP counts when it ends.

kproxy's own recordings give none, because their TCP headers are synthetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.facts import At, Fact

if TYPE_CHECKING:
    from kproxy.captures.reader import Closing
    from kproxy.captures.tcp.connections import Window

MILLISECOND: Final = 1_000_000
REFUSED: Final = "RST"


def of(closing: Closing, at: At) -> Iterator[Fact]:
    """The facts of a connection that ended."""
    disorder, (client, broker) = closing.disorder, closing.windows
    if closing.syns:
        yield facts.Unanswered(at, closing.syns, closing.how == REFUSED)
    elif disorder.retransmitted or client.times or broker.times:
        yield facts.Pressure(at, disorder.segments, disorder.retransmitted, _said(client), _said(broker))


def _said(window: Window) -> tuple[int, int, int]:
    return window.times, window.total // MILLISECOND, window.longest // MILLISECOND
