"""Numbers of exchanges and connections, shared by all connections of a reading.

A reader works with its conversations in batches of captured packets. A batch is any contiguous range of the source's
addresses; the result does not depend on where the batches end. For each batch:

    1. Reassemble the batch; for each connection that got bytes, `done = conversation.feed(events)`.
       `done` is a list of `(at, item)`: exchanges that are complete and stream problems, with the address of the byte
       that completed them. `conversation.started` is a list of `(at, exchange)`: exchanges whose header became
       readable in this batch, with the address of the header's last byte. The reader takes it with
       `conversation.take_started()`.
    2. Join the `started` lists of all connections of the batch and call `numbering.assign(started)`. It sorts the list
       in place by address and gives exchanges and connections their numbers. Only then may `done` be shown: an exchange
       can be in both lists.
    3. Join the `done` lists, sort by address (`done.sort(key=itemgetter(0))`), deliver.

At the end of the capture, feed `End(None, ...)` to every open conversation as one last batch.
"""

from __future__ import annotations

from operator import itemgetter

from kproxy.decoders.exchange import Exchange

_address = itemgetter(0)


class Numbering:
    """Gives exchanges and connections numbers from 1, in the order of their addresses."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.connections = 0

    def assign(self, started: list[tuple[int, Exchange]]) -> None:
        """Sort `started` in place by address, then number its exchanges, and their connections that have no number."""
        started.sort(key=_address)
        number = self.exchanges
        for _, exchange in started:
            number += 1
            exchange.number = number
            if not exchange.connection.number:
                self.connections += 1
                exchange.connection.number = self.connections
        self.exchanges = number
