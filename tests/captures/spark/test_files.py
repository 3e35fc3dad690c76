"""Captures at URLs: which bytes are read, and that rows do not depend on where captures lie."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.captures.errors import CaptureError
from kproxy.captures.spark import local
from kproxy.captures.spark.plan import files as spark_files
from kproxy.captures.spark.plan.files import BLOCK
from kproxy.captures.spark.plan.splits import expand, plan
from kproxy.captures.spark.read.flows import Options
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported, written
from tests.support.multiply import multiply
from tests.support.objects import Objects, as_somebody, serving

NAMED = frozenset({"capture_id", "source_id", "req_off", "rsp_off", "size"})
"""Columns that depend on the names of merged files, because the merged capture contains these."""


@pytest.fixture(scope="module")
def objects() -> Iterator[Objects]:
    with as_somebody(), serving() as server:
        yield server


@pytest.fixture(autouse=True)
def _nothing_is_there(objects: Objects) -> None:
    objects.held.clear()
    objects.ranges.clear()


def made(urls: list[str], size: int = 1 << 14) -> Rows:
    found = local.tables(urls, Options(tuple(TABLES)), size=size)
    return {name: counted(found[name].to_pylist()) for name in TABLES}


def moved(rows: Rows, names: dict[str, str], without: frozenset[str] = frozenset()) -> Rows:
    """Rows with names of files replaced, and without some columns."""
    return {
        table: counted(
            {name: names.get(str(value), value) for name, value in row if name not in without}
            for row in found.elements()
        )
        for table, found in rows.items()
    }


def test_objects_are_read_in_ranges(objects: Objects, tmp_path: Path) -> None:
    few, size = ("exchanges", "flows", "captures"), 4 << 20
    path = tmp_path / "a.pcap"
    multiply(traffic.BENCH, 1, path)
    objects.held["bucket/day 1/a.pcap"] = path.read_bytes()
    url = f"s3://bucket/day 1/a.pcap{objects.options}"
    planned, here = plan([url], size), plan([path], size)
    assert sum(last - first + 1 for _, first, last in objects.ranges) < path.stat().st_size // 3
    assert len(planned.splits) == 3
    assert [(one.start, one.end) for one in planned.splits] == [(one.start, one.end) for one in here.splits]
    objects.ranges.clear()
    found = local.of_plan(planned, Options(few), size=size)
    assert max(last - first for _, first, last in objects.ranges) < size + 4 * BLOCK
    expected = moved(exported([path], tables=few), {str(path): "s3://bucket/day 1/a.pcap"})
    assert_same({name: counted(found[name].to_pylist()) for name in few}, expected)


def test_patterns_folders_and_what_must_be_copied(objects: Objects, tmp_path: Path) -> None:
    """Some captures are compressed, some overlap in time."""
    taken = traffic.packets(traffic.LIBRDKAFKA)
    parts = {
        "c.pcap.gz": gzip.compress(files.pcap(taken[400:])),
        "b.pcap": files.pcap(taken[1:400:2]),
        "a.pcap": files.pcap(taken[:400:2]),
    }
    names: dict[str, str] = {}
    for name, data in parts.items():
        (tmp_path / name).write_bytes(data)
        objects.held[f"bucket/day/{name}"] = data
        names[str(tmp_path / name)] = f"s3://bucket/day/{name}"
    objects.held["bucket/day/notes.txt"] = b"no capture"
    objects.held["bucket/other/x/a.pcap"] = parts["a.pcap"]
    both = [str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")]
    names[" + ".join(both)] = " + ".join(names[one] for one in both)
    here = exported([tmp_path / name for name in parts])
    expected = moved(here, names, NAMED)
    folder, *patterns = (f"s3://bucket/{path}{objects.options}" for path in ("day", "day/*.pcap*", "d[a-c]y/*.pcap*"))
    found = made([folder])
    assert_same(moved(found, {}, NAMED), expected)
    one, other = ({"captures": rows["captures"]} for rows in (found, here))  # ids and sizes of files as they were given
    assert_same(moved(one, {}, frozenset({"source_id"})), moved(other, names, frozenset({"source_id"})))
    assert [expand([pattern]) for pattern in patterns] == [expand([folder])] * 2
    assert plan([folder]).capture == plan([patterns[0]]).capture
    assert expand([f"s3a://bucket/*/*/a*{objects.options}"]) == [f"s3a://bucket/other/x/a.pcap{objects.options}"]


def test_tables_are_put_at_a_url(objects: Objects, tmp_path: Path) -> None:
    """Writing again replaces the tables of the same capture, and no others."""
    objects.held["in/a.pcap"] = traffic.LIBRDKAFKA.read_bytes()
    objects.held["out/notes.txt"] = b"a bucket"
    out, few = tmp_path / "out", ("exchanges", "flows")
    for capture, *more in (
        (str(traffic.KAFKA_1_1),),
        (f"s3://in/a.pcap{objects.options}",),
        (f"s3://in/a.pcap{objects.options}", "-Y", "api == Fetch"),
    ):
        command = ["spark", capture, "--engine", "local", "--tables", ",".join(few), *more]
        run = CliRunner().invoke(main, [*command, "--out", f"s3://out/day 1{objects.options}"])
        assert run.exit_code == Exit.OK, run.output
    for name, data in objects.held.items():
        if name.endswith(".parquet"):
            path = out / name.removeprefix("out/day 1/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    other = exported([traffic.KAFKA_1_1], tables=few)
    fetches = exported([traffic.LIBRDKAFKA], "-Y", "api == Fetch", tables=few)
    expected = {name: other[name] + fetches[name] for name in few}
    assert_same(written(out, few), moved(expected, {str(traffic.LIBRDKAFKA): "s3://in/a.pcap"}))


@pytest.mark.parametrize("name", ["none.pcap", "none*", "d*/none.pcap", "empty"])
def test_what_is_not_there(name: str, objects: Objects) -> None:
    objects.held["bucket/empty/note.txt"] = b"no capture"
    with pytest.raises(CaptureError, match=r"No such file|without captures") as raised:
        made([f"s3://bucket/{name}{objects.options}"])
    assert str(raised.value.path) == f"s3://bucket/{name}"


def test_a_file_is_a_url_too(tmp_path: Path) -> None:
    (tmp_path / "a b.pcap").write_bytes(traffic.LIBRDKAFKA.read_bytes())
    (tmp_path / "cut.pcap").write_bytes(traffic.KAFKA_1_1.read_bytes()[:-5])
    paths = [tmp_path / "a b.pcap", tmp_path / "cut.pcap"]
    names = {str(path): f"file://{path}" for path in paths}
    assert_same(made([*names.values()]), moved(exported(paths), names))
    assert_same(made([f"file://{tmp_path}"]), moved(exported(paths), names))
    with pytest.raises(CaptureError, match="Unrecognized filesystem"):
        made(["ftp://host/a.pcap"])
    assert not spark_files.is_url("C:/a.pcap")
