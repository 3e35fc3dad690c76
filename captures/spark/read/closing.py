"""Stage 3: turns items into rows, and adds what depends on other flows: numbers, names of topic ids, node ids."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.read.addressed import Addressed
from kproxy.captures.spark.read.asking import numbered
from kproxy.captures.spark.read.facts import Facts, Position, Then
from kproxy.captures.spark.read.flows import COUNTED, FINAL, ITEMS, MADE, Held, Open, Options, records_of
from kproxy.captures.spark.read.opening import Opener, Packed, unpack
from kproxy.captures.tables import arrow
from kproxy.captures.tables.rows import Row
from kproxy.captures.tables.schema import EXCHANGES, FLOWS, RECORDS, TABLES
from kproxy.decoders.exchange import Health

_EXCHANGE, _BROKER_IP, _BROKER_PORT, _BROKER_ID = map(
    EXCHANGES.index, ("exchange", "broker_ip", "broker_port", "broker_id")
)
_CONNECTION: Final = FLOWS.index("connection")
BYTES_AT_ONCE: Final = 8 << 20
"""Number of bytes of frames whose rows become columns together; fewer if a batch of items ends before."""
_NONE: Final[Mapping[str, int]] = {}
_NO_ROWS: Final[Mapping[str, list[Row]]] = {}
_NUMBER: Final = ITEMS.get_field_index("number")
PLACES: Final = pa.schema([ITEMS.field(name) for name in ("standing", "kind", "started", "born", "rank", "number")])
"""The columns of an item from which the next batch of a stream learns the item's number."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """By kind and range of addresses, the number of exchanges, or of flows, that begin before this range."""

    before: Mapping[str, Mapping[int, int]]

    @classmethod
    def of(cls, counts: Iterable[tuple[str, int, int]], already: Mapping[str, int] = _NONE) -> Numbers:
        """Makes Numbers from entries (kind, range, number of items); `already` has, for each kind, the number of items
        that were numbered before.
        """
        found: dict[str, dict[int, int]] = {"exchange": {}, "flow": {}}
        for kind, span, count in counts:
            if kind in COUNTED:
                ranges = found[COUNTED[kind]]
                ranges[span] = ranges.get(span, 0) + count
        before = {}
        for kind, ranges in found.items():
            spans = sorted(ranges)
            sums = accumulate((ranges[span] for span in spans), initial=already.get(kind, 0))
            before[kind] = dict(zip(spans, sums, strict=False))
        return cls(before)


class Counting:
    """Numbers items; items of a range must be adjacent, in the order captures.spark.read.flows.SORTED."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._range: int | None = None
        self._counted = {"exchange": 0, "flow": 0}

    def of(self, batch: Any) -> list[int]:
        """The number of each item among the items of its kind; 0 for a kind that is not counted."""
        found = []
        counted = self._counted
        columns = (batch.column(name).to_pylist() for name in ("kind", "range", "number"))
        for kind, span, number in zip(*columns, strict=True):
            if span != self._range:
                self._range = span
                for each, before in self._numbers.before.items():
                    counted[each] = before.get(span, 0)
            counts_as = COUNTED.get(kind)
            if counts_as is None or number is not None:
                found.append(number or 0)
            else:
                counted[counts_as] += 1
                found.append(counted[counts_as])
        return found

    def numbered(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of items with their numbers in the column `number`."""
        for batch in batches:
            yield batch.set_column(_NUMBER, ITEMS.field(_NUMBER), pa.array(self.of(batch), pa.int64()))

    def places(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of PLACES, of all items."""
        return (batch.select(PLACES.names) for batch in self.numbered(batches))

    def rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The numbers of items, as rows that captures.spark.read.asking.numbered makes."""
        for batch in self.numbered(batches):
            names = ("flow_id", "kind", "started", "born", "rank", "number")
            given = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
            yield numbered((flow, COUNTED[kind], *rest) for flow, kind, *rest in given if kind in COUNTED)


class Closer:
    """Completes items; items of a range must be adjacent, in the order captures.spark.read.flows.SORTED."""

    def __init__(
        self, options: Options, facts: Facts, numbers: Numbers, order: Order, addressed: Addressed | None = None
    ) -> None:
        """Bytes of packed exchanges are read from the files in `addressed`."""
        self._source = (addressed or Addressed()).opened()
        self._opener = Opener(
            order, self._source, options.definitions, options.tables, facts, batch_limit=options.batch_limit
        )
        self._options = options
        self._facts = facts
        self._counting = Counting(numbers)
        self._nodes = facts.nodes

    def rows(
        self, batches: Iterable[Any], names: Sequence[str] = MADE, *, final: bool | None = None
    ) -> Iterator[tuple[str, Any]]:
        """(table's name, batch of its rows) for the wanted tables that are in `names`, from batches of ITEMS.

        With `final`, only items that are final, or are not, have rows.
        """
        wanted = [name for name in MADE if name in names and name in self._options.tables]
        held: dict[str, list[Row]] = {name: [] for name in wanted}
        for batch in self._counting.numbered(batches):
            size = 0
            for made, more in self._made(batch if final is None else _standing(batch, final=final)):
                for name in wanted:
                    held[name] += made.get(name, ())
                size += more
                if size >= BYTES_AT_ONCE:
                    yield from _columns(held)
                    size = 0
            yield from _columns(held)

    def _made(self, batch: Any) -> Iterator[tuple[Mapping[str, list[Any]], int]]:
        """(rows by table, size of the frames that were read for them) of each item."""
        columns = (batch.column(name).to_pylist() for name in ("rows", "open", "number", "done", "born", "nth"))
        # An exchange is unpacked, used and forgotten before the next one, which then gets the same memory.
        packed: Iterator[Packed | None] = map(_unpacked, batch.column("packed").to_pylist())
        if self._source.remote:
            packed = self._fetched(packed)
        for one, rows, opened, number, *position in zip(packed, *columns, strict=True):
            yield self._rows(one, rows, opened, number, tuple(position)), _size(one)

    def _fetched(self, packed: Iterable[Packed | None]) -> Iterator[Packed | None]:
        """The same exchanges, with their bytes fetched in few requests."""
        held: list[Packed | None] = []
        size = 0
        for one in packed:
            held.append(one)
            size += _size(one)
            if size >= BYTES_AT_ONCE:
                yield from self._fetch(held)
                held, size = [], 0
        yield from self._fetch(held)

    def _fetch(self, some: list[Packed | None]) -> list[Packed | None]:
        self._source.need(span for one in some if one is not None for span in one.spans)
        return some

    def _rows(
        self, one: Packed | None, rows: bytes | None, opened: bytes | None, number: int, position: Position
    ) -> Mapping[str, list[Any]]:
        """The rows of an item by table."""
        if one is not None:
            made: Mapping[str, list[Any]] = self._opener.rows(one, position)
        elif opened is not None:
            made = rows_of(pickle.loads(opened), position, self._facts, self._options)  # noqa: S301  # our own
        else:
            made = _NO_ROWS if rows is None else pickle.loads(rows)  # noqa: S301  # our own
        for row in made.get(EXCHANGES.name, ()):
            row[_EXCHANGE] = number
            if self._nodes:
                row[_BROKER_ID] = self._node(row[_BROKER_IP], row[_BROKER_PORT], position)
        for row in made.get(FLOWS.name, ()):
            row[_CONNECTION] = number
        return made

    def _node(self, host: str, port: int, position: Position) -> int | None:
        """The node id of a broker that was known at a position."""
        held = self._nodes.get((host, port))
        index = 0 if held is None else bisect_right(held[0], position)
        return None if held is None or not index else int(held[1][index - 1])


def rows_of(opened: Open, position: Position, facts: Facts, options: Options) -> dict[str, list[Row]]:
    """The rows of an open exchange by table, with the facts known at its position."""
    then = Then(facts, position)
    rows = opened.draft.close(then.topic, None)
    records = opened.records
    if records is not None:
        source = Held(sorted(records.spans, key=lambda span: span[0]))
        reader = SimpleNamespace(
            source=source, definitions=options.definitions, precision=records.precision, health=Health()
        )
        rows[RECORDS.name] = records_of(opened.draft.key, records.exchange, reader, then)
    return rows


def _columns(held: Mapping[str, list[Row]]) -> Iterator[tuple[str, Any]]:
    """(table's name, batch of its rows) for tables that have rows; there are none left afterwards."""
    for name, rows in held.items():
        if rows:
            yield name, arrow.batch(TABLES[name], rows)
            rows.clear()


def _standing(batch: Any, *, final: bool) -> Any:
    """The items that are final, or all others."""
    chosen = pc.equal(batch.column("standing"), FINAL)
    return batch.filter(chosen if final else pc.invert(chosen))


def _unpacked(data: bytes | None) -> Packed | None:
    return None if data is None else unpack(data)


def _size(one: Packed | None) -> int:
    return 0 if one is None else one.exchange.size
