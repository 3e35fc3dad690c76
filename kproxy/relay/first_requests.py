"""Ends clients that send no whole request in time."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kproxy.relay.timer import timer

SECONDS = 60.0
"""Seconds within which a client must send its first request.

The deadline is extended while more of the request arrives.
"""


class Beginning(Protocol):
    """The part of a link's interface that concerns its first request (`kproxy.relay.link.Link`)."""

    @property
    def waits_for_broker(self) -> bool: ...

    @property
    def received_of_first(self) -> int | None: ...

    def end_silent(self, seconds: float) -> None: ...


class FirstRequests:
    """The links of one relay whose client has not sent a whole request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer = timer(loop)
        self._links: dict[Beginning, tuple[float, int]] = {}
        """For each link, (deadline, `received_of_first` at that time), ordered by deadline."""

    def add(self, link: Beginning, received: int = 0) -> None:
        """Gives a link time; `received` is its `received_of_first`."""
        if not self._links:
            self._timer(SECONDS, self._end_silent)
        self._links[link] = (self._loop.time() + SECONDS, received)

    def remove(self, link: Beginning) -> None:
        """Removes a link that has ended, or that may not be among them."""
        self._links.pop(link, None)

    def _end_silent(self) -> None:
        """Ends the connections of clients whose deadline has passed."""
        now = self._loop.time()
        for link, (until, before) in list(self._links.items()):
            if until > now:
                break
            del self._links[link]
            if link.waits_for_broker:
                self.add(link, before)
            elif (received := link.received_of_first) is not None:
                if received > before:
                    self.add(link, received)
                else:
                    link.end_silent(SECONDS)
        if self._links:
            until, _ = next(iter(self._links.values()))
            self._timer(max(until - now, 0.1), self._end_silent)
