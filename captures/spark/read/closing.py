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

from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.read.addressed import Addressed
from kproxy.captures.spark.read.asking import numbered
from kproxy.captures.spark.read.facts import Facts, Position, Then
from kproxy.captures.spark.read.flows import COUNTED, ITEMS, MADE, Held, Open, Options, nested, records_of
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
"""The items of a batch are closed in groups; a group ends once its frames have this many bytes."""
_NONE: Final[Mapping[str, int]] = {}
_NO_ROWS: Final[Mapping[str, list[Row]]] = {}


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

    def rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The numbers of items, as rows that captures.spark.read.asking.numbered makes."""
        for batch in batches:
            given = zip(
                *(batch.column(name).to_pylist() for name in ("flow_id", "kind", "started", "born", "rank")),
                self.of(batch), strict=True,
            )  # fmt: skip
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

    def close(self, batches: Iterable[Any], names: Sequence[str] = MADE) -> Iterator[Any]:
        """Batches of CLOSED: the items with all their rows; those of tables that are not in `names` are left out."""
        names = [name for name in MADE if name in names]
        for batch in batches:
            packed = [None if data is None else unpack(data) for data in batch.column("packed").to_pylist()]
            start = size = 0
            for index, each in enumerate(packed):
                size += 0 if each is None else each.exchange.size
                if size >= BYTES_AT_ONCE or index == len(packed) - 1:
                    end = index + 1
                    yield self._closed(batch.slice(start, end - start), packed[start:end], names)
                    start, size = end, 0

    def _closed(self, batch: Any, packed: Sequence[Packed | None], names: Sequence[str]) -> Any:
        numbers, rows = self._rows(batch, packed)
        wanted, nothing = self._options.tables, [None] * len(rows)
        closed = {name: nested(name, [one.get(name) for one in rows] if name in wanted else nothing) for name in names}
        closed |= {name: batch.column(name) for name in PLACE} | {"number": pa.array(numbers, pa.int64())}
        schema = pa.schema([field for field in CLOSED if field.name in closed])
        return pa.record_batch([closed[name] for name in schema.names], schema=schema)

    def _rows(self, batch: Any, packed: Sequence[Packed | None]) -> tuple[list[int], list[Mapping[str, list[Any]]]]:
        """(numbers of the items in a batch, their rows by table)."""
        positions = list(zip(*(batch.column(name).to_pylist() for name in ("done", "born", "nth")), strict=True))
        numbers = self._counting.of(batch)
        rows: list[Mapping[str, list[Any]]] = [
            _NO_ROWS if data is None else pickle.loads(data)  # noqa: S301  # our own
            for data in batch.column("rows").to_pylist()
        ]
        for index, data in enumerate(batch.column("open").to_pylist()):
            if data is not None:
                rows[index] = rows_of(pickle.loads(data), positions[index], self._facts, self._options)  # noqa: S301  # our own
        if self._source.remote:
            self._source.need(span for one in packed if one is not None for span in one.spans)
        for index, one in enumerate(packed):
            if one is not None:
                rows[index] = self._opener.rows(one, positions[index])
        for made, number, position in zip(rows, numbers, positions, strict=True):
            for row in made.get(EXCHANGES.name, ()):
                row[_EXCHANGE] = number
                if self._nodes:
                    row[_BROKER_ID] = self._node(row[_BROKER_IP], row[_BROKER_PORT], position)
            for row in made.get(FLOWS.name, ()):
                row[_CONNECTION] = number
        return numbers, rows

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


PLACE: Final = ("standing", "kind", "started", "born", "rank")
CLOSED: Final = pa.schema([
    *(ITEMS.field(name) for name in PLACE), ("number", pa.int64()),
    *((name, pa.list_(pa.struct(list(arrow.schema(TABLES[name]))))) for name in MADE),
])  # fmt: skip
"""The result of closing: for each item its identity, its number, and for each table the list of its rows."""
