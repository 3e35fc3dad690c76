"""Tables of files that a folder has already replace the earlier ones or are refused: no row twice, none lost."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from kproxy.captures.keys import HEAD, named
from kproxy.captures.tables.origin import File, Overlap, Unreadable, heads, origin
from kproxy.captures.tables.schema import USUAL
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import traffic
from tests.captures.spark.comparing import assert_same, exported, written

COMMANDS = (("export", "--format", "parquet", "-o"), ("spark", "--engine", "local", "--out"))


@pytest.fixture(params=COMMANDS, ids=["export", "spark"])
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    chosen: tuple[str, ...] = request.param
    return chosen


def write(command: tuple[str, ...], out: Path, *captures: Path) -> Result:
    name, *options = command
    return CliRunner().invoke(main, [name, *map(str, captures), *options, str(out)])


def made(command: tuple[str, ...], out: Path, *captures: Path) -> None:
    result = write(command, out, *captures)
    assert result.exit_code == 0, result.stderr


def refused(command: tuple[str, ...], out: Path, captures: Sequence[Path], words: str) -> None:
    """Nothing changes in the folder."""
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    result = write(command, out, *captures)
    assert result.exit_code == Exit.USAGE, result.stderr
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == before
    assert not list(out.glob(".*.partial"))


def holds(out: Path, *readings: Sequence[Path]) -> None:
    """The folder has the rows of these readings, each once."""
    expected = [exported(list(reading), tables=USUAL) for reading in readings]
    assert_same(
        written(out, USUAL),
        {name: sum((one[name] for one in expected), start=type(expected[0][name])()) for name in USUAL},
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four captures that follow each other."""
    folder, whole = tmp_path_factory.mktemp("files"), traffic.LIBRDKAFKA.read_bytes()
    borders = [24, *(ends(whole, len(whole) * part // 4) for part in (1, 2, 3)), len(whole)]
    found = []
    for number, (start, end) in enumerate(pairwise(borders)):
        found.append(folder / f"{number}.pcap")
        found[-1].write_bytes(whole[:24] + whole[start:end])
    return found


def ends(whole: bytes, wanted: int) -> int:
    """The end of the packet at an offset of a pcap file."""
    at = 24
    while at < min(wanted, len(whole)):
        at += 16 + int.from_bytes(whole[at + 8 : at + 12], "little")
    return at


def test_fewer_files_than_before_are_refused(command: tuple[str, ...], files: list[Path], tmp_path: Path) -> None:
    a, b, *_ = files
    made(command, tmp_path / "out", a, b)
    refused(command, tmp_path / "out", [a], f"read together with {b}")
    refused(command, tmp_path / "out", [b], f"read together with {a}")
    holds(tmp_path / "out", [a, b])


def test_more_files_than_before_replace(command: tuple[str, ...], files: list[Path], tmp_path: Path) -> None:
    a, b, c, _ = files
    made(command, tmp_path / "out", b)
    made(command, tmp_path / "out", c)
    holds(tmp_path / "out", [b], [c])
    made(command, tmp_path / "out", a, b, c)
    holds(tmp_path / "out", [a, b, c])
    made(command, tmp_path / "out", c, b, a)
    holds(tmp_path / "out", [a, b, c])


def test_a_ring_that_moved_on_is_refused(command: tuple[str, ...], files: list[Path], tmp_path: Path) -> None:
    a, b, c, d = files
    made(command, tmp_path / "out", a, b, c)
    refused(command, tmp_path / "out", [b, c, d], f"{b} read together with {a}")
    holds(tmp_path / "out", [a, b, c])


def test_a_file_that_grew_replaces_what_it_was(command: tuple[str, ...], tmp_path: Path) -> None:
    """Short ones too, whose identity is of fewer bytes than it will be."""
    whole = traffic.LIBRDKAFKA.read_bytes()
    file = tmp_path / "a.pcap"
    for wanted in (24, 200, 3000, 30_000, HEAD + 10_000, len(whole)):
        file.write_bytes(whole[: ends(whole, wanted)])
        made(command, tmp_path / "out", file)
        holds(tmp_path / "out", [file])


def test_the_same_file_by_another_path_replaces(command: tuple[str, ...], files: list[Path], tmp_path: Path) -> None:
    a, b, *_ = files
    moved = [tmp_path / "x.pcap", tmp_path / "y.pcap.gz"]
    moved[0].write_bytes(a.read_bytes())
    moved[1].write_bytes(gzip.compress(b.read_bytes()))
    made(command, tmp_path / "out", a, b)
    made(command, tmp_path / "out", *moved)
    holds(tmp_path / "out", moved)
    refused(command, tmp_path / "out", [b], "read together with")


def test_a_stream_is_told_by_its_beginning(files: list[Path], tmp_path: Path) -> None:
    a, b, *_ = files
    made(COMMANDS[0], tmp_path / "out", a)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def streamed() -> Result:
        writer = Thread(target=pipe.write_bytes, args=[a.read_bytes()])
        writer.start()
        try:
            return write(COMMANDS[0], tmp_path / "out", pipe)
        finally:
            writer.join()

    result = streamed()
    assert result.exit_code == 0, result.stderr
    assert len(list((tmp_path / "out").glob(".*.files.json"))) == 1
    made(COMMANDS[0], tmp_path / "out", a, b)
    assert streamed().exit_code == Exit.USAGE
    holds(tmp_path / "out", [a, b])


def test_captures_without_packets_are_not_each_other(tmp_path: Path) -> None:
    """All pcap files of a link type begin with the same bytes."""
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(traffic.LIBRDKAFKA.read_bytes()[:24])
    assert not File("empty.pcap", named(empty.read_bytes()), 24).is_now("a.pcap", traffic.LIBRDKAFKA.read_bytes())
    assert File("a.pcap", named(empty.read_bytes()), 24).is_now("a.pcap", traffic.LIBRDKAFKA.read_bytes())


def test_names_are_redacted_in_the_list(files: list[Path], tmp_path: Path) -> None:
    result = write((*COMMANDS[0][:-1], "--redact", "hosts", "-o"), tmp_path / "out", files[0])
    assert result.exit_code == 0, result.stderr
    (path,) = (tmp_path / "out").glob(".*.files.json")
    assert [one["name"] for one in json.loads(path.read_bytes())] == ["capture-1"]


def test_a_damaged_list_is_refused(files: list[Path], tmp_path: Path) -> None:
    for text in ("", "{", "[1]", '[{"name": "a"}]', "7", "\xff"):
        (tmp_path / ".0123456789abcdef.files.json").write_text(text, encoding="latin-1")
        with pytest.raises(Unreadable, match="not a list of files"):
            origin(tmp_path, heads(files))
    result = write(COMMANDS[0], tmp_path, files[0])
    assert (result.exit_code, len(result.stderr.splitlines())) == (Exit.INPUT, 1)


def test_an_overlap_names_what_would_be_lost(files: list[Path], tmp_path: Path) -> None:
    origin(tmp_path, heads(files)).write(tmp_path, "0123456789abcdef")
    with pytest.raises(Overlap) as raised:
        origin(tmp_path, heads(files[:1]))
    assert raised.value.missing == [str(path) for path in files[1:]]
    assert origin(tmp_path, heads(files)).replaced == ("0123456789abcdef",)
