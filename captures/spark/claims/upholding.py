"""Stage 3 with claims: makes rows of the claims that stage 2 confirmed, with values from the whole reading."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kproxy.captures.garbage import one_collection
from kproxy.captures.spark.claims.claiming import CLAIM, Claims, RowsOfClaims
from kproxy.captures.spark.claims.digest import Verdicts, verdicts_in
from kproxy.captures.spark.claims.judging import Ground
from kproxy.captures.spark.claims.numbering import Among, Counted
from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.read.closing import rows_of
from kproxy.captures.spark.read.facts import Facts
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import EXCHANGES, TABLES
from kproxy.captures.tcp.packets import Ints

_Opened = dict[str, RowsOfClaims]
_FIRST: Final = 0
"""`nth` in the position of a claim: at the same address, facts of the claim's own flow come after it."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Values of the whole reading from which the rows of claims are completed."""

    options: Options
    order: Order
    facts: Facts
    among: Among


@dataclass(frozen=True, slots=True)
class _Upheld:
    """The confirmed claims of a portion, in order.

    `which` are their indexes among the portion's claims, `ground` their indexes into `grounds`; `flows` are the
    flow_ids of the grounds.
    """

    claims: Claims
    which: Ints
    ground: Ints
    grounds: Sequence[Ground]
    flows: Sequence[int]

    @property
    def started(self) -> Ints:
        return self.claims.started[self.which]

    def each(self, values: Sequence[Any], type_: Any) -> Any:
        """For each claim, the value of its ground, as a pyarrow.Array; `values` has one for each ground."""
        return pa.array(values, type_).take(pa.array(self.ground))


def _upheld(data: bytes, verdicts: Verdicts) -> _Upheld:
    claims: Claims = pickle.loads(data)  # noqa: S301  # of our own stage 1
    parts: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64),) * 2]
    grounds: list[Ground] = []
    flows: list[int] = []
    first = 0
    by_flow = verdicts_in(verdicts)
    for flow, count in claims.flows:
        verdict = by_flow.get(flow)
        if verdict is not None:
            for begin, length, on in verdict.runs:
                parts.append((np.arange(first + begin, first + begin + length), np.full(length, len(grounds) + on)))
            grounds += verdict.grounds
            flows += [flow] * len(verdict.grounds)
        first += count
    which, ground = map(np.concatenate, zip(*parts, strict=True))
    return _Upheld(claims, which, ground, grounds, flows)


def counted(portion: int, data: bytes, verdicts: Verdicts, others: Ints) -> Counted:
    """How a portion's confirmed claims follow exchanges that began at the sorted addresses `others`."""
    started = np.sort(_upheld(data, verdicts).started)
    if not len(started):
        return portion, 0, 0, b""
    first, last = np.searchsorted(others, started[[0, -1]]).tolist()
    return portion, len(started), first, np.searchsorted(started, others[first:last], "right").tobytes()


def _rows(name: str, columns: Mapping[str, Any], kept: _Upheld, opened: _Opened, whole: Whole) -> Any:
    """The rows of a portion's confirmed claims in a table: a pyarrow.RecordBatch."""
    places = np.full(len(kept.claims.started), -1, np.int64)
    places[kept.which] = np.arange(len(kept.which))
    table = pa.Table.from_batches([opened.get(name, RowsOfClaims(name)).batch()])
    if columns[name] is not None:
        table = pa.concat_tables([pa.ipc.open_stream(columns[name]).read_all(), table])
    where = places[table.column(CLAIM).to_numpy()]
    table, where = _taken(table, np.flatnonzero(where >= 0)), where[where >= 0]
    changed = {column: _taken(values, where) for column, values in _changes(name, kept, columns["portion"], whole)}
    schema = arrow.schema(TABLES[name])
    arrays = [changed[one] if one in changed else _whole(table.column(one)) for one in schema.names]
    return pa.record_batch(arrays, schema=schema)


def _taken(values: Any, where: Ints) -> Any:
    """The values at these indices, which are nearly always all indices in order."""
    return values if np.array_equal(where, np.arange(len(values))) else values.take(pa.array(where))


def _whole(column: Any) -> Any:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else found.chunk(0)


def _open(drafts: bytes | None, kept: _Upheld, whole: Whole) -> _Opened:
    """By table, the rows of confirmed claims that needed facts of other flows."""
    found: _Opened = {}
    if drafts is None:
        return found
    grounds = dict(zip(kept.which.tolist(), kept.ground.tolist(), strict=True))
    for claim, opened in pickle.loads(drafts):  # noqa: S301  # of our own stage 1
        if claim in grounds:
            position = int(kept.claims.done[claim]), kept.grounds[grounds[claim]].born, _FIRST
            for name, rows in rows_of(opened, position, whole.facts, whole.options).items():
                found.setdefault(name, RowsOfClaims(name)).add(claim, rows)
    return found


def _changes(name: str, kept: _Upheld, portion: int, whole: Whole) -> Iterator[tuple[str, Any]]:
    """The columns that depend on the whole reading (captures.tables.schema.Table.later), for each claim."""
    claims, which, grounds = kept.claims, kept.which, kept.grounds
    flows = zip(kept.flows, grounds, strict=True)
    prefixes = kept.each([f"{flow}:{ground.epoch}:" for flow, ground in flows], pa.string())
    offsets = claims.place[which] + np.array([one.ahead for one in grounds], np.int64)[kept.ground]
    yield "capture_id", pa.repeat(pa.scalar(whole.order.capture, pa.string()), len(which))
    yield "exchange_id", pc.binary_join_element_wise(prefixes, pa.array(offsets).cast(pa.string()), "")
    if name != EXCHANGES.name:
        return
    yield "flow_id", kept.each(kept.flows, pa.int64())
    for side in ("client", "broker"):
        ips, ports = zip(*(getattr(one, side) for one in grounds), strict=True) if grounds else ((), ())
        yield f"{side}_ip", kept.each(ips, pa.string())
        yield f"{side}_port", kept.each(ports, pa.int32())
    yield "conn_epoch", kept.each([one.epoch for one in grounds], pa.int32())
    yield "exchange", pa.array(whole.among.numbers(portion, kept.started))
    yield "client_software", kept.each([one.software for one in grounds], pa.string())
    yield "flags", kept.each([one.flags for one in grounds], pa.list_(pa.string()))
    yield "broker_id", _nodes(kept, whole.facts)
    for side, address in (("req", claims.asked[which]), ("rsp", claims.answered[which])):
        files, places = whole.order.places(address)
        yield f"{side}_file", files
        yield f"{side}_off", places


def _nodes(kept: _Upheld, facts: Facts) -> Any:
    """For each claim, the node id of its broker, null if it was not known then."""
    done, brokers = kept.claims.done[kept.which], facts.nodes
    numbers = {broker: number for number, broker in enumerate(brokers)}
    broker = np.array([numbers.get(ground.broker, -1) for ground in kept.grounds], np.int64)[kept.ground]
    values: list[int | None] = [None]
    index = np.zeros(len(done), np.int64)
    for number, (positions, nodes) in enumerate(brokers.values()):
        mine = np.flatnonzero(broker == number)
        known = np.searchsorted([position[0] for position in positions], done[mine])
        index[mine] = np.where(known > 0, known + len(values) - 1, 0)
        values += map(int, nodes)
    return pa.array(values, pa.int32()).take(pa.array(index))


def batches(
    portions: Iterable[Any], names: Sequence[str], verdicts: Mapping[int, Verdicts], whole: Whole
) -> Iterator[tuple[str, Any]]:
    """The rows, in some tables, of the confirmed claims of portions (captures.spark.claims.claiming.CLAIMED)."""
    for batch in portions:
        for columns in batch.select(["portion", "claims", "drafts", *names]).to_pylist():
            of_portion = verdicts.get(columns["portion"])
            if of_portion is not None:
                with one_collection():
                    kept = _upheld(columns["claims"], of_portion)
                    opened = _open(columns["drafts"], kept, whole)
                    made = [(name, _rows(name, columns, kept, opened, whole)) for name in names]
                yield from made


def counts(portions: Iterable[Any], verdicts: Mapping[int, Verdicts], others: Ints) -> Iterator[Counted]:
    """The positions of each portion's confirmed claims among exchanges that began at these sorted addresses."""
    for batch in portions:
        for number, data in zip(batch.column("portion").to_pylist(), batch.column("claims").to_pylist(), strict=True):
            if number in verdicts:
                yield counted(number, data, verdicts[number], others)
