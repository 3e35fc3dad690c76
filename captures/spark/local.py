"""Runs the three stages in one process; memory takes the place of shuffles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kproxy.captures.spark.claims import claiming, upholding
from kproxy.captures.spark.claims.digest import DIGEST, Digest, of_states
from kproxy.captures.spark.claims.judging import judged
from kproxy.captures.spark.claims.numbering import Among
from kproxy.captures.spark.follow.carry import NUMBERED_AS, Carry
from kproxy.captures.spark.follow.flow_states import carried, state_rows
from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.plan.splits import SPLIT_SIZE, Plan, Read, Split, of_groups, plan
from kproxy.captures.spark.read import reading, told
from kproxy.captures.spark.read.closing import CLOSED, Closer, Counting, Numbers
from kproxy.captures.spark.read.facts import Facts, learned_facts
from kproxy.captures.spark.read.flows import FINAL, ITEMS, MADE, SORTED, Options
from kproxy.captures.spark.read.folding import folded
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import CAPTURES, FINDINGS, TABLES
from kproxy.captures.tls.keylog import Secrets

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

    def read(split: Split, capture: str) -> Iterator[Any]:
        return claiming.read(split, options, capture)

    batches, planned, order = ordered(planned, size, read)
    table = pa.Table.from_batches(batches, claiming.CLAIMED)
    numbers: list[Any] = []
    if options.undecided:
        first = shuffled(_judged(table, options, order).to_batches(), ITEMS, SORTED)
        options = replace(options, facts=Facts(one for batch in first for one in learned_facts(batch)))
        if options.numbered:
            numbers = list(Counting(Numbers.of(_counts(first))).rows(first))
    items = _judged(table, options, order, numbers)
    digest = _digest(items)
    if digest.unproven:
        unproven = frozenset(digest.unproven)
        sent = (claiming.read(split, options, planned.capture, whole=unproven) for split in planned.splits)
        again = pa.Table.from_batches(chain.from_iterable(sent), claiming.CLAIMED)
        known = pc.is_in(items.column("flow_id"), pa.array(unproven))
        mended = _judged(again, options, order)
        digest.mend(_digest(mended))
        items = pa.concat_tables([items.filter(pc.invert(known)), mended])
    rows_told = items.filter(pc.is_valid(items.column("told"))).select(told.COLUMNS)
    items = items.filter(_is_item(items))
    verdicts, others = digest.verdicts, digest.others
    portions = table.filter(pc.is_valid(table.column("portion"))).to_batches()
    among = Among.of(others, upholding.counts(portions, verdicts, others))
    made = shuffled(items.to_batches(), ITEMS, SORTED)
    facts, closed = _closed(made, options, Carry(), among)
    whole = upholding.Whole(options, order, facts, among)
    found = _tables(closed, options)
    upheld: dict[str, list[Any]] = {name: found[name].to_batches() for name in found}
    for name, batch in upholding.batches(portions, [one for one in claiming.TOLD if one in found], verdicts, whole):
        upheld[name].append(batch)
    found = {name: pa.Table.from_batches(batches, found[name].schema) for name, batches in upheld.items()}
    if options.findings:
        in_order = shuffled(rows_told.to_batches(), rows_told.schema, told.ORDER)
        (batch,) = folded(in_order, options, planned.capture, decrypted=planned.decrypted)
        found[FINDINGS.name] = unfolded(pa.chunked_array([batch.column(FINDINGS.name)]), FINDINGS.name)
    return found | _captures(order, options)


def _is_item(rows: Any) -> Any:
    """For each row of ITEMS, whether it is an item."""
    return pc.and_(pc.is_null(rows.column("state")), pc.is_null(rows.column("told")))


def ordered(planned: Plan, size: int, read: Read) -> tuple[list[Any], Plan, Order]:
    """(results of reading all splits by `read`, corrected plan, order of its files)."""
    while True:
        batches = [batch for split in planned.splits for batch in read(split, planned.capture)]
        order = Order.of(planned, [one for batch in batches for one in reading.summaries(batch)])
        mended = order.mended(planned)
        if mended is None:
            return batches, planned, order
        planned = of_groups(mended[0], size, mended[1], planned.before)


def _judged(table: Any, options: Options, order: Order, numbers: Sequence[Any] = ()) -> Any:
    parcels = table.filter(pc.is_valid(table.column("flow_id"))).select(claiming.PARCEL).to_batches()
    made = judged(shuffled([*parcels, *numbers], claiming.PARCELS, BY_FLOW), options, order)
    return pa.Table.from_batches(made, ITEMS)


def _digest(items: Any) -> Digest:
    return of_states(items.filter(pc.equal(items.column("kind"), DIGEST)).column("state").to_pylist())


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of a batch of a stream.

    `final` are final rows by table, `open` rows that are valid until the next batch; `carry` and `states` (by flow_id)
    are the state for the next batch.
    """

    final: dict[str, Any]
    open: dict[str, Any]
    carry: Carry
    states: dict[int, bytes]


def batch(segments: Iterable[Any], order: Order, options: Options, carry: Carry, states: Mapping[int, bytes]) -> Batch:
    """Make one batch of a stream from its segments, their order, and the `carry` and `states` of the batch before."""
    order = carry.order(order)
    given = shuffled([*segments, state_rows(states)], reading.SEGMENTS, BY_FLOW)
    made = list(carried(given, options, order, carry.numbers))
    left = {
        number: state
        for each in made
        for number, state in zip(each.column("flow_id").to_pylist(), each.column("state").to_pylist(), strict=True)
        if state is not None
    }
    rows = shuffled((each.filter(_is_item(each)) for each in made), ITEMS, SORTED)
    _, closed = _closed(rows, options, carry)
    final = pc.equal(closed.column("standing"), FINAL)
    standing_for_good = (each.filter(pc.equal(each.column("standing"), FINAL)) for each in rows)
    facts = (fact for each in standing_for_good for fact in learned_facts(each))
    return Batch(
        _tables(closed.filter(final), options),
        _tables(closed.filter(pc.invert(final)), options) | _captures(order, options),
        carry.after(order, facts, closed.select(NUMBERED_AS).to_pylist()),
        left,
    )


def _closed(made: Sequence[Any], options: Options, carry: Carry, among: Among | None = None) -> tuple[Facts, Any]:
    """(facts in items, items with all their rows as a table of CLOSED)."""
    facts = Facts([*carry.facts, *(one for batch in made for one in learned_facts(batch))])
    closer = Closer(options, facts, Numbers.of(_counts(made), carry.counts), among)
    return facts, pa.Table.from_batches(closer.close(made), CLOSED)


def _counts(made: Iterable[Any]) -> Iterator[tuple[str, int, int]]:
    for batch in made:
        columns = (batch.column(name).to_pylist() for name in ("kind", "range", "number"))
        yield from ((kind, span, 1) for kind, span, number in zip(*columns, strict=True) if number is None)


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
    return list(table.take(pa.compute.sort_indices(table, keys)).to_batches())


def unfolded(column: Any, name: str) -> Any:
    """The rows of the table `name` in a column of lists of rows, as a pyarrow table."""
    rows: Iterator[Any] = (chunk.flatten() for chunk in column.chunks)
    schema = arrow.schema(TABLES[name])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(chunk) for chunk in rows], schema)
