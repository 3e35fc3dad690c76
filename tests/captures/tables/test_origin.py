"""Tables of files that a folder has already replace the earlier ones or are refused: no row twice, none lost."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from kproxy.captures.errors import CaptureError
from kproxy.captures.keys import HEAD, named
from kproxy.captures.spark.plan import files as spark_files
from kproxy.captures.spark.write import uploads
from kproxy.captures.tables.folders import Local, Target, complete, place
from kproxy.captures.tables.origin import File, Overlap, Unreadable, heads, origin
from kproxy.captures.tables.schema import USUAL
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import traffic
from tests.captures.spark.comparing import assert_same, written
from tests.captures.tables import again
from tests.captures.tables.again import EXPORT, HERE, LOCAL, Bucket, Command, FileUrls, Way, holds, made
from tests.support.objects import Objects, as_somebody, serving

WAYS = (
    (EXPORT, "path", "path"),
    (LOCAL, "path", "path"),
    (LOCAL, "file URL", "path"),
    (LOCAL, "path", "file URL"),
    (LOCAL, "object store", "object store"),
)
"""The command, where its captures are, and where its tables are."""


@pytest.fixture(scope="module")
def objects() -> Iterator[Objects]:
    with as_somebody(), serving() as server:
        yield server


def at(name: str, objects: Objects) -> again.Place:
    return {"path": HERE, "file URL": FileUrls(), "object store": Bucket(objects)}[name]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0][0]} {way[1]} to {way[2]}")
def way(request: pytest.FixtureRequest, objects: Objects) -> Way:
    command, captures, tables = request.param
    return Command(*command, captures=at(captures, objects), tables=at(tables, objects))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return again.four(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("case", again.CASES, ids=lambda case: case.__name__)
def test_again(case: again.Case, way: Way, files: list[Path], tmp_path: Path) -> None:
    case(way, files, tmp_path)


def test_a_folder_at_a_url_is_its_captures(objects: Objects, files: list[Path], tmp_path: Path) -> None:
    """As is a pattern; and a list is understood by whoever writes next, wherever the captures are then."""
    out, store = tmp_path / "out", Bucket(objects)
    for number, path in enumerate(files[:2]):
        objects.held[f"day/{number}.pcap"] = path.read_bytes()
    for given in ("s3://day", "s3://day/*.pcap"):
        run = Command("spark", f"{given}{objects.options}", *LOCAL[1:], tables=FileUrls()).run(out)
        assert run.exit_code == Exit.OK, run.stderr
    for captures, tables in ((HERE, HERE), (FileUrls(), FileUrls()), (store, HERE)):
        reason = Command(*LOCAL, captures=captures, tables=tables).write(out, files[:1])
        assert reason is not None
        assert "s3://day/0.pcap read together with s3://day/1.pcap:" in reason
    made(Command(*EXPORT), out, *files[:2])
    holds(Command(*EXPORT), out, files[:2])


def test_heads_are_the_same_at_urls(objects: Objects, tmp_path: Path) -> None:
    """Of compressed files the decompressed beginnings, also of damaged ones."""
    whole = traffic.LIBRDKAFKA.read_bytes()
    packed = gzip.compress(whole)
    parts = [whole, packed, packed[:5000], packed[:100] + b"damage" + packed[100:], whole[:100], packed[:3]]
    paths = []
    for number, data in enumerate([*parts, (traffic.LIBRDKAFKA.parent / "kafka-1.1.1.seekable.pcap.zst").read_bytes()]):
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes(data)
    found = spark_files.heads([Bucket(objects).url(path) for path in paths])
    assert found == [(f"s3://bucket{name}", head) for name, head in heads(paths)]
    assert [head for _, head in found[:2]] == [whole[:HEAD]] * 2


def test_captures_at_urls_are_not_copied_to_be_refused(objects: Objects, tmp_path: Path) -> None:
    way = Command(*LOCAL, captures=Bucket(objects))
    made(way, tmp_path / "out", traffic.LIBRDKAFKA, traffic.KAFKA_1_1)
    objects.ranges.clear()
    again.refused(way, tmp_path / "out", [traffic.KAFKA_1_1], traffic.KAFKA_1_1, traffic.LIBRDKAFKA)
    assert [last + 1 - first for _, first, last in objects.ranges] == [HEAD]


def test_an_export_to_a_url_makes_no_folder(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["export", str(files[0]), *EXPORT[1:], "s3://bucket/out"])
    assert (result.exit_code, "kproxy spark CAPTURE... --out URL" in result.stderr) == (Exit.USAGE, True)
    assert not list(tmp_path.iterdir())


def test_a_url_in_messages_and_lists_has_no_options(objects: Objects, files: list[Path], tmp_path: Path) -> None:
    store = Bucket(objects)
    way = Command(*LOCAL, captures=store, tables=store)
    made(way, tmp_path / "out", *files[:2])
    assert "endpoint_override" not in (way.write(tmp_path / "out", files[:1]) or "endpoint_override")
    store.fetch(tmp_path / "out")
    (path,) = (tmp_path / "out").glob(".*.files.json")
    assert [one["name"] for one in json.loads(path.read_bytes())] == [f"s3://bucket{file}" for file in files[:2]]


class BrokenError(Exception):
    """The process died."""


class Interrupted:
    """A folder in which the process dies at the change with this number."""

    def __init__(self, folder: Target, changes: int) -> None:
        self._folder = folder
        self._left = changes

    def __getattr__(self, name: str) -> object:
        method = getattr(self._folder, name)

        def change(*given: object) -> object:
            if self._left == 0:
                raise BrokenError
            self._left -= 1
            return method(*given)

        return change if name in {"write", "put", "remove"} else method


@pytest.mark.parametrize("earlier", [0, 1], ids=["the first file was there", "the second file was there"])
def test_whenever_writing_is_interrupted(earlier: int, files: list[Path], tmp_path: Path) -> None:
    """The same reading can be written again; until then, one of fewer files is refused if rows of others are there."""
    both, way, folder = files[:2], Command(*EXPORT), tmp_path / "tables"
    made(way, tmp_path / "earlier", both[earlier])
    made(way, tmp_path / "both", *both)
    (path,) = (tmp_path / "both").glob(".*.files.json")
    reading = path.name[1:].partition(".")[0]
    changes = 0
    while True:
        out, aside = folder / f"{changes}", folder / f"{changes}.partial"
        shutil.copytree(tmp_path / "earlier", out)
        shutil.copytree(tmp_path / "both", aside)
        found = origin(Local(out), heads(both))
        try:
            place(Interrupted(Local(out), changes), complete(aside, reading), reading, found)  # type: ignore[arg-type]
            break
        except BrokenError:
            pass
        if changes:
            for one in both:
                assert "read together with" in (way.write(out, [one]) or "")
        made(way, out, *both)
        assert_same(written(out, USUAL), written(tmp_path / "both", USUAL))
        changes += 1
    assert changes > len(complete(tmp_path / "both", reading)) >= len(USUAL) - 2
    assert_same(written(out, USUAL), written(tmp_path / "both", USUAL))


def test_a_folder_at_a_url_is_one_on_this_machine(objects: Objects, tmp_path: Path) -> None:
    """What one writes, the others read, and the same is missing."""
    url = f"file://{tmp_path}/a b"
    here, there = Local(tmp_path / "a b"), uploads.Folder(url)
    far = uploads.Folder(f"s3://bucket/a b{objects.options}")
    assert [str(here), str(there), str(far)] == [str(tmp_path / "a b"), url, "s3://bucket/a b"]
    for folder in (here, there, far):
        assert (folder.hidden(), folder.files("exchanges")) == ([], [])
        folder.remove(".none")
    (tmp_path / "source").write_bytes(b"rows")
    for folder in (there, far):
        folder.write(".a.files.json", b"[1, 2]")
        folder.write(".a.files.json", b"[]")
        folder.write("visible", b"")
        folder.put(tmp_path / "source", "exchanges/capture_date=1/capture_hour=2/x-0001.parquet")
        folder.put(tmp_path / "source", "flows/capture_date=1/capture_hour=2/x-0001.parquet")
    for folder in (here, there, far):
        assert folder.hidden() == [".a.files.json"]
        assert [folder.read(".a.files.json", most) for most in (1, 2, 3)] == [b"[", b"[]", b"[]"]
        assert folder.files("exchanges") == ["exchanges/capture_date=1/capture_hour=2/x-0001.parquet"]
    for folder in (there, far):
        folder.remove(".a.files.json")
        assert folder.hidden() == []
    with pytest.raises(CaptureError, match="No such file"):
        far.read(".a.files.json", 1)


def test_a_stream_is_told_by_its_beginning(files: list[Path], tmp_path: Path) -> None:
    a, b, *_ = files
    made(Command(*EXPORT), tmp_path / "out", a)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def streamed() -> Result:
        writer = Thread(target=pipe.write_bytes, args=[a.read_bytes()])
        writer.start()
        try:
            return Command(*EXPORT).run(tmp_path / "out", pipe)
        finally:
            writer.join()

    result = streamed()
    assert result.exit_code == 0, result.stderr
    assert len(list((tmp_path / "out").glob(".*.files.json"))) == 1
    made(Command(*EXPORT), tmp_path / "out", a, b)
    assert streamed().exit_code == Exit.USAGE
    holds(Command(*EXPORT), tmp_path / "out", [a, b])


def test_captures_without_packets_are_not_each_other(tmp_path: Path) -> None:
    """All pcap files of a link type begin with the same bytes."""
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(traffic.LIBRDKAFKA.read_bytes()[:24])
    assert not File("empty.pcap", named(empty.read_bytes()), 24).is_now("a.pcap", traffic.LIBRDKAFKA.read_bytes())
    assert File("a.pcap", named(empty.read_bytes()), 24).is_now("a.pcap", traffic.LIBRDKAFKA.read_bytes())


def test_names_are_redacted_in_the_list(files: list[Path], tmp_path: Path) -> None:
    result = Command(*EXPORT[:-1], "--redact", "hosts", "-o").run(tmp_path / "out", files[0])
    assert result.exit_code == 0, result.stderr
    (path,) = (tmp_path / "out").glob(".*.files.json")
    assert [one["name"] for one in json.loads(path.read_bytes())] == ["capture-1"]


def test_a_damaged_list_is_refused(files: list[Path], tmp_path: Path) -> None:
    for text in ("", "{", "[1]", '[{"name": "a"}]', "7", "\xff"):
        (tmp_path / ".0123456789abcdef.files.json").write_text(text, encoding="latin-1")
        with pytest.raises(Unreadable, match="not a list of files"):
            origin(Local(tmp_path), heads(files))
    result = Command(*EXPORT).run(tmp_path, files[0])
    assert (result.exit_code, len(result.stderr.splitlines())) == (Exit.INPUT, 1)


def test_an_overlap_names_what_would_be_lost(files: list[Path], tmp_path: Path) -> None:
    folder = Local(tmp_path)
    origin(folder, heads(files)).begin(folder, "0123456789abcdef")
    with pytest.raises(Overlap) as raised:
        origin(folder, heads(files[:1]))
    assert raised.value.missing == [str(path) for path in files[1:]]
    assert origin(folder, heads(files)).replaced == ("0123456789abcdef",)
