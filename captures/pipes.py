"""Wait for readable or writable pipes, with any descriptor numbers."""

from __future__ import annotations

import select
from collections.abc import Sequence


def ready(readable: Sequence[int], writable: Sequence[int] = (), *, wait: bool) -> list[int]:
    """The descriptors that can be read or written now, or have ended; with `wait`, blocks until there is one.

    `select.select` does not suffice: it refuses descriptors above 1023, and captures may have that many files.
    """
    ends = select.poll()
    for end in readable:
        ends.register(end, select.POLLIN)
    for end in writable:
        ends.register(end, select.POLLOUT)
    return [end for end, _ in ends.poll(None if wait else 0)]
