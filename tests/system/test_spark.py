"""The Spark pipeline on Spark: what the export writes, whatever becomes of executors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan
from pyspark.sql.types import StructType

from kproxy.captures.errors import CaptureError
from kproxy.captures.spark import job
from kproxy.captures.spark import tables as spark_tables
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.source import KafkaCapture
from kproxy.captures.spark.write.parquet import write
from kproxy.captures.tables.schema import USUAL
from kproxy.decoders.filters import parse
from tests.captures import traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported, written
from tests.captures.spark.test_files import moved
from tests.captures.tables import again
from tests.captures.tables.by_spark import InSession
from tests.captures.tls.test_decrypting import captured, conversation, spoken
from tests.captures.tls.wire import Wire
from tests.support.certificates import TestCa
from tests.support.multiply import deal, multiply
from tests.support.objects import as_somebody, serving
from tests.support.require import require
from tests.support.spark import kproxy, local_session

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]
ROOT = Path(__file__).parents[2]
GOLDEN = traffic.DATA / "golden" / "golden-4.4.0.pcap"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with as_somebody(), local_session(tmp_path_factory.mktemp("java")) as running:
        yield running


def collected(frames: dict[str, Any]) -> Rows:
    return {name: counted(frame.toArrow().to_pylist()) for name, frame in frames.items()}


@pytest.mark.parametrize("capture", [traffic.LIBRDKAFKA, traffic.KAFKA_1_1, GOLDEN], ids=lambda path: path.stem)
def test_every_row_is_that_of_an_export(spark: Any, capture: Path) -> None:
    frames = spark_tables(spark, capture, only=tuple(TABLES), size=1 << 16)
    assert_same(collected(frames), exported([capture]))
    views = spark.sql("select count(*) from exchanges join flows using (flow_id, conn_epoch)").first()[0]
    assert views == frames["exchanges"].count() > 100


def test_sizes_of_records(spark: Any) -> None:
    """With Spark's three stages, and in a view of the data source."""
    expected = exported([traffic.KAFKA_0_8], "--record-sizes")
    assert any(dict(row)["value_bytes"] for row in expected["record_batches"])
    frames = spark_tables(spark, traffic.KAFKA_0_8, only=tuple(TABLES), size=1 << 16, record_sizes=True)
    assert_same(collected(frames), expected)
    options = {"view": "record_batches", "recordSizes": "true"}
    view = spark.read.format("kafka_capture").options(**options).load(str(traffic.KAFKA_0_8))
    assert_same(collected({"record_batches": view}), {"record_batches": expected["record_batches"]})
    for wrong in ({"recordSizes": "true"}, {**options, "view": "exchanges", "bodies": "false"}):
        with pytest.raises(Exception, match="recordSizes fills columns of views that need bodies"):
            spark.read.format("kafka_capture").options(**wrong).load(str(traffic.KAFKA_0_8)).count()


def test_captures_of_one_time_are_read_in_slices(spark: Any, tmp_path: Path) -> None:
    paths = [tmp_path / f"broker{number}.pcap" for number in range(3)]
    deal(traffic.BENCH, 1, paths)
    made = job.make(spark, paths, Options(tuple(TABLES)), size=1 << 20)
    assert not made.whole
    assert len(made.order.summaries) > 5
    assert_same(collected({name: made.frame(name) for name in TABLES}), exported(paths))
    made.release()


def test_files_that_an_export_wrote_are_replaced_or_refused(tmp_path: Path) -> None:
    """With Spark as in one process, and whichever of them wrote before."""
    require("java")
    a, b, c = traffic.LIBRDKAFKA, traffic.KAFKA_1_1, traffic.KAFKA_0_8
    out, few = tmp_path / "out", ("exchanges", "flows")
    options = ("--out", out, "--tables", ",".join(few), "--engine", "spark", "--master", "local[1]")
    assert kproxy("export", a, b, "--format", "parquet", "-o", out, "--tables", ",".join(few)).returncode == 0
    refused = kproxy("spark", a, *options)
    assert (refused.returncode, f"read together with {b}" in refused.stderr) == (2, True), refused.stderr
    assert_same(written(out, few), exported([a, b], tables=few))
    replaced = kproxy("spark", b, c, a, *options)
    assert replaced.returncode == 0, replaced.stderr
    assert_same(written(out, few), exported([a, b, c], tables=few))
    refused = kproxy("export", c, "--format", "parquet", "-o", out)
    assert refused.returncode == 2, refused.stderr


def test_a_session_in_another_time_zone(spark: Any, tmp_path: Path) -> None:
    """As where sessions are made by others; what passes between stages has its times in it."""
    few = ("exchanges", "exchange_topics")
    expected = exported([traffic.KAFKA_1_1], tables=few)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        made = job.make(spark, [traffic.KAFKA_1_1], Options(few), size=1 << 16)
        assert_same(collected({name: made.frame(name) for name in few}), expected)
        write(made, tmp_path)
        made.release()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert_same(written(tmp_path, few), expected)


def test_the_same_frames_at_the_same_times_as_tshark(spark: Any, tmp_path: Path) -> None:
    """Requests and responses of a capture that tshark decodes: their bytes, and to the microsecond when they ended."""
    require("tshark")
    path = tmp_path / "a.pcap"
    multiply(traffic.BENCH, 1, path)
    names = ("tcp.srcport", "tcp.dstport", "frame.time_epoch", "kafka.api_key", "kafka.correlation_id", "kafka.len")
    lines = subprocess.run(
        ["tshark", "-r", str(path), "-d", "tcp.port==19092,kafka", "-Y", "kafka", "-T", "fields",
         *(part for name in names for part in ("-e", name))],
        check=True, capture_output=True, text=True, timeout=280,
    ).stdout.splitlines()  # fmt: skip
    theirs: Counter[tuple[int, ...]] = Counter()
    for line in lines:
        source, destination, time, *frames = line.split("\t")
        side = int(source == "19092")
        client = int((source, destination)[side])
        micros = int(Decimal(time) * 1_000_000)
        for key, correlation, size in zip(*(map(int, each.split(",")) for each in frames), strict=True):
            theirs[side, client, key, correlation, size + 4, micros] += 1
    made = job.make(spark, [path], Options(("exchanges",)), size=1 << 20)
    rows = made.frame("exchanges").toArrow().to_pylist()
    made.release()
    ours = Counter(
        (side, row["client_port"], row["api_key"], row["correlation_id"], row[size], row[time] // 1000)
        for row in rows
        for side, size, time in ((0, "request_bytes", "req_last_ts_ns"), (1, "response_bytes", "rsp_last_ts_ns"))
        if row[size] is not None
    )
    assert ours == theirs
    assert ours.total() > 6000
    answered = [row for row in rows if row["latency_us"] is not None]
    assert len(answered) > 3000
    assert all(row["latency_us"] == (row["rsp_last_ts_ns"] - row["req_last_ts_ns"]) // 1000 for row in answered)


@pytest.mark.parametrize("text", ["topic == adm-t or broker == 2", "exchange > 40 and connection > 3"])
def test_filters_that_ask_other_connections(spark: Any, text: str) -> None:
    made = job.make(spark, [traffic.KAFKA_1_1], Options(tuple(TABLES), filter=parse(text).expression), size=1 << 16)
    expected = exported([traffic.KAFKA_1_1], "-Y", text)
    assert 0 < expected["exchanges"].total() < 240
    assert_same(collected({name: made.frame(name) for name in TABLES}), expected)
    made.release()


def test_the_data_source_is_found_by_its_name(spark: Any, tmp_path: Path) -> None:
    reader = spark.read.format("kafka_capture")
    assert "summary" not in reader.load(str(traffic.LIBRDKAFKA)).columns
    segments = reader.option("splitSize", 1 << 16).option("summaries", "true").load(str(traffic.LIBRDKAFKA))
    packets = next(iter(exported([traffic.LIBRDKAFKA], tables=["captures"])["captures"]))
    assert segments.where("summary is null").count() == dict(packets)["packets"]
    assert segments.where("summary is not null").count() > 2
    assert "payload" not in spark.read.format("kafka_capture").option("payloads", "false").load("a").columns
    both = spark.read.format("kafka_capture").option("view", "exchanges").load(
        [str(traffic.LIBRDKAFKA), str(traffic.KAFKA_1_1)]
    )  # fmt: skip
    expected = sum(len(exported([one])["exchanges"]) for one in (traffic.LIBRDKAFKA, traffic.KAFKA_1_1))
    assert both.count() == expected
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(traffic.LIBRDKAFKA.read_bytes()[:-5])
    row = spark.read.format("kafka_capture").option("view", "captures").load(str(cut)).first()
    assert (row["path"], row["truncated"]) == (str(cut), True)
    for option, text in (("views", "no option 'views'"), ("view", "no view 'x'")):
        with pytest.raises(Exception, match=text):
            spark.read.format("kafka_capture").option(option, "x").load(str(cut)).count()
    with pytest.raises(Exception, match="No such file"):
        spark.read.format("kafka_capture").load(str(tmp_path / "none.pcap")).count()


def handed_over(reader: Any) -> list[int]:
    """The number of rows that each task of a reader of the data source hands to Spark."""
    return [sum(batch.num_rows for batch in reader.read(part)) for part in reader.partitions()]


@pytest.mark.parametrize(
    ("column", "values"),
    [("api_name", ["Fetch"]), ("api_name", ["Produce", "Metadata"]), ("client_id", None), ("client_port", None)],
)
def test_filters_that_are_pushed_into_the_data_source(spark: Any, column: str, values: list[Any] | None) -> None:
    """The rows are those of a whole reading, and the task hands over no others."""
    whole = exported([traffic.KAFKA_1_1], tables=["exchanges"])["exchanges"]
    if values is None:
        values = [next(value for row in whole if (value := dict(row)[column]))]
    expected = Counter({row: count for row, count in whole.items() if dict(row)[column] in values})
    assert 0 < expected.total() < whole.total()
    options = {"view": "exchanges", "pushdown": "true"}
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        read = spark.read.format("kafka_capture").options(**options).load(str(traffic.KAFKA_1_1))
        assert_same({"exchanges": counted(read.where(read[column].isin(values)).toArrow().to_pylist())},
                    {"exchanges": expected})  # fmt: skip
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    asked = EqualTo((column,), values[0]) if len(values) == 1 else In((column,), tuple(values))
    reader = KafkaCapture({**options, "path": str(traffic.KAFKA_1_1)}).reader(StructType())
    assert list(reader.pushFilters([asked])) == [asked]
    given = sum(handed_over(reader))
    assert given == expected.total(), "rows that the task hands over"


def test_segments_of_a_time_are_selected_in_their_splits(spark: Any) -> None:
    path = str(traffic.LIBRDKAFKA)
    source = spark.read.format("kafka_capture").option("splitSize", 1 << 16)
    times = sorted(row["ts_ns"] for row in source.option("columns", "ts_ns").load(path).collect())
    low, high = times[len(times) // 3], times[len(times) // 2]
    expected = sum(low <= time < high for time in times)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        read = source.option("pushdown", "true").option("columns", "ts_ns,length").load(path)
        assert read.columns == ["ts_ns", "length"]
        assert read.where(f"ts_ns >= {low} and ts_ns < {high}").count() == expected > 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    reader = KafkaCapture({"path": path, "pushdown": "true", "splitsize": str(1 << 16)}).reader(StructType())
    reader.pushFilters([GreaterThanOrEqual(("ts_ns",), low), LessThan(("ts_ns",), high)])
    given = handed_over(reader)
    assert sum(given) == expected
    assert given.count(0) > 0, "splits that hand over nothing"


def test_a_display_filter_and_headers_alone_in_the_data_source(spark: Any) -> None:
    source = spark.read.format("kafka_capture").option("view", "exchanges").option("filter", "api != Metadata")
    expected = exported([traffic.KAFKA_1_1], "-Y", "api != Metadata", tables=["exchanges"])["exchanges"]
    assert_same({"exchanges": counted(source.load(str(traffic.KAFKA_1_1)).toArrow().to_pylist())},
                {"exchanges": expected})  # fmt: skip
    assert source.option("bodies", "false").load(str(traffic.KAFKA_1_1)).count() == expected.total()
    for option, value, text in (("filter", "api ==", "filter"), ("columns", "x", "no column 'x'"),
                                ("bodies", "no", "true or false")):  # fmt: skip
        with pytest.raises(Exception, match=text):
            spark.read.format("kafka_capture").options(**{"view": "exchanges", option: value}).load("a").count()


@pytest.mark.parametrize("view", ["exchanges", "exchange_topics"])
def test_tasks_that_share_a_capture(spark: Any, tmp_path: Path, view: str) -> None:
    """Each has some of the rows, and together they have those of an export, in their order."""
    path = tmp_path / "a.pcap"
    multiply(traffic.BENCH, 2, path)
    source = spark.read.format("kafka_capture").options(view=view, splitSize=1 << 20).option("tasks", 2).load(str(path))
    shares = source.groupBy(f.spark_partition_id().alias("share")).count().collect()
    assert sorted(row["share"] for row in shares) == [0, 1]
    assert min(row["count"] for row in shares) > 3000
    rows = source.toArrow().to_pylist()
    assert_same({view: counted(rows)}, exported([path], tables=[view]))
    alone = spark.read.format("kafka_capture").options(view=view, tasks=1).load(str(path))
    assert rows == alone.toArrow().to_pylist()


def streamed(spark: Any, folder: Path, aside: Path, **options: str) -> Counter[Any]:
    """The rows that a stream of a folder's captures has written in all, up to the files that are closed now."""
    source = spark.readStream.format("kafka_capture").options(ledger=str(aside / "ledger"), quietTime="0", **options)
    written = source.load(str(folder)).writeStream.option("checkpointLocation", str(aside / "checkpoint"))
    query = written.trigger(availableNow=True).start(path=str(aside / "rows"), format="parquet")
    query.awaitTermination()
    return counted(spark.read.parquet(str(aside / "rows")).toArrow().to_pylist())


def test_a_folder_as_a_stream(spark: Any, tmp_path: Path) -> None:
    """Each file is read once, also by a query that is started again, and its rows are those of reading it by itself."""
    folder, aside = tmp_path / "captures", tmp_path / "aside"
    folder.mkdir()
    aside.mkdir()
    expected: Counter[Any] = Counter()
    for capture in (traffic.KAFKA_1_1, traffic.LIBRDKAFKA):
        copy = folder / capture.name
        copy.write_bytes(capture.read_bytes())
        alone = spark.read.format("kafka_capture").option("view", "exchanges").load(str(copy))
        expected += counted(alone.toArrow().to_pylist())
        found = streamed(spark, folder, aside, view="exchanges", maxFilesPerTrigger="1")
        assert_same({"exchanges": found}, {"exchanges": expected})
    segments = streamed(spark, folder, tmp_path / "segments", columns="ts_ns,length", splitSize="65536")
    assert segments == counted(
        spark.read.format("kafka_capture").option("columns", "ts_ns,length")
        .load([str(one) for one in folder.iterdir()]).toArrow().to_pylist()
    )  # fmt: skip
    without_ledger = spark.readStream.format("kafka_capture").load(str(folder)).writeStream.format("noop")
    with pytest.raises(Exception, match="needs the option 'ledger'"):
        without_ledger.start().processAllAvailable()


def test_a_file_that_is_gone_before_a_stream_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    for name, capture in (("a.pcap", traffic.KAFKA_1_1), ("b.pcap", traffic.LIBRDKAFKA)):
        (folder / name).write_bytes(capture.read_bytes())
    options = {"path": str(folder), "ledger": str(tmp_path / "ledger"), "quiettime": "0", "view": "exchanges"}
    strict: Any = KafkaCapture(options).streamReader(StructType())
    lenient: Any = KafkaCapture({**options, "ignoremissing": "true"}).streamReader(StructType())
    begin, end = strict.initialOffset(), strict.latestOffset()
    assert strict.partitions(end, end) == []
    (folder / "a.pcap").unlink()
    with pytest.raises(CaptureError, match="No such file"):
        [list(strict.read(part)) for part in strict.partitions(begin, end)]
    assert [part.share.path for part in lenient.partitions(begin, end)] == [str(folder / "b.pcap")]


def test_a_key_log_that_executors_do_not_see(spark: Any, tmp_path: Path) -> None:
    wire = Wire(tmp_path, TestCa(tmp_path, "ca").leaf("broker", "localhost"))
    path = captured(tmp_path / "a.pcap", spoken(wire, conversation()))
    expected = exported([path], "--keylog", str(wire.log), tables=USUAL)
    assert_same(collected(spark_tables(spark, path, keylog=wire.log)), expected)
    reader = spark.read.format("kafka_capture").option("keylog", str(wire.log))
    assert reader.option("view", "exchanges").load(str(path)).count() == expected["exchanges"].total() > 20


def test_captures_in_an_object_store_and_tables_at_a_url(spark: Any, tmp_path: Path) -> None:
    """The tables are put there by the file systems that Spark has."""
    url = f"file://{tmp_path}/out dir"
    with serving() as objects:
        objects.held["day/a.pcap"] = traffic.LIBRDKAFKA.read_bytes()
        objects.held["day/b.pcap"] = traffic.KAFKA_1_1.read_bytes()
        for expression in ("api != Metadata", "api == Fetch"):
            options = Options(("exchanges", "flows"), filter=parse(expression).expression)
            made = job.make(spark, [f"s3://day/*.pcap{objects.options}"], options, size=1 << 16)
            assert len(made.order.summaries) > 4
            rows = write(made, url)
            made.release()
    expected = exported([traffic.LIBRDKAFKA, traffic.KAFKA_1_1], "-Y", expression, tables=["exchanges", "flows"])
    assert rows == {name: found.total() for name, found in expected.items()}
    names = {str(traffic.LIBRDKAFKA): "s3://day/a.pcap", str(traffic.KAFKA_1_1): "s3://day/b.pcap"}
    assert_same(written(tmp_path / "out dir", ["exchanges", "flows"]), moved(expected, names))
    assert [one.name for one in sorted((tmp_path / "out dir").glob("[!.]*"))] == ["exchanges", "flows"]


@pytest.mark.parametrize("case", again.CASES, ids=lambda case: case.__name__)
def test_files_whose_tables_are_at_a_url_already(case: again.Case, spark: Any, tmp_path: Path) -> None:
    with serving() as objects:
        case(InSession(spark, again.Bucket(objects), again.FileUrls()), again.four(tmp_path), tmp_path)


def test_engines_take_turns_at_a_url(spark: Any, tmp_path: Path) -> None:
    """Each understands what the other wrote: lists of files, and tables whose files were replaced."""
    out, (a, b, *_) = tmp_path / "out", again.four(tmp_path)
    with_spark = InSession(spark, again.HERE, again.FileUrls())
    alone = again.Command(*again.LOCAL, tables=again.FileUrls())
    fetches = again.Command("spark", "-Y", "api == Fetch", *again.LOCAL[1:], tables=again.FileUrls())
    for way, other in ((with_spark, alone), (alone, with_spark), (fetches, with_spark)):
        again.made(way, out, b)
        again.made(other, out, a, b)
        again.refused(way, out, [a], a, b)
        again.made(way, out, b, a)
        again.refused(other, out, [b], b, a)
        read = spark.read.parquet(f"file://{out}/exchanges").toArrow().to_pylist()
        assert_same({"exchanges": counted(read)}, written(out, ["exchanges"]))
        shutil.rmtree(out)


def test_a_folder_at_a_url_is_asked_before_captures_are_read(tmp_path: Path) -> None:
    require("java")
    out, (a, b, *_) = tmp_path / "out", again.four(tmp_path)
    again.made(again.Command(*again.LOCAL), out, a, b)
    few = ("exchanges", "flows")
    given = ("--out", f"file://{out}", "--engine", "spark", "--master", "local[1]", "--tables", ",".join(few))
    refused = kproxy("spark", f"file://{b}", *given)
    assert refused.returncode == 2, refused.stderr
    assert f"file://{out}: holds tables of {b} read together with {a}:" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    replaced = kproxy("spark", f"file://{b}", a, *given)
    assert replaced.returncode == 0, replaced.stderr
    assert_same(written(out, few), moved(exported([a, b], tables=few), {str(b): f"file://{b}"}))


def test_executors_have_working_directories_of_their_own(tmp_path: Path) -> None:
    """So a capture that is named from here is found by them, too."""
    require("java")
    capture = tmp_path / "a.pcap"
    capture.write_bytes(traffic.LIBRDKAFKA.read_bytes())
    given = "a.pcap", "--out", "tables", "--master", "local-cluster[1,1,1024]"
    run = kproxy("spark", *given, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert_same(written(tmp_path / "tables", USUAL), exported([capture], tables=USUAL))


def test_what_a_worker_raises_is_one_line(tmp_path: Path) -> None:
    require("java")
    capture = tmp_path / "a.pcap"
    capture.write_bytes(traffic.LIBRDKAFKA.read_bytes())
    run = subprocess.run(
        [sys.executable, "-c", GONE, str(capture), str(tmp_path / "tables")],
        capture_output=True, text=True, check=False, timeout=280, cwd=ROOT,
    )  # fmt: skip
    assert run.returncode == 3
    assert run.stderr.startswith(f"kproxy: CaptureError: {capture}: No such file or directory (more in ")
    assert len(run.stderr.splitlines()) == 1


GONE = """
import sys
from pathlib import Path
from kproxy.captures.spark import job
from kproxy.cli.main import main
make = job.segments
def segments(*given):
    Path(sys.argv[1]).unlink()
    return make(*given)
job.segments = segments
main(["spark", sys.argv[1], "--out", sys.argv[2], "--master", "local[1]"])
"""


def test_the_command_writes_what_an_export_writes(tmp_path: Path) -> None:
    require("java")
    out = tmp_path / "tables"
    other = kproxy("spark", traffic.KAFKA_1_1, "--out", out)
    assert other.returncode == 0, other.stderr
    before = written(out)
    for more in ([], ["-Y", "api == Fetch"]):
        run = kproxy(
            "spark", traffic.LIBRDKAFKA, "--out", out, "--master", "local[2]", "--split-size", "64K", "--json", *more
        )
        assert run.returncode == 0, run.stderr
        told = json.loads(run.stdout)
        expected = exported([traffic.LIBRDKAFKA], *more, tables=USUAL)
        assert told["engine"] == "spark"
        assert told["rows"] == {name: rows.total() for name, rows in expected.items()}
        assert told["shuffle_bytes"] > 0
        assert_same(written(out), {name: before[name] + expected.get(name, before[name]) for name in TABLES})
    assert all(one.name.endswith(".files.json") for one in out.glob(".*"))


def test_reading_joining_and_writing_are_one_job_each(spark: Any, tmp_path: Path) -> None:
    """Each has to be planned, and waits for the one before."""
    context = spark.sparkContext
    context.setJobGroup("counted", "")
    try:
        made = job.make(spark, [traffic.BENCH], Options(USUAL), size=1 << 18)
        rows = write(made, tmp_path)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert rows["exchanges"] > 1000
    assert len(context.statusTracker().getJobIdsForGroup("counted")) == 3


def test_a_job_has_the_workers_that_the_session_started(spark: Any) -> None:
    """They are of one family, so that what some have imported need not be imported once more."""

    def parents(batches: Any) -> Iterator[Any]:
        yield from (pa.record_batch([pa.array([os.getppid()])], ["parent"]) for _ in batches)

    started = spark.sparkContext.parallelize([0], 1).mapPartitions(lambda _: [os.getppid()]).collect()
    used = spark.range(1).mapInArrow(parents, "parent bigint").collect()
    assert {row["parent"] for row in used} == set(started)


KILLED = """
import contextlib, os, signal, sys, threading, time, warnings
from psutil import Error, Process
from kproxy.captures.spark import job
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.session.start import session
from kproxy.captures.spark.write.parquet import write
from kproxy.captures.tables.schema import USUAL
from pathlib import Path
warnings.simplefilter("ignore")
capture, out, jobs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
spark = session("local-cluster[2,1,1024]")
tracker = spark.sparkContext.statusTracker()
def executors():
    found = []
    for one in Process().children(recursive=True):
        with contextlib.suppress(Error):
            found += [one] if any("CoarseGrainedExecutorBackend" in word for word in one.cmdline()) else []
    return found
def kill():
    while True:
        time.sleep(0.02)
        active = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        busy = any(stage is not None and stage.numActiveTasks for stage in active)
        if len(tracker.getJobIdsForGroup(None)) == jobs and busy:
            victim = executors()[0]
            os.kill(victim.pid, signal.SIGKILL)
            print("killed", flush=True)
            return
threading.Thread(target=kill, daemon=True).start()
made = job.make(spark, [capture], Options(USUAL), size=1 << 18)
print(write(made, out), flush=True)
spark.stop()
"""


SPECULATION = (
    "--conf spark.speculation=true --conf spark.speculation.quantile=0.1 --conf spark.speculation.multiplier=1.01 "
    "--conf spark.speculation.interval=50ms pyspark-shell"
)


@pytest.mark.parametrize("jobs", [1, 2], ids=["while splits are read", "while flows are put together"])
def test_an_executor_is_killed(jobs: int, tmp_path: Path) -> None:
    """And slow tasks are done twice (speculation)."""
    require("java")
    capture = tmp_path / "a.pcap"
    multiply(traffic.BENCH, 2, capture)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(capture), str(tmp_path / "out"), str(jobs)],
        capture_output=True, text=True, check=False, timeout=280, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_SUBMIT_ARGS": SPECULATION},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.startswith("killed")
    expected = exported([capture], tables=USUAL)
    assert expected["exchanges"].total() > 5000
    assert_same(written(tmp_path / "out", USUAL), expected)
