"""Tables of captures some of which are there already: what must become of them, in whichever way they are written."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

from click.testing import CliRunner, Result

from kproxy.captures.keys import HEAD
from kproxy.captures.tables.schema import USUAL
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import traffic
from tests.captures.spark.comparing import assert_same, exported, written
from tests.captures.spark.test_files import moved
from tests.support.objects import Objects

# --- where captures and tables are -----------------------------------------------------------------------------------


class Place:
    """On this machine, named by paths."""

    fetched = False
    """Whether files must be fetched from there."""

    def url(self, path: Path) -> str:
        """What the user says for a file or folder."""
        return self.name(path)

    def name(self, path: Path) -> str:
        """What kproxy says for it."""
        return str(path)

    def fetch(self, folder: Path) -> None:
        """Make the folder's files those that are in this place."""


class FileUrls(Place):
    """On this machine, named by URLs."""

    def name(self, path: Path) -> str:
        return f"file://{path}"


class Bucket(Place):
    """In an object store; a capture gets there when its URL is asked."""

    fetched = True

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def url(self, path: Path) -> str:
        if path.is_file():
            self._objects.held[f"bucket{path}"] = path.read_bytes()
        return f"{self.name(path)}{self._objects.options}"

    def name(self, path: Path) -> str:
        return f"s3://bucket{path}"

    def fetch(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in self._objects.held.items():
            path = Path(name.removeprefix("bucket"))
            if path.is_relative_to(folder) and data:  # empty objects stand for folders
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


HERE: Final = Place()


# --- ways to write ---------------------------------------------------------------------------------------------------


class Way(Protocol):
    """A way to write tables, with the places of captures and tables."""

    @property
    def captures(self) -> Place: ...

    @property
    def tables(self) -> Place: ...

    def write(self, out: Path, captures: Sequence[Path]) -> str | None:
        """Write the tables of captures; returns why they are refused, or None."""


class Command:
    """By a command in this process; its last argument is the option that names the folder."""

    def __init__(self, *command: str, captures: Place = HERE, tables: Place = HERE) -> None:
        self.captures = captures
        self.tables = tables
        self._command = command

    def run(self, out: Path, *captures: Path) -> Result:
        name, *options = self._command
        return CliRunner().invoke(main, [name, *map(self.captures.url, captures), *options, self.tables.url(out)])

    def write(self, out: Path, captures: Sequence[Path]) -> str | None:
        result = self.run(out, *captures)
        if result.exit_code == Exit.OK:
            return None
        assert result.exit_code == Exit.USAGE, result.output
        assert len(result.stderr.splitlines()) == 1
        return result.stderr


EXPORT: Final = ("export", "--format", "parquet", "-o")
LOCAL: Final = ("spark", "--engine", "local", "--out")


def made(way: Way, out: Path, *captures: Path) -> None:
    reason = way.write(out, captures)
    assert reason is None, reason


def refused(way: Way, out: Path, captures: Sequence[Path], capture: Path, missing: Path) -> None:
    """A reading of `captures` is refused, because tables of `capture` were made together with `missing`.

    Nothing changes in the folder.
    """
    before = _content(way, out)
    reason = way.write(out, captures)
    assert reason is not None
    assert f"{way.tables.name(out)}: holds tables of {way.captures.name(capture)} read together with " in reason
    assert f"read together with {way.captures.name(missing)}" in reason
    assert _content(way, out) == before


def holds(way: Way, out: Path, *readings: Sequence[Path]) -> None:
    """The folder has the rows of these readings, each once, and lists them."""
    way.tables.fetch(out)
    expected = [exported(list(reading), tables=USUAL) for reading in readings]
    names = {str(path): way.captures.name(path) for reading in readings for path in reading}
    assert_same(
        written(out, USUAL),
        moved({name: sum((one[name] for one in expected), start=type(expected[0][name])()) for name in USUAL}, names),
    )
    assert len(list(out.glob(".*.files.json"))) == len(readings)
    assert not list(out.glob(".*.partial"))


def _content(way: Way, out: Path) -> dict[Path, tuple[int, bytes]]:
    """The files of a folder of tables, hidden ones too, each with the time (ns) when it was written where that is
    known.
    """
    way.tables.fetch(out)
    files = [path for path in out.rglob("*") if path.is_file()]
    return {path: (0 if way.tables.fetched else path.stat().st_mtime_ns, path.read_bytes()) for path in files}


# --- captures --------------------------------------------------------------------------------------------------------


def four(folder: Path) -> list[Path]:
    """Four captures that follow each other."""
    whole = traffic.LIBRDKAFKA.read_bytes()
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


# --- what must become of them ----------------------------------------------------------------------------------------


def fewer_files_than_before_are_refused(way: Way, files: list[Path], folder: Path) -> None:
    a, b, *_ = files
    made(way, folder / "out", a, b)
    refused(way, folder / "out", [a], a, b)
    refused(way, folder / "out", [b], b, a)
    holds(way, folder / "out", [a, b])


def more_files_than_before_replace(way: Way, files: list[Path], folder: Path) -> None:
    a, b, c, _ = files
    made(way, folder / "out", b)
    made(way, folder / "out", c)
    holds(way, folder / "out", [b], [c])
    made(way, folder / "out", a, b, c)
    holds(way, folder / "out", [a, b, c])
    made(way, folder / "out", c, b, a)
    holds(way, folder / "out", [a, b, c])


def a_ring_that_moved_on_is_refused(way: Way, files: list[Path], folder: Path) -> None:
    a, b, c, d = files
    made(way, folder / "out", a, b, c)
    refused(way, folder / "out", [b, c, d], b, a)
    holds(way, folder / "out", [a, b, c])


def a_file_that_grew_replaces_what_it_was(way: Way, files: list[Path], folder: Path) -> None:  # noqa: ARG001
    """Short ones too, whose identity is of fewer bytes than it will be."""
    whole = traffic.LIBRDKAFKA.read_bytes()
    file = folder / "a.pcap"
    for wanted in (24, 200, 3000, 30_000, HEAD + 10_000, len(whole)):
        file.write_bytes(whole[: ends(whole, wanted)])
        made(way, folder / "out", file)
        holds(way, folder / "out", [file])


def the_same_file_by_another_path_replaces(way: Way, files: list[Path], folder: Path) -> None:
    a, b, *_ = files
    other = [folder / "x.pcap", folder / "y.pcap.gz"]
    other[0].write_bytes(a.read_bytes())
    other[1].write_bytes(gzip.compress(b.read_bytes()))
    made(way, folder / "out", a, b)
    made(way, folder / "out", *other)
    holds(way, folder / "out", other)
    refused(way, folder / "out", [b], other[1], other[0])
    made(way, folder / "out", a, b)
    refused(way, folder / "out", other[1:], b, a)


Case = Callable[[Way, list[Path], Path], None]
CASES: Final[tuple[Case, ...]] = (
    fewer_files_than_before_are_refused,
    more_files_than_before_replace,
    a_ring_that_moved_on_is_refused,
    a_file_that_grew_replaces_what_it_was,
    the_same_file_by_another_path_replaces,
)
