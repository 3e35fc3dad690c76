"""Makes a batch of a stream on Spark: its rows, and the state for the next batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kproxy.captures.errors import CaptureError
from kproxy.captures.spark import job
from kproxy.captures.spark.follow.carry import Carry
from kproxy.captures.spark.follow.finding_states import dump, load
from kproxy.captures.spark.follow.flow_states import STATE_KIND, carried
from kproxy.captures.spark.follow.state import StateError
from kproxy.captures.spark.plan.order import Order, Summary
from kproxy.captures.spark.plan.splits import WIDE, plan
from kproxy.captures.spark.read.bundles import unbundled
from kproxy.captures.spark.read.closing import PLACES, Closer, Counting, Numbers
from kproxy.captures.spark.read.facts import Facts
from kproxy.captures.spark.read.flows import FINAL, Options
from kproxy.captures.spark.read.folding import Fold, folded
from kproxy.captures.spark.read.packing import PARCELS, STATE
from kproxy.captures.spark.session.workers import Stage, mapped
from kproxy.captures.spark.write import parts
from kproxy.captures.spark.write.parts import Part
from kproxy.captures.tables import arrow
from kproxy.captures.tables.rows import Row
from kproxy.captures.tables.schema import ANOMALIES, CAPTURES

LOST = "lost_file"
LATE = "late_file"
"""Values of the column `kind` in the table anomalies: a file that was deleted, and one that arrived too late."""
GONE = "it was deleted before it was read"
_STATES = ("flow_id", "state")


@dataclass(frozen=True, slots=True)
class File:
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of a batch: rows, and the state for the next batch (`carry` and the DataFrame `states`).

    `final` are final rows; `open` and `given` are rows that are valid until the next batch, which replaces them. The
    rows of the table findings are among `open`, because a finding changes as the capture goes on.
    `given` holds Arrow batches by table. `kept` are the DataFrames that Spark caches. `errors` are the reasons why
    files of the batch could not be read to their ends.
    """

    final: Part
    open: Sequence[Part]
    given: Mapping[str, Sequence[Any]]
    carry: Carry
    states: DataFrame
    kept: Sequence[DataFrame]
    errors: Sequence[CaptureError]

    def release(self) -> None:
        """Unpersist the DataFrames that Spark caches for this batch."""
        for frame in self.kept:
            frame.unpersist()


def make(
    spark: SparkSession,
    files: Sequence[File],
    options: Options,
    carry: Carry,
    states: DataFrame | None,
    *,
    size: int,
) -> Batch:
    """Make the batch of these files; `carry` and `states` (columns flow_id, state) are what the batch before it left.

    The row of `states` without a flow_id is the state of findings. Missing files are left out and reported. Splits have
    at most `size` bytes. Raises CaptureError if another file cannot be opened.
    """
    there = [one for one in files if Path(one.path).exists()]
    gone = [_lost(one, carry.groups + number) for number, one in enumerate(one for one in files if one not in there)]
    before = carry.groups + len(gone)
    if there:
        planned = plan([one.path for one in there], size, before)
        _, sent, order = job.segments(spark, planned, size, options.ports, payload=True)
    else:
        sent, order = spark.createDataFrame([], from_arrow_schema(PARCELS)), Order(carry.capture or "", ())
    of_batch = Order(order.capture, (*gone, *order.summaries))
    order = carry.order(of_batch)
    count = job.parallelism(spark, len(order.summaries) - len(carry.summaries))
    with_states = sent if states is None else sent.unionByName(_as_parcels(states))
    drafted = job.drafted(with_states, count, _carried(options, order, carry))
    digest = job.digest_of(drafted)
    numbers = Numbers.of(digest.counted, carry.counts)
    for_good = job.learned(digest, drafted)
    facts = Facts([*carry.facts, *for_good, *job.learned(digest, drafted, final=False)])
    in_order = job.kept(job.bundles(drafted).repartition(count, "range").sortWithinPartitions("range"))
    places = mapped(in_order, lambda rows: Counting(numbers).places(unbundled(rows)), PLACES)
    counted = (row.asDict() for row in places.where("kind != 'problem'").toLocalIterator())
    after = carry.after(order, for_good, counted)
    left = drafted.where(f.col("kind") == STATE_KIND).select(*_STATES)
    final, presumed = (
        parts.unclosed(in_order, lambda: Closer(options, facts, numbers, order), final=final) for final in (True, False)
    )
    open_, kept = [presumed], [sent, drafted, in_order]
    if options.findings:
        found, continued = _found(drafted, options, order.capture, states)
        open_.append(parts.findings(found))
        kept += {found, continued}
        left = left.unionByName(continued.select(f.lit(None).cast("bigint").alias("flow_id"), "state"))
    return Batch(
        final, open_, _of_files(after, order), after, left, kept,
        of_batch.errors,
    )  # fmt: skip


def _found(drafted: DataFrame, options: Options, capture: str, states: DataFrame | None) -> tuple[DataFrame, DataFrame]:
    """(findings if the capture ends here, state of findings for the next batch), both of the schema FOUND.

    They are one batch, unless an item that only the end of the capture completes precedes others in the order of
    events.
    """
    state = _state(states)

    def fold(events: DataFrame, leave: Callable[[Fold], bytes] | None) -> DataFrame:
        def stage(rows: Iterable[Any]) -> Iterator[Any]:
            return folded(rows, load(state, options), capture, leave)

        if events.isEmpty():  # Spark may start no task for no rows
            return drafted.sparkSession.createDataFrame(pa.Table.from_batches(stage(())))
        return job.in_one_task(events, stage)

    events, final = drafted.where(f.col("event").isNotNull()), f.col("standing") == FINAL
    if events.where(~final & (f.col("ended") == 0)).isEmpty():
        found = fold(events, dump)
        return found, found
    return fold(events, None), fold(events.where(final), dump)


def _state(states: DataFrame | None) -> bytes | None:
    """The state of findings among `states`; None before the first batch. Raises StateError if it is missing."""
    if states is None:
        return None
    row = states.where("flow_id is null").first()
    if row is None:
        raise StateError("of the findings is missing")
    return bytes(row["state"])


def _lost(file: File, group: int) -> Summary:
    base = group * WIDE
    return Summary(0, group, file.path, base, max(file.size, 1), base, base, base, errors=[(file.path, GONE, None)])


def _as_parcels(states: DataFrame) -> DataFrame:
    given = {"flow_id": f.col("flow_id"), "position": f.lit(STATE), "data": f.col("state")}
    schema = from_arrow_schema(PARCELS)
    return states.select(*(given.get(one.name, f.lit(None)).cast(one.dataType).alias(one.name) for one in schema))


def _carried(options: Options, order: Order, carry: Carry) -> Stage:
    numbers = carry.numbers

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        yield from carried(batches, options, order, numbers)

    return stage


def _of_files(carry: Carry, order: Order) -> dict[str, list[Any]]:
    """Rows of the tables captures and anomalies that describe files, by table."""
    rows_of_files = ((CAPTURES, list(order.captures())), (ANOMALIES, list(_anomalies(carry, order))))
    return {table.name: [arrow.batch(table, rows)] for table, rows in rows_of_files}


def _anomalies(carry: Carry, order: Order) -> Iterator[Row]:
    clock = 0
    for one in order.files:
        if any(why == GONE for _, why, _ in one.errors):
            yield _anomaly(order.capture, clock, LOST, one.size, f"{one.name}: {GONE}")
        clock = max(clock, one.clock)
    for path, first in carry.late:
        detail = f"{path}: arrived after captures that begin later, so it was read as a capture of its own"
        yield _anomaly(order.capture, first, LATE, None, detail)


def _anomaly(reading: str, time: int, kind: str, size: int | None, detail: str) -> Row:
    given = {"source_id": reading, "ts_ns": time, "kind": kind, "size": size, "path": "", "detail": detail}
    return tuple(given.get(column.name) for column in ANOMALIES.given)
