"""Stage 2 with claims: the parcels of flows become items and verdicts.

Each flow is read from its beginning as captures.spark.read.flows does, but of most frames only the first bytes are
present. If an exchange is claimed by its portion, and the check of the claim fits, the claim is confirmed; all other
exchanges become items here. Segments that hold only claims are skipped (captures.spark.claims.plain). If bytes are
needed that were not sent, the flow is unproven: all its bytes must be sent then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import zstandard

from kproxy.captures.reader import Done
from kproxy.captures.spark.claims.compiled import check
from kproxy.captures.spark.claims.digest import UNPROVEN, VERDICT, digested
from kproxy.captures.spark.claims.packing import Parcel, unpack
from kproxy.captures.spark.claims.plain import Passing, Plain
from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.read.asking import NUMBERS, number_of
from kproxy.captures.spark.read.flows import Flow, Held, Options, Place, packed, shared
from kproxy.captures.tcp.reassembly import Share
from kproxy.decoders.exchange import Connection, Exchange

ASKED_FOR: Final = 512
"""Number of segments whose bytes are loaded together once one is needed; a retransmission needs bytes sent shortly
before.
"""


class Ground(NamedTuple):
    """Values of a connection that claims of it get from the whole reading.

    Most are columns of its rows. `born` is the address of its first packet; `ahead` is the difference between its
    stream offsets and those that the portion counted.
    """

    epoch: int
    client: tuple[str, int]
    broker: tuple[str, int]
    born: int
    software: str | None
    midstream: bool
    found: bool
    ahead: int

    @property
    def flags(self) -> list[str]:
        """The captures.tables.rows.flags that a plain exchange may have."""
        return ["gap_before"] * self.found + ["midstream"] * self.midstream


@dataclass(slots=True)
class Verdict:
    """The confirmed claims of a flow in a portion: `runs` are (first claim, count, index into `grounds`), in order."""

    runs: list[tuple[int, int, int]] = field(default_factory=list)
    grounds: list[Ground] = field(default_factory=list)

    def uphold(self, claim: int, ground: Ground, count: int = 1) -> None:
        """Confirm `count` claims from number `claim` on; they follow those confirmed before."""
        if not self.grounds or self.grounds[-1] is not ground:
            self.grounds.append(ground)
        on = len(self.grounds) - 1
        first, length, before = self.runs[-1] if self.runs else (0, 0, -1)
        if before == on and first + length == claim:
            self.runs[-1] = first, length + count, on
        else:
            self.runs.append((claim, count, on))


class NotSentError(Exception):
    """The reading needs bytes that stage 1 did not send."""


class Sent(Held):
    """A source with the bytes of parcels. Raises NotSentError if bytes of a segment are needed that were not sent."""

    def __init__(self) -> None:
        super().__init__()
        self._at: list[int] = []
        self._ends: list[int] = []
        self._later: dict[int, tuple[Parcel, range]] = {}
        """By the address of their first segment: (parcel, segments) whose bytes are loaded when first needed."""

    def take(self, parcel: Parcel, segments: range) -> None:
        """Add some segments of a parcel, with the bytes that were sent of them."""
        here = slice(segments.start, segments.stop)
        for at, stored in zip(parcel.packets.at[here].tolist(), parcel.packets.stored[here].tolist(), strict=True):
            if stored:
                self._know(at, at + stored)
        self.extend(parcel.sent(segments.start, segments.stop))

    def take_later(self, parcel: Parcel, segments: range) -> None:
        """Add segments that are in the order of their addresses; their bytes are loaded when first needed."""
        at, stored = parcel.packets.at, parcel.packets.stored
        for first in segments[::ASKED_FOR]:
            some = range(first, min(first + ASKED_FOR, segments.stop))
            start = int(at[first])
            self._know(start, int(at[some[-1]] + stored[some[-1]]))
            self._later[start] = parcel, some

    def _know(self, start: int, end: int) -> None:
        i = len(self._at) if not self._at or start > self._at[-1] else bisect_right(self._at, start)
        self._at.insert(i, start)
        self._ends.insert(i, end)

    def read(self, start: int, end: int) -> bytes | memoryview:
        found = super().read(start, end)
        if len(found) < end - start:
            i = bisect_right(self._at, start) - 1
            if i >= 0 and len(found) < min(end, self._ends[i]) - start:
                later = self._later.pop(self._at[i], None)
                if later is None:
                    raise NotSentError
                self.take(*later)
                return self.read(start, end)
        return found


class Judged(Flow):
    """A flow that is read from its parcels, whose claims it confirms."""

    def __init__(self, number: int, options: Options, order: Order) -> None:
        self._sent = Sent()
        super().__init__(number, options, order, source=self._sent)
        self._claims: dict[int, tuple[int, int, int, int]] = {}
        """By a request's address: (portion, index among the flow's claims in it, check, stream offset) of its claim."""
        self._given: dict[Place, int] = {}
        self.numbers = self._given
        self.verdicts: defaultdict[int, Verdict] = defaultdict(Verdict)
        """The verdicts on the flow's claims, by portion."""
        self._behind: set[Exchange] = set()
        """Exchanges that began at the same address as an earlier one, as happens after a resynchronisation."""
        self._ground: Ground | None = None
        self._connection: Connection | None = None
        """The ground and the connection of the last confirmed claim."""

    def take_number(self, data: bytes) -> None:
        """Add the number of an item of the flow (captures.spark.read.asking)."""
        place, number = number_of(data)
        self._given[place] = number

    def parcel(self, parcel: Parcel) -> Iterator[Any]:
        """The items of the next parcel."""
        for key, first, last, counts, new in parcel.counts:
            self._counter.count(key, first, last, counts, new=new)
        whole = shared(parcel.packets, parcel.position, parcel.reached, parcel.clock, self._order)
        at = claim = 0
        for plain in parcel.plain:
            yield from self._read(parcel, whole, range(at, plain.start), range(claim, plain.first))
            yield from self._plain(parcel, whole, plain)
            at, claim = plain.end, plain.first + plain.claims
        yield from self._read(parcel, whole, range(at, len(parcel.packets)), range(claim, len(parcel.asked)))

    def _read(self, parcel: Parcel, whole: Share, segments: range, claims: range) -> Iterator[Any]:
        """The items that some of a parcel's segments complete; `claims` are the indexes of the claims in them."""
        if segments:
            self._sent.take(parcel, segments)
            self._claimed(parcel, claims)
            yield from self.of(whole.of(slice(segments.start, segments.stop)))

    def _claimed(self, parcel: Parcel, claims: range) -> None:
        """Add some of a parcel's claims."""
        some = slice(claims.start, claims.stop)
        columns = (column[some].tolist() for column in (parcel.asked, parcel.checks, parcel.places))
        for number, asked, expected, place in zip(claims, *columns, strict=True):
            self._claims[asked] = parcel.portion, number, expected, place

    def _plain(self, parcel: Parcel, whole: Share, plain: Plain) -> Iterator[Any]:
        """The items of a plain stretch of segments; none if the conversation skips it."""
        segments, claims = range(plain.start, plain.end), range(plain.first, plain.first + plain.claims)
        share = whole.of(slice(segments.start, segments.stop))
        self._sent.take_later(parcel, segments)
        passing = Passing(plain, share.packets, lambda: self._claimed(parcel, claims))
        for began, done in self._reader.pass_over(share, passing):
            yield from self._items(began, done)
        connection = passing.connection
        if connection is None:
            return
        self._counter.passed(connection, plain.claims)
        ground = self._on(connection, found=False, ahead=passing.place - plain.place)
        self.verdicts[parcel.portion].uphold(plain.first, ground, plain.claims)

    def _items(self, began: list[tuple[int, Exchange]], done: Done) -> Iterator[Any]:
        self._behind.update(exchange for (before, _), (at, exchange) in pairwise(began) if before == at)
        yield from super()._items(began, done)

    def _exchange(self, item: Exchange, at: int, born: int, started: int, rank: int) -> Any:
        frame = item.request
        claim = self._claims.pop(frame.spans[0][0], None) if frame is not None and frame.spans else None
        # an exchange is numbered by where it began, and that is all that is known of a claim
        if claim is None or frame is None or item in self._behind or check(item, started, at) != claim[2]:
            self._behind.discard(item)
            return super()._exchange(item, at, born, started, rank)
        portion, number, _, place = claim
        ground = self._on(item.connection, found=self._drafter.was_found(item), ahead=frame.stream_offset - place)
        self.verdicts[portion].uphold(number, ground)
        return None

    def _on(self, connection: Connection, *, found: bool, ahead: int) -> Ground:
        """The grounds of a connection's claims; the same object while they stay the same."""
        drafter, ground = self._drafter, self._ground
        software = drafter.software(connection)
        if (
            ground is None
            or connection is not self._connection
            or ground.software != software
            or ground.ahead != ahead
            or ground.found != found
        ):
            flow, born = drafter.flows.of(connection), self._reader.born(connection)
            ground = Ground(
                flow.epoch, flow.client, flow.broker, born, software, connection.opened is False, found, ahead
            )  # fmt: skip
            self._ground, self._connection = ground, connection
        return ground

    def end(self) -> Iterator[Any]:
        yield from super().end()
        for portion, verdict in self.verdicts.items():
            yield self.note(VERDICT, portion, verdict)


def judged(batches: Iterable[Any], options: Options, order: Order) -> Iterator[Any]:
    """The items of flows (captures.spark.read.flows.ITEMS), from their parcels (captures.spark.claims.packing).

    The parcels of a flow must be adjacent, in the order of their positions; batches may be cut anywhere. The last item
    is the digest of the others (captures.spark.claims.digest).
    """
    return packed(digested(_judged(batches, options, order)))


def _judged(batches: Iterable[Any], options: Options, order: Order) -> Iterator[Any]:
    flow: Judged | None = None
    unproven: int | None = None
    decompress = zstandard.ZstdDecompressor().decompress
    for batch in batches:
        numbers, positions = (batch.column(name).to_pylist() for name in ("flow_id", "position"))
        for number, position, data in zip(numbers, positions, batch.column("data"), strict=True):
            if number is None or number == unproven:
                continue
            if flow is None or flow.number != number:
                if flow is not None:
                    yield from _proven(flow, flow.end())
                flow = Judged(number, options, order)
            if position == NUMBERS:
                flow.take_number(data.as_py())
                continue
            failed = False
            for item in _proven(flow, flow.parcel(unpack(data.as_buffer(), decompress))):
                failed |= item[0] == UNPROVEN
                yield item
            if failed:
                flow, unproven = None, number
    if flow is not None:
        yield from _proven(flow, flow.end())


def _proven(flow: Judged, items: Iterator[Any]) -> Iterator[Any]:
    """The items, up to the first that needs bytes that were not sent."""
    try:
        yield from items
    except NotSentError:
        yield flow.note(UNPROVEN, 0, None)
