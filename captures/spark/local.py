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
from kproxy.captures.spark.follow.carry import Carry
from kproxy.captures.spark.follow.flow_states import carried, state_rows
from kproxy.captures.spark.plan.order import Order, Summary
from kproxy.captures.spark.plan.splits import SPLIT_SIZE, Plan, plan
from kproxy.captures.spark.read import events, parcels, reading
from kproxy.captures.spark.read.addressed import Addressed
from kproxy.captures.spark.read.closing import Closer, Counting, Numbers
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
    found = _tables(made.rows(MADE), options)
    if options.findings:
        batch = _folded(made.batches, Fold(options, decrypted=made.plan.decrypted), made.plan.capture)
        found[FINDINGS.name] = _findings(batch)
    return found | _captures(made.order, options)


def rows(planned: Plan, options: Options, names: Sequence[str], *, size: int = SPLIT_SIZE) -> Iterator[tuple[str, Any]]:
    """(table's name, batch of its rows) for the tables `names` of a plan, among captures.spark.read.flows.MADE.

    Stage 3 makes the rows of a batch when it is asked for.
    """
    return _drafted(planned, options, size).rows(names)


@dataclass(frozen=True, slots=True)
class _Drafted:
    """The result of stages 1 and 2 on the corrected `plan`; `batches` are those of ITEMS."""

    plan: Plan
    order: Order
    addressed: Addressed
    options: Options
    batches: list[Any]

    def rows(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """The result of stage 3, made as it is asked for."""
        closer = _closer(self.batches, self.options, Carry(), self.order, self.addressed)
        return closer.rows(_items(self.batches), names)


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
    rows, numbers = _items(made), Numbers.of(_counts(made), carry.counts)
    final, open_ = (
        _tables(_closer(made, options, carry, order).rows(rows, final=final), options) for final in (True, False)
    )
    open_ |= _captures(order, options)
    places = (place for batch in Counting(numbers).places(rows) for place in batch.to_pylist())
    facts = _learned(each.filter(pc.equal(each.column("standing"), FINAL)) for each in rows)
    if options.findings:
        final_rows = [each.filter(pc.equal(each.column("standing"), FINAL)) for each in made]
        found = _folded(made, finding_states.load(findings, options), order.capture)
        open_[FINDINGS.name] = _findings(found)
        continued = _folded(final_rows, finding_states.load(findings, options), order.capture, finding_states.dump)
        findings = continued.column("state")[0].as_py()
    return Batch(
        final,
        open_,
        carry.after(order, facts, places),
        left,
        findings,
    )


def _folded(made: Iterable[Any], fold: Fold, capture: str, leave: Callable[[Fold], bytes] | None = None) -> Any:
    """The findings (captures.spark.read.folding.FOUND), from the event rows of all flows."""
    rows = (each.filter(pc.is_valid(each.column("event"))).select(events.COLUMNS) for each in made)
    in_order = shuffled(rows, pa.schema([ITEMS.field(name) for name in events.COLUMNS]), events.ORDER)
    (batch,) = folded(in_order, fold, capture, leave)
    return batch


def _findings(found: Any) -> Any:
    """The rows of the table findings in a batch of FOUND, as a pyarrow table."""
    return pa.Table.from_struct_array(found.column(FINDINGS.name).flatten())


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


def _tables(rows: Iterable[tuple[str, Any]], options: Options) -> dict[str, Any]:
    found: dict[str, list[Any]] = {name: [] for name in MADE if name in options.tables}
    for name, batch in rows:
        found[name].append(batch)
    return {name: pa.Table.from_batches(batches, arrow.schema(TABLES[name])) for name, batches in found.items()}


def _captures(order: Order, options: Options) -> dict[str, Any]:
    if CAPTURES.name not in options.tables:
        return {}
    return {CAPTURES.name: pa.Table.from_batches([arrow.batch(CAPTURES, list(order.captures()))])}


def shuffled(batches: Iterable[Any], schema: Any, by: Sequence[str]) -> list[Any]:
    """Batches of all rows, sorted by some columns, nulls last: what a shuffle does on Spark."""
    table = pa.Table.from_batches(batches, schema)
    keys = [(name, "ascending") for name in by]
    return list(table.take(pa.compute.sort_indices(table, keys)).to_batches(max_chunksize=AT_ONCE))
