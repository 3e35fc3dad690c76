"""Bytes that came again as others, of which whom they concern says so.

The first are shown, unless no frame begins with them and one does with later ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from kproxy.decoders.exchange import Exchange, StreamProblem
from kproxy.decoders.problems import Code, Problem


def text(size: int, *, later: bool = False) -> str:
    """What is wrong, of so many bytes of which some differ; `later` says that those shown are not the first."""
    shown = "these are shown, as the first begin no frame" if later else "the first are shown"
    return f"a retransmission carried other bytes among {size}; {shown}"


def problem(where: str, start: int, low: int, high: int, *, later: bool = False) -> Problem:
    """The bytes [low, high) of a stream, in the frame that begins at `start`."""
    return Problem(where, low - start, "", text(high - low, later=later), Code.OVERLAP)


def told_by(waiting: Iterable[Exchange], found: StreamProblem) -> bool:
    """Let the exchanges say it whose requests are concerned; whether these are all that is."""
    low, high = found.offset, found.offset + found.size
    left = found.size
    for exchange in waiting:
        frame = exchange.request
        if frame is None or frame.side is not found.side:
            continue
        start = frame.stream_offset
        first, last = max(low, start), min(high, start + frame.size + 4)
        if first < last:
            exchange.problems.append(problem("request", start, first, last))
            left -= last - first
    return left <= 0
