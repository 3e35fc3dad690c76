"""Packs an exchange whose bodies are still in the capture, and makes its rows later, from bytes of a source."""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from kproxy.captures.export.records import RecordLines
from kproxy.captures.keys import Flow, Flows, flow_id, split_address
from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.read.facts import Facts, Position, Then
from kproxy.captures.tables.records import record_rows
from kproxy.captures.tables.rows import Drafter, Place, Row
from kproxy.captures.tables.schema import RECORDS
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health, Status
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Side, Source
from kproxy.decoders.view import View

_VERSION: Final = 2
"""Version of marshal's format.

Later versions search for repeated objects, which takes longer than writing them twice.
"""
_SIDES: Final = tuple(Side)
_STATUSES: Final = {status.value: status for status in Status}
_connection = attrgetter("number", "client", "broker", "first_time", "opened")
_exchange = attrgetter(
    "number", "api_key", "api_version", "correlation_id", "client_id", "status._value_", "reason", "token", "protocol",
    "asked_by._value_", "truths",
)  # fmt: skip
PRECISION: Final = 6
"""Decimal places of times, in seconds, where records name them."""


class Packed(NamedTuple):
    """An exchange, whose frames are addresses in a Source, with the further arguments of `pack`."""

    exchange: Exchange
    epoch: int
    software: str | None
    found: bool
    moved: Sequence[int]
    """For each span, the distance from its address to the address at which the source has it; empty if these are the
    same.
    """

    @property
    def spans(self) -> Iterator[tuple[int, int]]:
        """(first address, end) in the source of all pieces of the exchange's frames."""
        spans = _spans(self.exchange)
        for (at, length), by in zip(spans, self.moved or [0] * len(spans), strict=True):
            yield at + by, at + by + length


def _spans(exchange: Exchange) -> list[tuple[int, int]]:
    return [span for frame in (exchange.request, exchange.response) if frame is not None for span in frame.spans]


def pack(
    exchange: Exchange, epoch: int, software: str | None, *, found: bool, real: Callable[[int], int] | None = None
) -> bytes:
    """Pack an exchange with data of its connection.

    These are the epoch (captures.keys.Flow), the client's software, and whether a frame was found by resynchronisation.
    `real` maps an address to that at which the source has the byte; None if these are the same.
    Nearly all exchanges are packed without pickle, with times and addresses relative to the first frame's, because all
    of them are shuffled.
    """
    moved = () if real is None else tuple(real(at) - at for at, _ in _spans(exchange))
    request, response = exchange.request, exchange.response
    frame = request or response
    rare = exchange.problems or exchange.session is not None or exchange.end is not None
    if frame is None or not frame.spans or rare:
        return pickle.dumps(Packed(exchange, epoch, software, found, moved), pickle.HIGHEST_PROTOCOL)
    time, at = frame.first_time, frame.spans[0][0]
    row = (
        time, at, _connection(exchange.connection), _exchange(exchange),
        None if request is None else _relative(request, time, at),
        None if response is None else _relative(response, time, at),
        epoch, software, found, moved,
    )  # fmt: skip
    return marshal.dumps(row, _VERSION)


def unpack(packed: bytes) -> Packed:
    """The arguments of `pack`, from the bytes that it returned."""
    if packed[:1] == pickle.PROTO:
        held: Packed = pickle.loads(packed)  # noqa: S301  # of our own stage 2
        return held
    time, at, ends, row, request, response, *known = marshal.loads(packed)  # noqa: S302  # of our own stage 2
    number, key, version, id_, client, status, reason, token, protocol, side, truths = row
    exchange = Exchange(
        number, Connection(*ends), key, version, id_, client,
        None if request is None else _frame(request, time, at),
        None if response is None else _frame(response, time, at),
        _STATUSES[status], reason, [], token, protocol, _SIDES[side], truths,
    )  # fmt: skip
    return Packed(exchange, *known)


def _relative(frame: Frame, time: int, at: int) -> tuple[Any, ...]:
    """A frame as a tuple, with times relative to `time`; the first span is relative to `at`, each further one and the
    frame's last byte to the end of the span before.
    """
    spans: list[int] = []
    for start, length in frame.spans:
        spans.append(start - at)
        spans.append(length)
        at = start + length
    return (
        int(frame.side), frame.stream_offset, frame.size, frame.first_time - time, frame.time - time, spans,
        frame.at - at, frame.comments and list(frame.comments), frame.missing,
    )  # fmt: skip


def _frame(row: tuple[Any, ...], time: int, at: int) -> Frame:
    """The frame from the row that `_relative` returned."""
    side, offset, size, first, last, relative, end, comments, missing = row
    spans: list[tuple[int, int]] = []
    numbers = iter(relative)
    for start in numbers:
        length = next(numbers)
        at += start
        spans.append((at, length))
        at += length
    return Frame(_SIDES[side], offset, size, first + time, last + time, at + end, spans, comments, missing)


class Opener:
    """Makes the rows of packed exchanges from the bytes of a source, by address."""

    def __init__(
        self,
        order: Order,
        source: Source,
        definitions: Definitions,
        tables: Sequence[str],
        facts: Facts,
        batch_limit: int | None = None,
    ) -> None:
        """`tables` are the names of the wanted tables; `batch_limit` is as for captures.tables.carried.parts."""
        self._source = source = _Moved(source, order)
        self._then = Then(facts, (0, 0, 0))
        self._drafter = _PackedDrafter(order.capture, source, definitions, source.where, tables, Health(), batch_limit)
        reader: Any = SimpleNamespace(source=source, definitions=definitions, precision=PRECISION, health=Health())
        self._records = RecordLines(reader, View(knowledge=self._then)) if RECORDS.name in tables else None

    def rows(self, packed: Packed, position: Position) -> dict[str, list[Row]]:
        """The rows of an exchange by table, with the facts known at its position."""
        exchange, drafter = packed.exchange, self._drafter
        drafter.use(packed)
        self._source.use(packed)
        draft, _ = drafter.draft(exchange)
        self._then.position = position
        rows = draft.close(self._then.topic, None)
        if self._records is not None:
            rows[RECORDS.name] = list(record_rows(draft.key, exchange, self._records))
        return rows


class _Moved:
    """Reads frames of packed exchanges from a source, in which their bytes may have other addresses."""

    def __init__(self, source: Source, order: Order) -> None:
        self._source = source
        self._order = order
        self._places: list[tuple[int, int]] = []
        """Pairs (address of a span, distance to its address in the source), in descending order."""
        self.read: Callable[[int, int], bytes | memoryview] = source.read

    def use(self, packed: Packed) -> None:
        """Read from this exchange next."""
        self._places = []
        self.read = self._source.read
        if packed.moved:
            places = zip((at for at, _ in _spans(packed.exchange)), packed.moved, strict=True)
            self._places = sorted(places, reverse=True)
            self.read = self._moved

    def where(self, address: int) -> Place:
        """The Place of a byte of the exchange; in merged files, that in the byte's own file."""
        place = self._order.where(address)
        return place if place.id is not None else place._replace(id=self._order.merged_id(self._real(address)))

    def _real(self, address: int) -> int:
        """The address at which the source has a byte of the exchange."""
        return address + next((by for at, by in self._places if at <= address), 0)

    def _moved(self, start: int, end: int) -> bytes | memoryview:
        real = self._real(start)
        return self._source.read(real, real + end - start)


class _PackedDrafter(Drafter):
    """A drafter that takes the data of an exchange's connection from the packed exchange."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.flows = _Epochs()
        self._packed: Packed | None = None

    def use(self, packed: Packed) -> None:
        """Draft this exchange next."""
        cast("_Epochs", self.flows).epoch = packed.epoch
        self._packed = packed

    def software(self, connection: Connection) -> str | None:  # noqa: ARG002
        return None if self._packed is None else self._packed.software

    def was_found(self, exchange: Exchange) -> bool:  # noqa: ARG002
        return self._packed is not None and self._packed.found


class _Epochs(Flows):
    """Gives every connection the epoch `epoch`."""

    epoch = 0

    def of(self, connection: Connection) -> Flow:
        return _flow(connection.client, connection.broker, self.epoch)


@lru_cache(1 << 12)
def _flow(client: str, broker: str, epoch: int) -> Flow:
    number = flow_id(client, broker)
    return Flow(number, epoch, split_address(client), split_address(broker), f"{number}:{epoch}:")
