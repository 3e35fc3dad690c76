"""Views of the data source: the rows of all tasks that share a capture are those of one task, in the same order."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from kproxy.captures.errors import CaptureError
from kproxy.captures.ports import Ports
from kproxy.captures.spark import local, shares
from kproxy.captures.spark.read import closing, flows
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.source import KafkaCapture
from kproxy.captures.tables.schema import TABLES, WITHOUT_BODIES
from kproxy.decoders.filters import parse
from tests.captures import files, traffic
from tests.captures.spark.comparing import assert_same, counted, exported
from tests.captures.spark.damage import DAMAGE
from tests.captures.spark.test_joined import TOPIC, Talk, fetch, fetched, written
from tests.captures.spark.test_plain import metadata
from tests.captures.tls.test_decrypting import captured, conversation, spoken
from tests.captures.tls.wire import Wire
from tests.support.certificates import TestCa
from tests.support.thinned import thinned

Given = list[dict[str, Any]]
GOLDEN = traffic.DATA / "golden" / "golden-4.4.0.pcap"
DIVISIBLE = ("exchanges", "exchange_topics", "record_batches", "records", "group_events", "anomalies")


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small captures have many ranges of addresses, at which shares begin."""
    monkeypatch.setattr(flows, "GRANULE", 10)


def reader(path: Path, view: str, tasks: int, **options: str) -> Any:
    given = {"path": str(path), "view": view, "tasks": str(tasks), "splitsize": "1024"} | options
    return KafkaCapture(given).reader(StructType())


def shared(path: Path, view: str, tasks: int, **options: str) -> list[Given]:
    """The rows of each task."""
    source = reader(path, view, tasks, **options)
    return [[row for batch in source.read(part) for row in batch.to_pylist()] for part in source.partitions()]


def whole(path: Path, view: str, **options: Any) -> Given:
    """The rows that the three stages give in one process."""
    rows: Given = local.tables([path], Options((view,), **options), size=1 << 62)[view].to_pylist()
    return rows


def joined(given: list[Given]) -> Given:
    return [row for rows in given for row in rows]


@pytest.mark.parametrize("view", DIVISIBLE)
@pytest.mark.parametrize(
    "capture", thinned([traffic.LIBRDKAFKA, traffic.KAFKA_1_1, GOLDEN, traffic.KAFKA_0_8], 2), ids=lambda one: one.stem
)
def test_shares_are_one_task_s_rows(capture: Path, view: str) -> None:
    expected = whole(capture, view)
    for tasks in (1, 2, 5):
        found = shared(capture, view, tasks)
        assert len(found) == tasks
        assert joined(found) == expected
        if len(expected) > 200:
            assert all(len(rows) < len(expected) for rows in found) or tasks == 1
    assert_same({view: counted(joined(found))}, exported([capture], tables=[view]))


def test_every_table_that_stage_3_makes_is_divided() -> None:
    assert tuple(name for name in TABLES if name in DIVISIBLE) == shares.DIVISIBLE
    assert {name for name in TABLES if name not in DIVISIBLE} == {"flows", "captures", "findings"}


@pytest.mark.parametrize("how", thinned(DAMAGE, 3))
def test_damaged_captures(
    how: Callable[[list[files.Packet], random.Random], list[files.Packet]], tmp_path: Path
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(how(traffic.packets(traffic.LIBRDKAFKA), random.Random(7))))
    expected = exported([path], tables=DIVISIBLE)
    for view in DIVISIBLE:
        found = shared(path, view, 5)
        assert len(found) == 5
        assert joined(found) == whole(path, view)
        assert_same({view: counted(joined(found))}, {view: expected[view]})


@pytest.mark.parametrize(
    "form", [lambda taken: files.pcap(taken)[:-7], traffic.pcapng, lambda taken: files.pcap(taken, snap=200)],
    ids=["cut", "pcapng", "snap"],
)  # fmt: skip
def test_forms_of_captures(form: Callable[[list[files.Packet]], bytes], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(form(traffic.packets(traffic.LIBRDKAFKA)))
    for view in ("exchanges", "anomalies"):
        found = shared(path, view, 3)
        assert len(found) == 3
        assert joined(found) == whole(path, view)


@pytest.mark.parametrize(
    "text", ["api == Fetch", "topic == adm-t or broker == 2", "exchange > 40 and connection > 3", "latency > 1ms"]
)
@pytest.mark.parametrize("view", ["exchanges", "exchange_topics"])
def test_a_filter(view: str, text: str) -> None:
    expected = whole(traffic.KAFKA_1_1, view, filter=parse(text).expression)
    for tasks in (2, 5):
        found = shared(traffic.KAFKA_1_1, view, tasks, filter=text)
        assert joined(found) == expected
        assert sum(map(bool, found)) > 1
    assert_same({view: counted(expected)}, exported([traffic.KAFKA_1_1], "-Y", text, tables=[view]))


def test_columns_and_ports() -> None:
    names = ("broker_id", "exchange", "exchange_id")
    expected = whole(traffic.KAFKA_1_1, "exchanges", ports=Ports.parse("23002"))
    found = joined(shared(traffic.KAFKA_1_1, "exchanges", 3, columns=",".join(names), ports="23002"))
    assert found == [{name: row[name] for name in names} for row in expected]
    assert 0 < len(found) < len(whole(traffic.KAFKA_1_1, "exchanges"))


@pytest.mark.parametrize("view", [name for name in WITHOUT_BODIES if name in DIVISIBLE])
def test_what_headers_tell(view: str) -> None:
    expected = whole(traffic.LIBRDKAFKA, view, bodies=False)
    for tasks in (2, 5):
        assert joined(shared(traffic.LIBRDKAFKA, view, tasks, bodies="false")) == expected
    assert_same({view: counted(expected)}, exported([traffic.LIBRDKAFKA], "--no-bodies", tables=[view]))


def test_facts_and_numbers_of_other_shares(tmp_path: Path) -> None:
    """Only an exchange of the first share tells the node id of the broker."""
    talk = Talk()
    asked, answered = metadata(0)
    frames = [*talk.opening, talk.send(0, asked), talk.send(1, answered)]
    for number in range(1, 200):
        frames += [talk.send(0, fetch(number, TOPIC)), talk.send(1, fetched(number, TOPIC))]
    path = written(frames, tmp_path / "a.pcap")
    found = shared(path, "exchanges", 4)
    assert [row["exchange"] for row in joined(found)] == list(range(1, 201))
    assert all(row["broker_id"] == 77 for rows in found[1:] for row in rows)
    assert min(map(len, found)) > 20


@pytest.mark.parametrize("view", ["flows", "captures", "findings"])
def test_tables_that_one_task_makes(view: str) -> None:
    found = shared(traffic.LIBRDKAFKA, view, 5)
    assert len(found) == 1
    assert found[0] == whole(traffic.LIBRDKAFKA, view)
    assert found[0]


def test_captures_that_one_task_reads(tmp_path: Path) -> None:
    """Compressed, and encrypted with a key log."""
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(traffic.LIBRDKAFKA.read_bytes()))
    expected = whole(packed, "exchanges")
    assert shared(packed, "exchanges", 5) == [expected]
    wire = Wire(tmp_path, TestCa(tmp_path, "ca").leaf("broker", "localhost"))
    path = captured(tmp_path / "tls.pcap", spoken(wire, conversation()))
    (rows,) = shared(path, "exchanges", 5, keylog=str(wire.log))
    assert_same({"exchanges": counted(rows)}, exported([path], "--keylog", str(wire.log), tables=["exchanges"]))


def test_files_of_different_sizes(tmp_path: Path) -> None:
    """Tasks go to the larger files, and rows stay in the order of files."""
    small = tmp_path / "b.pcap"
    small.write_bytes(files.pcap(traffic.packets(traffic.KAFKA_1_1)[:60]))
    source = reader(tmp_path, "exchanges", 4)
    (tmp_path / "a.pcap").write_bytes(traffic.LIBRDKAFKA.read_bytes())
    parts = source.partitions()
    assert [Path(part.share.path).name for part in parts] == ["a.pcap"] * 4 + ["b.pcap"]
    rows = [row for part in parts for batch in source.read(part) for row in batch.to_pylist()]
    assert rows == whole(tmp_path / "a.pcap", "exchanges") + whole(small, "exchanges")


@pytest.mark.parametrize(
    ("sizes", "size", "tasks", "expected"),
    [
        ([1000], 100, 4, [4]),
        ([1000], 400, 8, [3]),
        ([1000], 1000, 8, [1]),
        ([1000, 1000, 1000], 10, 2, [1, 1, 1]),
        ([1000, 10, 0], 1, 8, [8, 1, 1]),
        ([600, 300], 1, 6, [4, 2]),
        ([0], 0, 4, [1]),
        ([], 1, 4, []),
    ],
)
def test_how_many_tasks_share_a_file(sizes: list[int], size: int, tasks: int, expected: list[int]) -> None:
    assert shares.counts(sizes, size, tasks) == expected


@pytest.mark.parametrize(("tasks", "text"), [("0", "'tasks'"), ("-1", "'tasks'"), ("many", "'many'")])
def test_tasks_that_are_no_number(tasks: str, text: str) -> None:
    given = {"path": str(traffic.LIBRDKAFKA), "view": "exchanges", "tasks": tasks}
    with pytest.raises(ValueError, match=text):
        KafkaCapture(given).reader(StructType())


def test_a_file_that_changes_between_tasks(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(traffic.LIBRDKAFKA.read_bytes())
    source = reader(path, "exchanges", 2)
    first, second = source.partitions()
    assert list(source.read(first))
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(CaptureError, match="was changed while it was read"):
        list(source.read(second))


def test_rows_are_made_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that has handed over its first batch has closed one group of exchanges."""
    closed: list[int] = []
    made = closing.Closer._made

    def counting(self: Any, batch: Any) -> Any:
        closed.append(len(batch))
        return made(self, batch)

    monkeypatch.setattr(closing.Closer, "_made", counting)
    monkeypatch.setattr(local, "AT_ONCE", 16)
    source = reader(traffic.LIBRDKAFKA, "exchanges", 1)
    (part,) = source.partitions()
    rows = source.read(part)
    first = next(rows)
    assert closed == [16]
    assert first.num_rows + sum(batch.num_rows for batch in rows) == len(whole(traffic.LIBRDKAFKA, "exchanges"))
    assert len(closed) > 5


def test_a_stream_divides_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / "a.pcap").write_bytes(traffic.LIBRDKAFKA.read_bytes())
    options = {"path": str(folder), "ledger": str(tmp_path / "ledger"), "quiettime": "0", "view": "exchanges"}
    stream: Any = KafkaCapture(options | {"tasks": "3", "splitsize": "1024"}).streamReader(StructType())
    parts = stream.partitions(stream.initialOffset(), stream.latestOffset())
    assert len(parts) == 3
    assert joined([_rows(stream.read(part)) for part in parts]) == whole(folder / "a.pcap", "exchanges")


def _rows(batches: Iterator[Any]) -> Given:
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_share_holds_only_its_own_exchanges() -> None:
    """Items of other shares leave stage 2 only if they have facts, and without rows."""
    first, *_ = reader(traffic.LIBRDKAFKA, "exchanges", 5).partitions()
    planned, ranges = first.share.plan, first.share.ranges
    options = Options(("exchanges",))
    every, own = (
        [row for batch in local._drafted(planned, one, 1 << 62).batches for row in batch.to_pylist()]
        for one in (options, replace(options, ranges=ranges))
    )
    others = [row for row in own if row["range"] not in ranges and row["kind"] != "digest"]
    assert others
    assert all(row["learned"] and row["rows"] is row["packed"] is row["open"] is None for row in others)
    assert len(own) < len(every) / 2
