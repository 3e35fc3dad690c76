"""Runs the three stages in one process; memory takes the place of shuffles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kproxy.captures.ports import Ports
from kproxy.captures.spark.follow import finding_states
from kproxy.captures.spark.follow.carry import NUMBERED_AS, Carry
from kproxy.captures.spark.follow.flow_states import carried, state_rows
from kproxy.captures.spark.plan.order import Order, Summary
from kproxy.captures.spark.plan.splits import SPLIT_SIZE, Plan, plan
from kproxy.captures.spark.read import events, parcels, reading
from kproxy.captures.spark.read.addressed import Addressed
from kproxy.captures.spark.read.closing import CLOSED, Closer, Counting, Numbers
from kproxy.captures.spark.read.digest import DIGEST, Digest
from kproxy.captures.spark.read.facts import Facts, LearnedFact, learned_facts
from kproxy.captures.spark.read.flows import FINAL, ITEMS, MADE, SORTED, Options, is_item, items
from kproxy.captures.spark.read.folding import Fold, folded
from kproxy.captures.spark.read.packing import PARCELS
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import CAPTURES, FINDINGS, TABLES
from kproxy.captures.tls.keylog import Secrets

AT_ONCE: Final = 1024
"""Maximum number of rows in a batch."""
BY_FLOW: Final = ("flow_id", "position")


def tables(
    paths: Sequence[Path | str],
    options: Options,
    *,
    size: int = SPLIT_SIZE,
    secrets: Secrets | None = None,
) -> dict[str, Any]:
    """The tables of captures by name, as pyarrow tables; for the arguments see captures.spark.job.make."""
    return of_plan(plan(paths, size, secrets=secrets), options, size=size)


def of_plan(planned: Plan, options: Options, *, size: int = SPLIT_SIZE) -> dict[str, Any]:
    """The tables of a plan by name, as pyarrow tables; the plan is corrected where its splits report trouble."""
    made = _drafted(planned, options, size)
    options = made.options
    found = _tables(pa.Table.from_batches(made.closed(MADE), CLOSED), options)
    if options.findings:
        batch = _folded(made.batches, Fold(options, decrypted=made.plan.decrypted), made.plan.capture)
        found[FINDINGS.name] = unfolded(pa.chunked_array([batch.column(FINDINGS.name)]), FINDINGS.name)
    return found | _captures(made.order, options)


def closed(planned: Plan, options: Options, names: Sequence[str], *, size: int = SPLIT_SIZE) -> Iterator[Any]:
    """The items of a plan with their rows of the tables `names`, as batches of captures.spark.read.closing.CLOSED.

    Stage 3 makes the rows of a batch when it is asked for. `names` are among captures.spark.read.flows.MADE.
    """
    return _drafted(planned, options, size).closed(names)


@dataclass(frozen=True, slots=True)
class _Drafted:
    """The result of stages 1 and 2 on the corrected `plan`; `batches` are those of ITEMS."""

    plan: Plan
    order: Order
    addressed: Addressed
    options: Options
    batches: list[Any]

    def closed(self, names: Sequence[str]) -> Iterator[Any]:
        """The result of stage 3, made as it is asked for."""
        closer = _closer(self.batches, self.options, Carry(), self.order, self.addressed)
        return closer.close(_items(self.batches), names)


def _drafted(planned: Plan, options: Options, size: int) -> _Drafted:
    sent, planned, order = ordered(planned, size, options.ports)
    addressed = Addressed.of(planned)
    if options.undecided:
        first = list(items(shuffled(sent, PARCELS, BY_FLOW), replace(options, ranges=None), order, addressed))
        options = replace(options, facts=Facts(_learned(first)))
        if options.numbered:
            sent += Counting(Numbers.of(_counts(first))).rows(_items(first))
    made = list(items(shuffled(sent, PARCELS, BY_FLOW), options, order, addressed))
    return _Drafted(planned, order, addressed, options, made)


def ordered(
    planned: Plan, size: int, wanted: Ports | None = None, *, payload: bool = False
) -> tuple[list[Any], Plan, Order]:
    """(parcels of all splits, corrected plan, order of its files); `payload` is as in captures.spark.read.parcels."""
    summaries: list[Summary] = []
    while True:
        if planned.overlaps and not payload:
            found = [one for split in planned.splits for one in reading.surveyed(split)]
            order = Order.surveyed(planned, found, summaries)
            planned = order.mended(planned, size, surveyed=True) or replace(planned, overlaps=False)
        batches = [batch for split in planned.splits for batch in parcels.read(split, wanted, payload=payload)]
        summaries = [one for batch in batches for one in reading.summaries(batch)]
        order = Order.of(planned, summaries)
        mended = order.mended(planned, size, slices=not payload)
        if mended is None:
            return batches, planned, order
        planned = mended


def _items(made: Iterable[Any]) -> list[Any]:
    """The items that have rows, in the order of numbering."""
    return shuffled((each.filter(is_item(each)) for each in made), ITEMS, SORTED)


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of a batch of a stream.

    `final` are final rows by table, `open` rows that are valid until the next batch; `carry`, `states` (by flow_id) and
    `findings` (if that table is wanted) are the state for the next batch.
    """

    final: dict[str, Any]
    open: dict[str, Any]
    carry: Carry
    states: dict[int, bytes]
    findings: bytes | None = None


def batch(
    sent: Iterable[Any],
    order: Order,
    options: Options,
    carry: Carry,
    states: Mapping[int, bytes],
    findings: bytes | None = None,
) -> Batch:
    """Make one batch of a stream from its parcels, which include payload, and from the previous batch's state.

    `order` is the order of the parcels' files.
    """
    order = carry.order(order)
    given = shuffled([*sent, state_rows(states)], PARCELS, BY_FLOW)
    made = list(carried(given, options, order, carry.numbers))
    left = {
        number: state
        for each in made
        for number, state in zip(each.column("flow_id").to_pylist(), each.column("state").to_pylist(), strict=True)
        if state is not None and number is not None
    }
    rows = _items(made)
    closed = pa.Table.from_batches(_closer(made, options, carry, order).close(rows), CLOSED)
    final = pc.equal(closed.column("standing"), FINAL)
    facts = _learned(each.filter(pc.equal(each.column("standing"), FINAL)) for each in rows)
    open_ = _tables(closed.filter(pc.invert(final)), options) | _captures(order, options)
    if options.findings:
        final_rows = [each.filter(pc.equal(each.column("standing"), FINAL)) for each in made]
        found = _folded(made, finding_states.load(findings, options), order.capture)
        open_[FINDINGS.name] = unfolded(pa.chunked_array([found.column(FINDINGS.name)]), FINDINGS.name)
        continued = _folded(final_rows, finding_states.load(findings, options), order.capture, finding_states.dump)
        findings = continued.column("state")[0].as_py()
    return Batch(
        _tables(closed.filter(final), options),
        open_,
        carry.after(order, facts, closed.select(NUMBERED_AS).to_pylist()),
        left,
        findings,
    )


def _folded(made: Iterable[Any], fold: Fold, capture: str, leave: Callable[[Fold], bytes] | None = None) -> Any:
    """The findings (captures.spark.read.folding.FOUND), from the event rows of all flows."""
    rows = (each.filter(pc.is_valid(each.column("event"))).select(events.COLUMNS) for each in made)
    in_order = shuffled(rows, pa.schema([ITEMS.field(name) for name in events.COLUMNS]), events.ORDER)
    (batch,) = folded(in_order, fold, capture, leave)
    return batch


def _closer(
    made: Sequence[Any], options: Options, carry: Carry, order: Order, addressed: Addressed | None = None
) -> Closer:
    """What closes the items in `made`, the result of stage 2."""
    facts = Facts([*carry.facts, *_learned(made)])
    return Closer(options, facts, Numbers.of(_counts(made), carry.counts), order, addressed)


def _learned(made: Iterable[Any]) -> Iterator[LearnedFact]:
    return (fact for batch in made for fact in learned_facts(batch))


def _counts(made: Iterable[Any]) -> Iterator[tuple[str, int, int]]:
    """(kind, range, number of items) of all items, from the digests among the batches of ITEMS."""
    states = (batch.filter(pc.equal(batch.column("kind"), DIGEST)).column("state").to_pylist() for batch in made)
    return Digest.of(chain.from_iterable(states)).counted


def _tables(closed: Any, options: Options) -> dict[str, Any]:
    return {name: unfolded(closed.column(name), name) for name in MADE if name in options.tables}


def _captures(order: Order, options: Options) -> dict[str, Any]:
    if CAPTURES.name not in options.tables:
        return {}
    return {CAPTURES.name: pa.Table.from_batches([arrow.batch(CAPTURES, list(order.captures()))])}


def shuffled(batches: Iterable[Any], schema: Any, by: Sequence[str]) -> list[Any]:
    """Batches of all rows, sorted by some columns, nulls last: what a shuffle does on Spark."""
    table = pa.Table.from_batches(batches, schema)
    keys = [(name, "ascending") for name in by]
    return list(table.take(pa.compute.sort_indices(table, keys)).to_batches(max_chunksize=AT_ONCE))


def unfolded(column: Any, name: str) -> Any:
    """The rows of the table `name` in a column of lists of rows, as a pyarrow table."""
    rows: Iterator[Any] = (chunk.flatten() for chunk in column.chunks)
    schema = arrow.schema(TABLES[name])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(chunk) for chunk in rows], schema)
