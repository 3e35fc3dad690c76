"""Runs the three stages on Spark.

The results of stage 1 are computed once and cached in Spark's storage, because the driver reads their summaries before
the stages that follow; Spark recomputes what a lost executor held. The items of stage 2 are cached too, because the
driver first collects the facts in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kproxy.captures.ports import Ports
from kproxy.captures.spark.claims import claiming, upholding
from kproxy.captures.spark.claims.claiming import CLAIMED, PARCEL, PARCELS
from kproxy.captures.spark.claims.digest import DIGEST, Digest, Verdicts, of_states
from kproxy.captures.spark.claims.judging import judged
from kproxy.captures.spark.claims.numbering import COUNTED, Among, Counted
from kproxy.captures.spark.claims.upholding import Whole
from kproxy.captures.spark.plan.files import is_url
from kproxy.captures.spark.plan.order import Order, Summary
from kproxy.captures.spark.plan.splits import SPLIT_SIZE, Plan, Read, of_groups, plan
from kproxy.captures.spark.read.closing import Closer, Counting, Numbers
from kproxy.captures.spark.read.facts import Facts, LearnedFact, changing
from kproxy.captures.spark.read.flows import COUNTED as COUNTED_AS
from kproxy.captures.spark.read.flows import ITEMS, SORTED, Options
from kproxy.captures.spark.session.workers import Stage, mapped
from kproxy.captures.spark.write import parts
from kproxy.captures.spark.write.parts import Part
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import CAPTURES, TABLES, USUAL
from kproxy.captures.tcp.packets import Ints
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

    `order` describes the files. `whole` are (file, reason) of those that one task read from beginning to end. `health`
    counts missing bytes and unreadable packets.
    """

    names: tuple[str, ...]
    parts: Sequence[Part]
    given: Mapping[str, Sequence[Any]]
    order: Order
    whole: Sequence[tuple[str, str]]
    kept: Sequence[DataFrame]
    health: Health
    """Health of the reading: unread and untimed packets, and the number of bytes missing between frames (`lost`)."""

    def frame(self, name: str) -> DataFrame:
        """The rows of the table with this name."""
        spark = self.kept[0].sparkSession
        frames = [part.rows(name) for part in self.parts if name in part.tables]
        if name in self.given:
            frames.append(spark.createDataFrame(pa.Table.from_batches(self.given[name])))
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
) -> dict[str, DataFrame]:
    """The tables of captures (captures.tables.schema) as DataFrames, also registered as temporary views.

    `paths` are files, patterns, folders of captures, URLs of these, or the folder of a recording; every executor must
    see them under the same names. `only` names the tables to make, `ports` selects connections with one of them
    ("9092,19092-19095"), `size` is the maximum size of a split in bytes; `release`, `definitions`, `bodies` and
    `keylog` are as for `kproxy export`; only this process reads the key log. Raises CaptureError if a capture or the
    key log cannot be opened, ValueError if `ports` is malformed.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    wanted = None if ports is None else Ports.parse(ports)
    options = Options(tuple(only), release, tuple(definitions), bodies=bodies, ports=wanted)
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
    planned, given, order, whole = segments(spark, there, size, CLAIMED, _claims(options))
    count = parallelism(spark, len(order.summaries))
    sent, held = _parcels(given), [given]
    if options.undecided:
        first = kept(_judged(sent, count, options, order))
        held.append(first)
        digest = _digest(first)
        options = replace(options, facts=_facts(digest, first))
        if options.numbered:
            sent = sent.unionByName(_numbered(first, Numbers.of(digest.counted), count))
    drafted = kept(_judged(sent, count, options, order))
    held.append(drafted)
    digest = _digest(drafted)
    if digest.unproven:
        unproven = frozenset(digest.unproven)
        flows = _read(spark, planned, CLAIMED, _claims(options, unproven))
        again = kept(_judged(_parcels(flows), count, options, order))
        held.append(again)
        digest.mend(_digest(again))
        drafted = drafted.where(~f.col("flow_id").isin(*unproven)).unionByName(again)
    items = drafted.where(f.col("state").isNull())
    portions = given.where(f.col("portion").isNotNull())
    verdicts = digest.verdicts
    among = Among.of(digest.others, _counts(portions, verdicts, digest.others))
    facts, numbers = _facts(digest, items), Numbers.of(digest.counted)
    closing = max(1, min(count, sum(digest.counts.values()) // FEW))
    in_order = items.repartition(closing, "range").sortWithinPartitions(*SORTED)
    rows = [
        parts.unclosed(in_order, lambda: Closer(options, facts, numbers, among)),
        parts.claims(portions, verdicts, Whole(options, order, facts, among)),
    ]
    names = tuple(name for name in TABLES if name in options.tables)
    at_hand = {CAPTURES.name: [arrow.batch(CAPTURES, list(order.captures()))]}
    return Tables(names, rows, at_hand, order, whole, held, replace(order.health, lost=digest.lost))


def _for_executors(spark: SparkSession, given: Sequence[Path | str]) -> list[str]:
    """The names of files as executors need them.

    They are absolute, unless Spark is local: executors on a cluster have other working directories.
    """
    names = list(map(str, given))
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is not None and (context.master == "local" or context.master.startswith("local[")):
        return names
    return [name if is_url(name) else str(Path(name).absolute()) for name in names]


def _digest(judged: DataFrame) -> Digest:
    rows = judged.where(f.col("kind") == DIGEST).select("state").collect()
    return of_states(bytes(row["state"]) for row in rows)


def _facts(digest: Digest, drafted: DataFrame) -> Facts:
    found = list(digest.learned_facts)
    return Facts([*found, *_changing(found, drafted)])


def _numbered(first: DataFrame, numbers: Numbers, parts: int) -> DataFrame:
    """The numbers of items, as rows that precede the parcels of the items' flows."""

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        yield from Counting(numbers).rows(batches)

    counted = first.where(f.col("kind").isin([*COUNTED_AS])).repartition(parts, "range").sortWithinPartitions(*SORTED)
    return mapped(counted, stage, PARCELS)


def _parcels(given: DataFrame) -> DataFrame:
    return given.where(f.col("flow_id").isNotNull()).select(PARCEL)


def _judged(sent: DataFrame, parts: int, options: Options, order: Order) -> DataFrame:
    """The result of stage 2 on Spark: items and verdicts (captures.spark.read.flows.ITEMS)."""
    by_flow = sent.repartition(parts, "flow_id").sortWithinPartitions("flow_id", "position")
    return mapped(by_flow, lambda batches: judged(batches, options, order), ITEMS)


def _counts(portions: DataFrame, verdicts: Mapping[int, Verdicts], others: Ints) -> Iterator[Counted]:
    """For each portion, the positions of its confirmed claims among exchanges that began at the addresses `others`."""

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        counted = list(upholding.counts(batches, verdicts, others))
        yield pa.RecordBatch.from_pylist([dict(zip(COUNTED.names, one, strict=True)) for one in counted], COUNTED)

    for row in mapped(portions.select("portion", "claims"), stage, COUNTED).collect():
        yield row["portion"], row["count"], row["first"], bytes(row["here"])


def shuffled(spark: SparkSession) -> int:
    """Number of bytes that all stages of a session have written to shuffles so far."""
    context: Any = spark.sparkContext
    gateway = context._gateway  # noqa: SLF001  # Spark's Python has no other way to what Java counts
    none = gateway.new_array(gateway.jvm.double, 0)
    store = context._jsc.sc().statusStore()  # noqa: SLF001  # as above
    stages = store.stageList(gateway.jvm.java.util.ArrayList(), False, False, none, gateway.jvm.java.util.ArrayList())
    return sum(int(stages.apply(index).shuffleWriteBytes()) for index in range(stages.size()))


def segments(
    spark: SparkSession, planned: Plan, size: int, schema: Any, read: Read
) -> tuple[Plan, DataFrame, Order, list[tuple[str, str]]]:
    """Read the splits of a plan by `read`; returns (plan, result, order of the files, files read as a whole).

    The plan is corrected where its splits report that it must be. The result has batches of `schema`, which includes
    summaries. Files read as a whole are (name, reason).
    """
    whole = list(planned.whole)
    while True:
        found = kept(_read(spark, planned, schema, read))
        summaries = found.where(f.col("summary").isNotNull()).select("summary").collect()
        order = Order.of(planned, [Summary.of(row["summary"]) for row in summaries])
        mended = order.mended(planned)
        if mended is None:
            return planned, found, order, whole
        found.unpersist()
        whole += order.whole(mended[0])
        planned = of_groups(mended[0], size, mended[1], planned.before)


def _read(spark: SparkSession, planned: Plan, schema: Any, read: Read) -> DataFrame:
    count = len(planned.splits)
    return mapped(spark.range(0, count, 1, count), of_splits(planned, read), schema)


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


def of_splits(planned: Plan, read: Read) -> Stage:
    """A stage that reads the splits whose numbers are in the column "id" of its batches."""
    splits, capture = planned.splits, planned.capture

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from read(splits[number], capture)

    return stage


def _claims(options: Options, whole: frozenset[int] | None = None) -> Read:
    """A function that runs stage 1 with claims on a split; `whole` are flows that are sent with all their bytes."""
    return lambda split, capture: claiming.read(split, options, capture, whole)


def learned_facts(drafted: DataFrame) -> Iterator[LearnedFact]:
    """The facts in items, each with the first position at which it was known.

    If the value for a subject changes, each time that a value was learnt has an entry.
    """
    first = _tellings(drafted).groupBy("fact", "about", "known").agg(f.min("position").alias("position"))
    found = list(map(_fact, first.collect()))
    yield from found
    yield from _changing(found, drafted)


def _changing(found: Sequence[LearnedFact], drafted: DataFrame) -> Iterator[LearnedFact]:
    """The facts whose subject has several values in `found`, at all positions where they were learnt."""
    several = changing(found)
    if several:
        yield from map(_fact, _tellings(drafted).where(f.col("about").isin(several)).toLocalIterator())


def _tellings(drafted: DataFrame) -> DataFrame:
    return drafted.select(f.struct("done", "born", "nth").alias("position"), f.inline("learned"))


def _fact(row: Any) -> LearnedFact:
    at = row["position"]
    return row["fact"], row["about"], row["known"], (at["done"], at["born"], at["nth"])
