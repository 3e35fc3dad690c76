"""The three stages on Spark.

Segments are computed once and kept (Spark's storage, which computes again what an executor lost), because their
summaries are asked first; so are items, because of what they tell each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from captures.ports import Ports
from captures.spark.closing import CLOSED, Closer, Facts, Numbers, Told
from captures.spark.flows import ITEMS, MADE, SORTED, Options, items
from captures.spark.order import Order, Summary
from captures.spark.planning import SPLIT_SIZE, Plan, of_groups, plan
from captures.spark.reading import SEGMENTS, read
from captures.tables import arrow
from captures.tables.schema import CAPTURES, FLOWS, TABLES, USUAL

Stage = Callable[[Iterable[Any]], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Tables:
    """What was made of a reading: `frames` by table; `order` tells of its files, `whole` which one task read."""

    frames: Mapping[str, DataFrame]
    order: Order
    whole: Sequence[tuple[str, str]]
    kept: Sequence[DataFrame]

    def release(self) -> None:
        """Give back what Spark keeps of it; the frames are of no use then."""
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
) -> dict[str, DataFrame]:
    """The tables of captures (captures.tables.schema) as DataFrames, which are registered as temporary views, too.

    `paths` are files, patterns, folders of captures, or a recording's folder; every executor must see them under the
    same names. `only` names the tables, `ports` narrows to connections with one of them ("9092,19092-19095"), `size`
    is what a split has at most, in bytes; `release` and `definitions` are as for `kproxy export`. Raises CaptureError
    where a capture cannot be opened, ValueError where `ports` cannot be read.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    options = Options(tuple(only), release, tuple(definitions))
    wanted = None if ports is None else Ports.parse(ports)
    frames = dict(make(spark, given, options, size=size, ports=wanted).frames)
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return frames


def make(
    spark: SparkSession,
    paths: Sequence[Path | str],
    options: Options,
    *,
    size: int = SPLIT_SIZE,
    ports: Ports | None = None,
) -> Tables:
    """The tables of captures. Raises CaptureError where one cannot be opened."""
    given, order, whole = segments(spark, plan(paths, size), size, ports)
    parts = parallelism(spark, len(order.summaries))
    drafted = kept(
        given.where("summary is null")
        .repartition(parts, "flow_id")
        .sortWithinPartitions("flow_id", "position")
        .mapInArrow(_items(options, order), from_arrow_schema(ITEMS))
    )
    counts = [
        (row["kind"], row["range"], row["count"]) for row in drafted.groupBy("kind", "range").count().toLocalIterator()
    ]
    made = kept(
        drafted.repartition(parts, "range")
        .sortWithinPartitions(*SORTED)
        .mapInArrow(closed(options, Facts(told(drafted)), Numbers.of(counts)), from_arrow_schema(CLOSED))
    )
    frames = {name: made.select(f.inline(name)) for name in MADE if name in options.tables}
    if CAPTURES.name in options.tables:
        batch = arrow.batch(CAPTURES, list(order.captures()))
        frames[CAPTURES.name] = spark.createDataFrame(pa.Table.from_batches([batch]))
    return Tables({name: frames[name] for name in TABLES if name in frames}, order, whole, (given, drafted, made))


def lost(made: Tables) -> int:
    """Bytes that are missing between frames, as far as the table of flows was made."""
    flows = made.frames.get(FLOWS.name)
    row = None if flows is None else flows.agg(f.sum("gap_bytes")).first()
    return 0 if row is None or row[0] is None else int(row[0])


def shuffled(spark: SparkSession) -> int:
    """Bytes that all stages of a session so far have given to a shuffle."""
    context: Any = spark.sparkContext
    gateway = context._gateway  # noqa: SLF001  # Spark's Python has no other way to what Java counts
    none = gateway.new_array(gateway.jvm.double, 0)
    store = context._jsc.sc().statusStore()  # noqa: SLF001  # as above
    stages = store.stageList(gateway.jvm.java.util.ArrayList(), False, False, none, gateway.jvm.java.util.ArrayList())
    return sum(int(stages.apply(index).shuffleWriteBytes()) for index in range(stages.size()))


def segments(
    spark: SparkSession, planned: Plan, size: int, ports: Ports | None
) -> tuple[DataFrame, Order, list[tuple[str, str]]]:
    """The segments of a plan, which is mended where its splits say that it must be; what one task reads, and why."""
    whole: list[tuple[str, str]] = []
    while True:
        count = len(planned.splits)
        read = kept(
            spark.range(0, count, 1, count).mapInArrow(_read(planned.splits, ports), from_arrow_schema(SEGMENTS))
        )
        summaries = read.where("summary is not null").select("summary").collect()
        order = Order.of(planned, [Summary.of(row["summary"]) for row in summaries])
        mended = order.mended(planned)
        if mended is None:
            return read, order, whole
        read.unpersist()
        whole += order.whole(mended[0])
        planned = of_groups(mended[0], size, mended[1], planned.before)


def parallelism(spark: SparkSession, splits: int) -> int:
    """Partitions of a shuffle: as many as there were splits, but some for each core, and no more than is usual."""
    usual = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    return max(1, min(usual, max(splits, 2 * spark.sparkContext.defaultParallelism)))


def kept(frame: DataFrame) -> DataFrame:
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def _read(splits: Sequence[Any], ports: Ports | None) -> Stage:
    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from read(splits[number], ports)

    return stage


def _items(options: Options, order: Order) -> Stage:
    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        yield from items(batches, options, order)

    return stage


def closed(options: Options, facts: Facts, numbers: Numbers) -> Stage:
    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        yield from Closer(options, facts, numbers).close(batches)

    return stage


def told(drafted: DataFrame) -> Iterator[Told]:
    """What items tell: each fact from when on it was first told; where several were told of one thing, each time."""
    position = f.struct("done", "born", "nth").alias("position")
    every = drafted.select(position, f.inline("learned"))
    first = every.groupBy("fact", "about", "known").agg(f.min("position").alias("position"))
    found = [_fact(row) for row in first.toLocalIterator()]
    values: dict[tuple[str, str], int] = {}
    for fact, about, _, _ in found:
        values[fact, about] = values.get((fact, about), 0) + 1
    several = [about for (_, about), count in values.items() if count > 1]
    yield from found
    if several:
        yield from (_fact(row) for row in every.where(f.col("about").isin(several)).toLocalIterator())


def _fact(row: Any) -> Told:
    at = row["position"]
    return row["fact"], row["about"], row["known"], (at["done"], at["born"], at["nth"])
