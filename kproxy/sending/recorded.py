"""Sends the requests of a recording again, in an order that the recorded clients would accept.

Each request waits for the answers that arrived before it in the recording. So a request that was made from an earlier
answer still follows that answer. Requests of one recorded connection use one connection.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.core.differences import differing
from kproxy.core.rewrite import Change
from kproxy.decoders.canonical import Canonical
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.knowledge import Nodes
from kproxy.decoders.message import Decoded, decode_request
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Source
from kproxy.decoders.view import View
from kproxy.sending.replacing import Replacements
from kproxy.sending.sender import Request, Sender

AT_ONCE: Final = 1000
"""Maximum number of requests that wait for their answers."""
OWN_LOGIN: Final = frozenset({api_keys.SASL_HANDSHAKE, api_keys.SASL_AUTHENTICATE})
"""APIs whose requests are not sent again: kproxy authenticates with its own credentials (--sasl)."""
_SECOND: Final = 1_000_000_000


@dataclass(slots=True)
class Sent:
    """A recorded request that was sent again: the exchange JSON as `recorded`, and as it is `now`.

    `changes` are the differences between the two responses, in canonical form; empty without a recorded response.
    """

    recorded: dict[str, Any]
    now: dict[str, Any]
    changes: Sequence[Change] = ()

    @property
    def number(self) -> int:
        """The number of the recorded exchange."""
        number: int = self.recorded["exchange"]
        return number


class _Compared:
    """Compares recorded and new exchanges; they must be given in the recorded order, in which both are numbered."""

    def __init__(self) -> None:
        self._recorded = Canonical()
        self._now = Canonical()

    def __call__(self, sent: Sent) -> Sent:
        old = self._recorded.exchange(sent.recorded)["response"]
        new = self._now.exchange(sent.now)["response"]
        if old is not None:
            sent.changes = list(differing(old, new, "response"))
        return sent


@dataclass(slots=True)
class Recorded:
    """The requests of a recording that can be sent again, in the order in which they were sent."""

    source: Source
    definitions: Definitions
    view: View
    exchanges: list[Exchange] = field(default_factory=list)
    nodes: dict[int, int] = field(default_factory=dict)
    """Node id of the broker by number of the recorded connection, where it is known."""
    left_out: int = 0
    """Number of exchanges that cannot be sent: without a whole request, encrypted, or of an authentication."""

    def take(self, exchange: Exchange) -> None:
        """Add an exchange, if it can be sent."""
        if sendable(exchange):
            self.exchanges.append(exchange)
        else:
            self.left_out += 1

    def place(self, nodes: Nodes) -> None:
        """Note the node id of the broker of each recorded connection, where the recording tells it."""
        for one in self.exchanges:
            node = nodes.of(one.connection.broker)
            if node is not None:
                self.nodes[one.connection.number] = node

    def request(self, exchange: Exchange) -> Decoded:
        """The decoded request of an exchange."""
        assert exchange.request is not None  # noqa: S101 (`take` has looked)
        return decode_request(exchange.request.data(self.source), self.definitions)

    def line(self, exchange: Exchange) -> dict[str, Any]:
        """The exchange JSON of a recorded exchange."""
        return exchange_json(exchange, self.source, self.definitions, view=self.view)


def sendable(exchange: Exchange) -> bool:
    """Whether the recording holds a whole Kafka request of this exchange that can be sent again."""
    request = exchange.request
    if request is None or request.missing or exchange.protocol is not None or exchange.token:
        return False
    return exchange.api_version is not None and exchange.api_key not in OWN_LOGIN


async def again(
    recorded: Recorded, sender: Sender, replacements: Replacements, *, speed: float | None = None
) -> AsyncIterator[Sent]:
    """Send all requests; yields each with its recorded and its new answer, in the recorded order.

    `speed` multiplies the recorded rate of requests; with None, each is sent as soon as earlier answers allow. Raises
    SendError.
    """
    order = sorted(recorded.exchanges, key=lambda one: one.number)
    waiting: list[tuple[int, int, asyncio.Task[Sent]]] = []
    """(time of the recorded answer, number, task) of the requests that are on their way, earliest answer first."""
    tasks: deque[asyncio.Task[Sent]] = deque()
    compared = _Compared()
    clock = asyncio.get_running_loop().time
    begun = clock()
    try:
        for one in order:
            assert one.request is not None  # noqa: S101 (`take` has looked)
            while waiting and (waiting[0][0] <= one.request.first_time or len(waiting) >= AT_ONCE):
                await heapq.heappop(waiting)[2]
            if speed is not None:
                first = order[0].request.first_time if order[0].request else 0
                due = begun + (one.request.first_time - first) / _SECOND / speed
                await asyncio.sleep(max(0.0, due - clock()))
            task = asyncio.create_task(_send(one, recorded, sender, replacements))
            tasks.append(task)
            if one.response is not None:
                heapq.heappush(waiting, (one.response.time, one.number, task))
            await asyncio.sleep(0)  # Lets the task begin, so that this request is written before a later one.
            while tasks and tasks[0].done():
                yield compared(tasks.popleft().result())
        while tasks:
            yield compared(await tasks.popleft())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(exchange: Exchange, recorded: Recorded, sender: Sender, replacements: Replacements) -> Sent:
    decoded = recorded.request(exchange)
    before = recorded.line(exchange)
    if decoded.body is None:
        return Sent(before, {**before, "response": None, "reason": "not sent: the request cannot be read"})
    assert exchange.api_key is not None  # noqa: S101 (`sendable` has looked)
    request = Request(
        exchange.api_key,
        decoded.version,
        replacements.applied(decoded.body),
        exchange.client_id,
        exchange.connection.number,
        recorded.nodes.get(exchange.connection.number),
    )
    now = await sender.send(request)
    if now["response"] is not None and before["response"] is not None:
        replacements.learn(before["response"]["body"], now["response"]["body"])
    return Sent(before, now)
