"""Reports retransmissions that carried other bytes than the first copy, on the exchanges concerned.

kproxy shows the bytes captured first, unless no frame begins with them and one begins with a later copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from kproxy.decoders.exchange import Exchange, StreamProblem
from kproxy.decoders.problems import Code, Problem


def text(size: int, *, later: bool = False) -> str:
    """The problem's text for a retransmission of `size` bytes; `later` says that a later copy is shown."""
    shown = "the second copy is shown, as no frame begins in the first" if later else "the first copy is shown"
    return f"a retransmission differs within {size} bytes; {shown}"


def problem(where: str, start: int, low: int, high: int, *, later: bool = False) -> Problem:
    """The problem that a retransmission differs in the stream's bytes [low, high), for the frame that begins at stream
    offset `start`.
    """
    return Problem(where, low - start, "", text(high - low, later=later), Code.OVERLAP)


def told_by(waiting: Iterable[Exchange], found: StreamProblem) -> bool:
    """Add the problem to the exchanges without a response whose requests overlap the problem's bytes.

    Returns True if these requests cover all bytes of the problem.
    """
    low, high = found.offset, found.offset + found.size
    left = found.size
    for exchange in waiting:
        frame = exchange.request
        if frame is None or frame.side is not found.side:
            continue
        start = frame.stream_offset
        first, last = max(low, start), min(high, start + frame.length)
        if first < last:
            exchange.problems.append(problem("request", start, first, last))
            left -= last - first
    return left <= 0
