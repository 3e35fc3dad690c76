"""The three stages on Spark.

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
"""Number of items that one task closes; more are divided. A task costs as much as some hundreds of items, and writes
files of its own.
"""


@dataclass(frozen=True, slots=True)
class Tables:
    """The result of a reading: tables named `names`, whose rows come from `parts` and from batches at hand.

    `order` describes the files, `whole` those that a single task read, with the reason; `health` counts missing bytes
    and unreadable packets.
    """

    names: tuple[str, ...]
    parts: Sequence[Part]
    given: Mapping[str, Sequence[Any]]
    order: Order
    whole: Sequence[tuple[str, str]]
    kept: Sequence[DataFrame]
    health: Health
    """Number of bytes missing between frames; known once the table of flows has been made."""

    def frame(self, name: str) -> DataFrame:
        """The rows of a table."""
        spark = self.kept[0].sparkSession
        frames = [part.rows(name) for part in self.parts if name in part.tables]
        if name in self.given:
            frames.append(spark.createDataFrame(pa.Table.from_batches(self.given[name])))
        return reduce(DataFrame.union, frames)

    def release(self) -> None:
        """Release what Spark caches for this result; its frames cannot be used afterwards."""
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
    """The tables of captures. Raises CaptureError if one cannot be opened."""
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
    """The names of files as executors need them: absolute, because executors on a cluster have other working
    directories.
    """
    names = list(map(str, given))
    context = getattr(spark, "sparkContext", None)  # not by Spark Connect
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
    """The numbers of items as rows that precede the parcels of their flows."""

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        yield from Counting(numbers).rows(batches)

    counted = first.where(f.col("kind").isin([*COUNTED_AS])).repartition(parts, "range").sortWithinPartitions(*SORTED)
    return mapped(counted, stage, PARCELS)


def _parcels(given: DataFrame) -> DataFrame:
    return given.where(f.col("flow_id").isNotNull()).select(PARCEL)


def _judged(sent: DataFrame, parts: int, options: Options, order: Order) -> DataFrame:
    """The items and verdicts of stage 2."""
    by_flow = sent.repartition(parts, "flow_id").sortWithinPartitions("flow_id", "position")
    return mapped(by_flow, lambda batches: judged(batches, options, order), ITEMS)


def _counts(portions: DataFrame, verdicts: Mapping[int, Verdicts], others: Ints) -> Iterator[Counted]:
    """The positions of confirmed claims among other exchanges."""

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        counted = list(upholding.counts(batches, verdicts, others))
        yield pa.RecordBatch.from_pylist([dict(zip(COUNTED.names, one, strict=True)) for one in counted], COUNTED)

    for row in mapped(portions.select("portion", "claims"), stage, COUNTED).collect():
        yield row["portion"], row["count"], row["first"], bytes(row["here"])


def shuffled(spark: SparkSession) -> int:
    """Bytes that all stages of a session have written to shuffles so far."""
    context: Any = spark.sparkContext
    gateway = context._gateway  # noqa: SLF001  # Spark's Python has no other way to what Java counts
    none = gateway.new_array(gateway.jvm.double, 0)
    store = context._jsc.sc().statusStore()  # noqa: SLF001  # as above
    stages = store.stageList(gateway.jvm.java.util.ArrayList(), False, False, none, gateway.jvm.java.util.ArrayList())
    return sum(int(stages.apply(index).shuffleWriteBytes()) for index in range(stages.size()))


def segments(
    spark: SparkSession, planned: Plan, size: int, schema: Any, read: Read
) -> tuple[Plan, DataFrame, Order, list[tuple[str, str]]]:
    """The result of reading the splits of a plan: batches of a schema that has summaries.

    Returned with the plan, corrected where its splits report that it must be, and the files that one task reads as a
    whole, with reasons.
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
    """Number of partitions of a shuffle: as many as there were splits, at least a few for each core, at most Spark's
    usual number.
    """
    usual = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    return max(1, min(usual, max(splits, 2 * _cores(spark))))


def _cores(spark: SparkSession) -> int:
    context = getattr(spark, "sparkContext", None)
    if context is None:  # by Spark Connect; as many parts are made of what has none
        return spark.range(1 << 20).select(f.spark_partition_id()).distinct().count()
    return int(context.defaultParallelism)


def kept(frame: DataFrame) -> DataFrame:
    # Not serialised: rows are few and their columns packed; what does not fit into memory goes to disk.
    return frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)


def of_splits(planned: Plan, read: Read) -> Stage:
    """The stage that reads the splits whose numbers it receives."""
    splits, capture = planned.splits, planned.capture

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from read(splits[number], capture)

    return stage


def _claims(options: Options, whole: frozenset[int] | None = None) -> Read:
    """Stage 1 (captures.spark.claims.claiming.read)."""
    return lambda split, capture: claiming.read(split, options, capture, whole)


def learned_facts(drafted: DataFrame) -> Iterator[LearnedFact]:
    """The facts in items, each with the first position at which it was known; if several values are known of one thing,
    each change.
    """
    first = _tellings(drafted).groupBy("fact", "about", "known").agg(f.min("position").alias("position"))
    found = list(map(_fact, first.collect()))
    yield from found
    yield from _changing(found, drafted)


def _changing(found: Sequence[LearnedFact], drafted: DataFrame) -> Iterator[LearnedFact]:
    """All positions of those facts, among the found ones, of which several values are known."""
    several = changing(found)
    if several:
        yield from map(_fact, _tellings(drafted).where(f.col("about").isin(several)).toLocalIterator())


def _tellings(drafted: DataFrame) -> DataFrame:
    return drafted.select(f.struct("done", "born", "nth").alias("position"), f.inline("learned"))


def _fact(row: Any) -> LearnedFact:
    at = row["position"]
    return row["fact"], row["about"], row["known"], (at["done"], at["born"], at["nth"])
