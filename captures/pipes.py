"""Which pipes have something to read or room, whatever the numbers of their descriptors."""

from __future__ import annotations

import select
from collections.abc import Sequence


def ready(readable: Sequence[int], writable: Sequence[int] = (), *, wait: bool) -> list[int]:
    """Those of these descriptors that can be read or written now, or have ended; `wait` until one of them can.

    Not `select.select`, which takes no descriptor beyond 1023: captures may be so many files.
    """
    ends = select.poll()
    for end in readable:
        ends.register(end, select.POLLIN)
    for end in writable:
        ends.register(end, select.POLLOUT)
    return [end for end, _ in ends.poll(None if wait else 0)]
