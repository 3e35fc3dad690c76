"""Each file of a reading has the row in the table captures that it has alone, however the files are read together."""

from __future__ import annotations

import gzip
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.captures import joining
from kproxy.captures.decrypted import open_capture
from kproxy.captures.definitions import definitions
from kproxy.captures.keys import capture_id
from kproxy.captures.reader import Reader
from kproxy.captures.ring import segment_name
from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tables.files import FileCounter
from kproxy.captures.tables.schema import CAPTURES
from kproxy.captures.tls.keylog import read as read_secrets
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic
from tests.captures.spark.comparing import Rows, counted, exported
from tests.captures.spark.test_carrying import streamed
from tests.captures.spark.test_damaged import fragmented
from tests.captures.tls.test_decrypting import captured, conversation, spoken
from tests.captures.tls.wire import Wire
from tests.support.certificates import TestCa

SOME = traffic.packets(traffic.LIBRDKAFKA)[:600]
ONLY = ("captures",)
RAW, UNKNOWN = 101, 147
COUNT = 3
"""Number of files of one time."""


@pytest.fixture(autouse=True)
def _spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pcap(taken: Sequence[files.Packet]) -> bytes:
    return files.pcap(taken)


def nanoseconds(taken: Sequence[files.Packet]) -> bytes:
    return files.pcap([(time + number, frame) for number, (time, frame) in enumerate(taken)], nano=True, order=">")


def pcapng(taken: Sequence[files.Packet]) -> bytes:
    blocks = [files.enhanced(0, time // 1000, frame, comments=("a comment",)) for time, frame in taken]
    return b"".join([files.section(), files.interface(), *blocks])


def packed(taken: Sequence[files.Packet]) -> bytes:
    return gzip.compress(pcapng(taken))


def cut(taken: Sequence[files.Packet]) -> bytes:
    return files.pcap(taken)[:-7]


def cut_within(taken: Sequence[files.Packet]) -> bytes:
    return gzip.compress(files.pcap(taken)[:-7])


def cut_packed(taken: Sequence[files.Packet]) -> bytes:
    data = gzip.compress(files.pcap(taken))
    return data[: len(data) * 2 // 3]


def garbled(taken: Sequence[files.Packet]) -> bytes:
    """A file whose middle is no packet."""
    data, half = files.pcap(taken), len(files.pcap(taken[: len(taken) // 2]))
    return data[:half] + b"\xff" * 64 + data[half + 64 :]


def two_interfaces(taken: Sequence[files.Packet]) -> bytes:
    """Interfaces of different link layers and clocks: the second has units of 1/1024 s, a third packets of no TCP."""
    out = [files.section(), files.interface(), files.interface(RAW, resolution=0x80 | 10), files.interface()]
    for number, (time, frame) in enumerate(taken):
        if number % 3 == 0:
            out.append(files.enhanced(1, time * 1024 // 1_000_000_000, frame[14:]))
        else:
            out.append(files.enhanced(0, time // 1000, frame))
        if number % 50 == 0:
            out.append(files.enhanced(2, time // 1000, b"\xff" * 60))
    return b"".join(out)


def two_sections(taken: Sequence[files.Packet]) -> bytes:
    half = len(taken) // 2
    return pcapng(taken[:half]) + two_interfaces(taken[half:])


def in_fragments(taken: Sequence[files.Packet]) -> bytes:
    """IP fragments, some of them apart: packets of other files come between them."""
    pieces = fragmented(list(taken), random.Random(3))
    return files.pcap([(time + number % 2 * 50_000_000, frame) for number, (time, frame) in enumerate(pieces)])


def unknown_link(taken: Sequence[files.Packet]) -> bytes:
    """A file of a link layer that nobody can read, with an interface of another one."""
    blocks = [files.enhanced(number % 2, time // 1000, frame) for number, (time, frame) in enumerate(taken)]
    return b"".join([files.section(), files.interface(UNKNOWN), files.interface(), *blocks])


def unknown_alone(taken: Sequence[files.Packet]) -> bytes:
    return files.pcap(taken, link=UNKNOWN)


def unknown_and_cut(taken: Sequence[files.Packet]) -> bytes:
    return unknown_link(taken)[:-9]


SLICED = (pcap, nanoseconds, pcapng, unknown_alone)
"""Forms of files that Spark cuts into slices of time."""
WHOLE = (
    packed, cut, cut_within, cut_packed, garbled, two_interfaces, two_sections, in_fragments, unknown_link,
    unknown_and_cut,
)  # fmt: skip
Form = Callable[[Sequence[files.Packet]], bytes]


def shares(count: int) -> list[list[files.Packet]]:
    """Each connection in one of `count` files."""
    return [[one for one in SOME if sum(traffic.ports(one[1])) // 2 % count == number] for number in range(count)]


def written(folder: Path, forms: Sequence[Form]) -> list[Path]:
    """Files of one time, each in another form."""
    taken = shares(len(forms))
    paths = [folder / f"{number}.pcap" for number in random.Random(len(forms)).sample(range(99), len(forms))]
    return [files.write(path, form(one)) for path, form, one in zip(paths, forms, taken, strict=True)]


def rows(found: Rows) -> list[dict[str, Any]]:
    return [dict(row) for row in found["captures"].elements()]


def alone(path: Path) -> dict[str, Any]:
    """The row of a file that is exported by itself, without the id of the reading."""
    (row,) = rows(exported([path], tables=ONLY))
    assert row["capture_id"] == row["source_id"]
    return row


def assert_each_alone(found: Rows, paths: Sequence[Path], reading: str) -> None:
    """Assert that these are the rows that the files have alone, of one reading."""
    expected = [alone(path) | {"source_id": reading} for path in paths]
    assert sorted(rows(found), key=_order) == sorted(expected, key=_order)


def _order(row: dict[str, Any]) -> tuple[str, str]:
    return row["path"], row["capture_id"]


def reading_of(paths: Sequence[Path]) -> str:
    """The id of a reading, by the table flows."""
    (found,) = {dict(row)["source_id"] for row in exported(paths, tables=("flows",))["flows"]}
    return str(found)


def assert_all_engines(paths: Sequence[Path], *, slices: bool | None = None) -> None:
    """Assert that every engine gives the rows that the files have alone; `slices`: whether Spark reads slices."""
    reading = reading_of(paths)
    assert_each_alone(exported(paths, tables=ONLY), paths, reading)
    for size in (1 << 12, 1 << 40):
        sent, planned, order = local.ordered(plan(paths, size), size)
        assert sent
        if slices is not None:
            assert [split.slice is not None for split in planned.splits] == [slices] * len(planned.splits)
            assert len(planned.splits) > 1 or not slices or size > 1 << 12
        assert order.capture == reading
        found = local.of_plan(planned, Options(ONLY), size=size)["captures"].to_pylist()
        assert_each_alone({"captures": counted(found)}, paths, reading)
    (followed,) = streamed([paths], options=Options(ONLY))
    assert_each_alone(followed, paths, reading)


def merged_again(_: object) -> Iterator[bytes]:
    yield pytest.fail("merged again")


@pytest.mark.parametrize("seed", range(3))
def test_files_that_are_read_in_slices(seed: int, tmp_path: Path) -> None:
    forms = random.Random(seed).sample(SLICED, COUNT)
    paths = written(tmp_path, forms)
    assert len({alone(path)["capture_id"] for path in paths}) == COUNT
    assert_all_engines(paths, slices=True)


@pytest.mark.parametrize("form", WHOLE)
def test_files_that_one_task_merges(form: Form, tmp_path: Path) -> None:
    paths = written(tmp_path, [pcap, form, nanoseconds])
    assert_all_engines(paths, slices=False)
    assert sum(row["truncated"] for row in map(alone, paths)) == (
        form in {cut, cut_within, cut_packed, garbled, unknown_link, unknown_and_cut}
    )


def test_all_errors_of_a_file_are_in_its_row(tmp_path: Path) -> None:
    path = files.write(tmp_path / "a.pcap", unknown_and_cut(SOME))
    error = alone(path)["error"]
    assert [text.split()[0] for text in error.split("; ")] == ["ends", "packets"]


def test_any_order_and_a_merged_file_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path, [cut, nanoseconds, packed, two_interfaces])
    reading = reading_of(paths)
    for turned in (paths[::-1], paths[2:] + paths[:2]):
        assert_each_alone(exported(turned, tables=ONLY), paths, reading_of(turned))
    whole = written(tmp_path, [pcap, nanoseconds, packed])
    reading = reading_of(whole)
    monkeypatch.setattr(joining, "merged", merged_again)
    assert_each_alone(exported(whole, tables=ONLY), whole, reading)


def test_files_without_packets_and_files_of_other_times_beside_them(tmp_path: Path) -> None:
    later = [(time + 4_000 * 1_000_000_000, frame) for time, frame in SOME]
    paths = written(tmp_path, [cut, pcap])
    paths += [
        files.write(tmp_path / "later", pcap(later)),
        files.write(tmp_path / "empty", b""),
        files.write(tmp_path / "header", pcap([])),
        files.write(tmp_path / "text", b"nothing that is a capture"),
    ]
    assert_all_engines(paths)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Such names are equal in the rows of Parquet, but each file keeps its own counts."""
    paths = [Path(os.fsdecode(os.fsencode(tmp_path) + one)) for one in (b"/\xff", b"/\xfe")]
    for path, taken in zip(paths, shares(2), strict=True):
        path.write_bytes(pcap(taken))
    assert_all_engines(paths, slices=True)


@pytest.mark.parametrize("forms", [[cut, nanoseconds, two_sections], [in_fragments] * 4], ids=["any", "fragments"])
def test_many_batches(forms: Sequence[Form], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts do not depend on how much of the files is read at once."""
    paths = written(tmp_path, forms)
    expected, reading = exported(paths, tables=ONLY), reading_of(paths)
    monkeypatch.setattr("kproxy.captures.spark.read.reading.BATCH", 7)
    (found,) = streamed([paths], options=Options(ONLY))
    assert found == expected
    assert_each_alone(found, paths, reading)


def test_a_recording(tmp_path: Path) -> None:
    """Each segment has a row, also an empty one."""
    folder = tmp_path / "recording"
    folder.mkdir()
    paths = []
    for number, data in enumerate((pcap(SOME[:200]), b"", pcap(SOME[200:]))):
        paths.append(files.write(folder / segment_name(number + 1, SOME[200 * min(number, 1)][0] / 1e9 + number), data))
    reading = reading_of([folder])
    assert_each_alone(exported([folder], tables=ONLY), paths, reading)
    found = local.tables([folder], Options(ONLY))["captures"].to_pylist()
    assert_each_alone({"captures": counted(found)}, paths, reading)


def test_segments_that_are_deleted_once_they_were_read(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    folder.mkdir()
    paths = [
        files.write(folder / segment_name(number, taken[0][0] / 1e9), pcap(taken))
        for number, taken in enumerate((SOME[:200], SOME[200:400], SOME[400:]), 1)
    ]
    expected = [alone(path) for path in paths]
    with closing(open_capture(folder)) as source:
        reading = capture_id(source)
        counter = FileCounter(reading, source)
        reader = Reader(source, definitions(), watch=counter.packets)
        bases = [part.base for part in source.parts]
        for _ in reader.batches():
            for path, base in zip(paths, bases[:2], strict=False):
                if reader.position > base:
                    path.unlink(missing_ok=True)
        assert len(source.parts) < len(paths)
        columns = [column.name for column in CAPTURES.given]
        found = [dict(zip(columns, row, strict=True)) for row in counter.rows(reader)]
    assert found == [{name: row[name] for name in columns} | {"source_id": reading} for row in expected]


def test_batches_of_a_folder_that_is_followed(tmp_path: Path) -> None:
    """The rows of files of an earlier batch stay, with the id of the first batch's reading."""
    later = [(time + 4_000 * 1_000_000_000, frame) for time, frame in SOME]
    first = written(tmp_path, [cut, pcap])
    second = [files.write(tmp_path / f"later-{n}", pcap(later[n::2])) for n in range(2)]
    found = streamed([first, second], options=Options(ONLY))
    reading = reading_of(first)
    assert_each_alone(found[0], first, reading)
    assert_each_alone(found[1], [*first, *second], reading)


def test_files_with_tls_that_is_decrypted(tmp_path: Path) -> None:
    """The rows tell of the files as they are: sizes, times and ids are those of the encrypted captures."""
    wire = Wire(tmp_path, TestCa(tmp_path, "ca").leaf("broker", "localhost"))
    spoken(wire, conversation())
    half = len(wire.packets) // 2
    paths = [captured(tmp_path / "b.pcap", wire.packets[half:]), captured(tmp_path / "a.pcap", wire.packets[:half])]
    for name, later in (("plain", 0), ("cut", 0), ("short", 3_600_000_000_000)):
        time = wire.packets[0][0] + later
        moved = [(time + number, frame) for number, (_, frame) in enumerate(SOME[:100])]
        paths.append(files.write(tmp_path / name, files.pcap(moved)[: None if name == "plain" else -ord(name[0])]))
    log = tmp_path / "keys.log"
    log.write_bytes(wire.log.read_bytes())
    for given in (paths, paths[1:2]):
        found = exported(given, "--keylog", str(log), tables=(*ONLY, "flows"))
        assert not all(dict(row)["tls"] for row in found["flows"])
        (reading,) = {dict(row)["source_id"] for row in found["flows"]}
        assert_each_alone({"captures": found["captures"]}, given, reading)
        made = local.tables(given, Options(ONLY), secrets=read_secrets(log))["captures"].to_pylist()
        assert_each_alone({"captures": counted(made)}, given, reading)
    said = CliRunner().invoke(main, ["export", *map(str, paths), "--keylog", str(log), "-o", str(tmp_path / "out")])
    assert said.exit_code == Exit.INPUT
    assert [str(path) in said.stderr for path in paths] == [False, False, False, True, True]


def test_a_pipe_among_the_files(tmp_path: Path) -> None:
    """A pipe cannot be read twice: what its row says was noted before it was merged."""
    paths = written(tmp_path, [cut, pcap])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeding = Thread(target=pipe.write_bytes, args=(paths[0].read_bytes(),))
    feeding.start()
    found = exported([pipe, paths[1]], tables=(*ONLY, "flows"))
    feeding.join()
    (reading,) = {dict(row)["source_id"] for row in found["flows"]}
    expected = [alone(paths[0]) | {"path": str(pipe)}, alone(paths[1])]
    assert sorted(rows(found), key=_order) == sorted((row | {"source_id": reading} for row in expected), key=_order)


def test_redacted_names(tmp_path: Path) -> None:
    paths = written(tmp_path, [cut, pcap])
    found = rows(exported(paths, "--redact", "hosts", tables=ONLY))
    assert all(str(path) not in str(row) for path in paths for row in found)
    assert len({row["path"] for row in found}) == 2
    expected = Counter((row["size"], row["packets"], row["error"]) for row in map(alone, paths))
    assert Counter((row["size"], row["packets"], row["error"]) for row in found) == expected


@pytest.mark.parametrize("engine", ["export", "spark"])
def test_every_bad_file_among_merged_ones_is_named(engine: str, tmp_path: Path) -> None:
    forms: list[Form] = [pcap, cut, cut_packed, garbled, unknown_link, nanoseconds]
    paths = written(tmp_path, forms)
    more = ["--format", "parquet"] if engine == "export" else ["--engine", "local"]
    result = CliRunner().invoke(main, [engine, *map(str, paths), *more, "-o", str(tmp_path / "out")])
    assert result.exit_code == Exit.INPUT
    assert [str(path) in result.stderr for path in paths] == [form not in {pcap, nanoseconds} for form in forms]
    found = {row["path"]: row["error"] for row in rows(exported(paths, tables=ONLY))}
    assert [found[str(path)] is not None for path in paths] == [form not in {pcap, nanoseconds} for form in forms]
