"""Runs the three stages on Spark.

The results of stage 1 are computed once and cached in Spark's storage, because the driver reads their summaries before
the stages that follow; Spark recomputes what a lost executor held. The items of stage 2 are cached too, because the
driver first collects their digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kproxy.captures.ports import Ports
from kproxy.captures.spark.plan.files import is_url
from kproxy.captures.spark.plan.order import Order, Summary
from kproxy.captures.spark.plan.splits import SPLIT_SIZE, Plan, plan
from kproxy.captures.spark.read import events, parcels, reading
from kproxy.captures.spark.read.addressed import Addressed
from kproxy.captures.spark.read.bundles import BUNDLE, BUNDLES, bundled, unbundled
from kproxy.captures.spark.read.closing import Closer, Counting, Numbers
from kproxy.captures.spark.read.digest import DIGEST, Digest
from kproxy.captures.spark.read.facts import Facts, LearnedFact, changing
from kproxy.captures.spark.read.flows import Options, items
from kproxy.captures.spark.read.folding import FOUND, Fold, folded
from kproxy.captures.spark.read.packing import PARCELS
from kproxy.captures.spark.session import uncompiled
from kproxy.captures.spark.session.workers import Stage, mapped
from kproxy.captures.spark.write import parts
from kproxy.captures.spark.write.parts import Part
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import CAPTURES, TABLES, USUAL
from kproxy.captures.tls.keylog import Secrets
from kproxy.captures.tls.keylog import read as read_secrets
from kproxy.decoders.exchange import Health

FEW: Final = 4096
"""Maximum number of items that one task closes.

A task costs as much as some hundreds of items, and writes files of its own.
"""


@dataclass(frozen=True, slots=True)
class Tables:
    """The result of a reading: the tables `names`, whose rows are in `parts` and in the Arrow batches `given`.

    `files` are the captures; `order` describes them. `whole` are (file, reason) of those that one task read from
    beginning to end. `health` counts missing bytes and unreadable packets.
    """

    names: tuple[str, ...]
    parts: Sequence[Part]
    given: Mapping[str, Sequence[Any]]
    order: Order
    whole: Sequence[tuple[str, str]]
    kept: Sequence[DataFrame]
    health: Health
    """Health of the reading: unread and untimed packets, and the number of bytes missing between frames (`lost`)."""
    files: tuple[str, ...]

    @property
    def spark(self) -> SparkSession:
        return self.kept[0].sparkSession

    def frame(self, name: str) -> DataFrame:
        """The rows of the table with this name."""
        frames = [part.rows(name) for part in self.parts if name in part.tables]
        if name in self.given:
            frames.append(self.spark.createDataFrame(pa.Table.from_batches(self.given[name])))
        return reduce(DataFrame.union, frames)

    def release(self) -> None:
        """Unpersist the DataFrames that Spark caches for this result; they cannot be used afterwards."""
        for frame in self.kept:
            frame.unpersist()


def tables(
    spark: SparkSession,
    paths: Sequence[Path | str] | Path | str,
    *,
    only: Sequence[str] = USUAL,
    ports: str | None = None,
    size: int = SPLIT_SIZE,
    release: str | None = None,
    definitions: Sequence[str] = (),
    bodies: bool = True,
    keylog: Path | str | None = None,
    record_sizes: bool = False,
) -> dict[str, DataFrame]:
    """The tables of captures (captures.tables.schema) as DataFrames, also registered as temporary views.

    `paths` are files, patterns, folders of captures, URLs of these, or the folder of a recording; every executor must
    see them under the same names. `only` names the tables to make, `ports` selects connections with one of them
    ("9092,19092-19095"), `size` is the maximum size of a split in bytes; `release`, `definitions`, `bodies`, `keylog`
    and `record_sizes` are as for `kproxy export`; only this process reads the key log. Raises CaptureError if a capture
    or the key log cannot be opened, ValueError if `ports` is malformed or `record_sizes` is wanted without `bodies`.
    """
    if record_sizes and not bodies:
        raise ValueError("record_sizes needs bodies: records are in them")
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    wanted = None if ports is None else Ports.parse(ports)
    options = Options(tuple(only), release, tuple(definitions), bodies=bodies, ports=wanted, record_sizes=record_sizes)
    secrets = None if keylog is None else read_secrets(Path(keylog))
    made = make(spark, given, options, size=size, secrets=secrets)
    frames = {name: made.frame(name) for name in made.names}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return frames


def make(
    spark: SparkSession,
    paths: Sequence[Path | str],
    options: Options,
    *,
    size: int = SPLIT_SIZE,
    secrets: Secrets | None = None,
) -> Tables:
    """Make the tables of captures in splits of at most `size` bytes; TLS is decrypted with `secrets`.

    Raises CaptureError if a capture cannot be opened.
    """
    there = plan(_for_executors(spark, paths), size, secrets=secrets)
    planned, sent, order = segments(spark, there, size, options.ports)
    addressed = Addressed.of(planned)
    count = parallelism(spark, len(order.summaries))
    held, stage = [sent], _items(options, order, addressed)
    if options.undecided:
        first = drafted(sent, count, stage)
        held.append(first)
        digest = digest_of(first)
        options = replace(options, facts=Facts(learned(digest, first)))
        if options.numbered:
            sent = sent.unionByName(_numbered(first, Numbers.of(digest.counted), count))
        stage = _items(options, order, addressed)
    made = drafted(sent, count, stage)
    held.append(made)
    digest = digest_of(made)
    facts, numbers = Facts(learned(digest, made)), Numbers.of(digest.counted)
    closing = max(1, min(count, sum(digest.counts.values()) // FEW))
    borders = evenly(digest, closing)
    in_order = bundles(made).repartitionById(len(borders) + 1, _part(borders)).sortWithinPartitions("range")
    names = tuple(name for name in TABLES if name in options.tables)
    at_hand = {CAPTURES.name: [arrow.batch(CAPTURES, list(order.captures()))]}
    rows = [parts.unclosed(in_order, lambda: Closer(options, facts, numbers, order, addressed))]
    if options.findings:
        held.append(_found(made, options, order.capture, decrypted=there.decrypted))
        rows.append(parts.findings(held[-1]))
    health, files = replace(order.health, lost=digest.lost), tuple(path for group in there.groups for path in group)
    return Tables(names, rows, at_hand, order, planned.whole, held, health, files)


def _found(drafted: DataFrame, options: Options, capture: str, *, decrypted: bool) -> DataFrame:
    """The findings (captures.spark.read.folding.FOUND) of a whole reading."""
    return in_one_task(drafted, lambda rows: folded(rows, Fold(options, decrypted=decrypted), capture))


def in_one_task(drafted: DataFrame, fold: Stage) -> DataFrame:
    """The result of `fold`, a batch of FOUND. One task gets the event rows of all flows, which it sorts on disk."""
    rows = drafted.where(f.col("event").isNotNull()).select(*events.COLUMNS)
    return kept(mapped(rows.repartition(1).sortWithinPartitions(*events.ORDER), fold, FOUND))


def _for_executors(spark: SparkSession, given: Sequence[Path | str]) -> list[str]:
    """The names of files as executors need them.

    They are absolute, unless Spark is local: executors on a cluster have other working directories.
    """
    names = list(map(str, given))
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is not None and (context.master == "local" or context.master.startswith("local[")):
        return names
    return [name if is_url(name) else str(Path(name).absolute()) for name in names]


def _items(options: Options, order: Order, addressed: Addressed) -> Stage:
    return lambda batches: items(batches, options, order, addressed)


def drafted(sent: DataFrame, parts: int, stage: Stage) -> DataFrame:
    """The result of stage 2 on the parcels of flows: items in bundles (captures.spark.read.bundles.BUNDLES)."""
    by_flow = sent.where("flow_id is not null").repartition(parts, "flow_id")
    in_order = by_flow.sortWithinPartitions("flow_id", "position")
    return kept(mapped(in_order, lambda batches: bundled(stage(batches)), BUNDLES))


def digest_of(drafted: DataFrame) -> Digest:
    """The digest of all items."""
    return Digest.of(bytes(row["state"]) for row in drafted.where(f.col("kind") == DIGEST).select("state").collect())


def bundles(drafted: DataFrame) -> DataFrame:
    """The bundles of items in the result of stage 2, with the columns that stage 3 needs."""
    return drafted.where(f.col("kind") == BUNDLE).select("range", "items")


def evenly(digest: Digest, parts: int) -> list[int]:
    """Divide the ranges of items into at most `parts` parts; returns the first range of each part but the first.

    The ranges of a part are adjacent, so that a task reads one stretch of the capture.
    """
    counts: dict[int, int] = {}
    for (_, span), count in digest.counts.items():
        counts[span] = counts.get(span, 0) + count
    least, held = sum(counts.values()) / parts, 0
    borders: list[int] = []
    for span in sorted(counts):
        if held >= least * (len(borders) + 1):
            borders.append(span)
        held += counts[span]
    return borders


def _part(borders: Sequence[int]) -> Column:
    """The index of the part in which the `range` of an item lies."""

    def within(low: int, high: int) -> Column:
        if low == high:
            return f.lit(low)
        middle = (low + high) // 2
        return f.when(f.col("range") < borders[middle], within(low, middle)).otherwise(within(middle + 1, high))

    return within(0, len(borders))


def learned(digest: Digest, drafted: DataFrame, *, final: bool = True) -> list[LearnedFact]:
    """The facts in final items, or in all others, each with the first position at which it was known.

    If the value for a subject changes, there is an entry for each position at which a value was learnt.
    """
    found = list(digest.learned(final=final))
    several = changing(found)
    if several:
        facts = drafted.select(f.inline("learned")).where(f.col("final") == f.lit(final))
        found += map(_fact, facts.where(f.col("about").isin(several)).toLocalIterator())
    return found


def _numbered(first: DataFrame, numbers: Numbers, parts: int) -> DataFrame:
    """The numbers of items, as rows that precede the parcels of the items' flows."""
    counted = bundles(first).repartition(parts, "range").sortWithinPartitions("range")
    return mapped(counted, lambda batches: Counting(numbers).rows(unbundled(batches)), PARCELS)


def shuffled(spark: SparkSession) -> int:
    """Number of bytes that all stages of a session have written for shuffles so far."""
    context: Any = spark.sparkContext
    gateway = context._gateway  # noqa: SLF001  # Spark's Python has no other way to what Java counts
    none = gateway.new_array(gateway.jvm.double, 0)
    store = context._jsc.sc().statusStore()  # noqa: SLF001  # as above
    stages = store.stageList(gateway.jvm.java.util.ArrayList(), False, False, none, gateway.jvm.java.util.ArrayList())
    return sum(int(stages.apply(index).shuffleWriteBytes()) for index in range(stages.size()))


def segments(
    spark: SparkSession, planned: Plan, size: int, wanted: Ports | None, *, payload: bool = False
) -> tuple[Plan, DataFrame, Order]:
    """Read the splits of a plan; returns (corrected plan, parcels, summaries of all splits as an Order).

    A split reports if the plan is wrong, and the corrected plan is then read. Parcels
    (captures.spark.read.packing.PARCELS) are those of connections with a port in `wanted` (None: all); `payload` is as
    in captures.spark.read.parcels. Warns if workers lack kproxy's compiled modules.
    """
    summaries: list[Summary] = []
    while True:
        if planned.overlaps and not payload:
            order = Order.surveyed(planned, _surveyed(spark, planned), summaries)
            planned = order.mended(planned, size, surveyed=True) or replace(planned, overlaps=False)
        count = len(planned.splits)
        found = kept(mapped(spark.range(0, count, 1, count), of_splits(planned, wanted, payload=payload), PARCELS))
        summaries = _summaries(found)
        order = Order.of(planned, summaries)
        mended = order.mended(planned, size, slices=not payload)
        if mended is None:
            if not order.compiled:
                uncompiled.warn()
            return planned, found, order
        found.unpersist()
        planned = mended


def _surveyed(spark: SparkSession, planned: Plan) -> list[Summary]:
    """The summaries that a survey makes of a plan's splits (captures.spark.read.reading.surveyed)."""
    splits, count = planned.splits, len(planned.splits)

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from map(reading.summary_row, reading.surveyed(splits[number]))

    return _summaries(mapped(spark.range(0, count, 1, count), stage, reading.SEGMENTS))


def _summaries(rows: DataFrame) -> list[Summary]:
    return [Summary.of(row["summary"]) for row in rows.where(f.col("summary").isNotNull()).select("summary").collect()]


def parallelism(spark: SparkSession, splits: int) -> int:
    """Number of partitions for a shuffle: the number of splits, but at least two for each core and at most Spark's
    setting.
    """
    usual = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    return max(1, min(usual, max(splits, 2 * _cores(spark))))


def _cores(spark: SparkSession) -> int:
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect: a range has as many partitions as there are cores
        return spark.range(1 << 20).select(f.spark_partition_id()).distinct().count()
    return int(context.defaultParallelism)


def kept(frame: DataFrame) -> DataFrame:
    # Not serialised, because there are few rows with packed columns; rows that do not fit into memory go to disk.
    return frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)


def of_splits(planned: Plan, wanted: Ports | None, *, payload: bool) -> Stage:
    """A stage that reads the splits whose numbers are in the column "id" of its batches."""
    splits = planned.splits

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from parcels.read(splits[number], wanted, payload=payload)

    return stage


def _fact(row: Any) -> LearnedFact:
    return row["fact"], row["about"], row["known"], (row["done"], row["born"], row["nth"])
