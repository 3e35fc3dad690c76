"""Several files read as one give what the whole capture gives, whatever their names, order, formats and overlaps."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.captures import joining
from kproxy.captures.errors import CaptureError
from kproxy.captures.joining import JoinedSource, Span, overlapping
from kproxy.captures.opening import open_source
from kproxy.captures.reader import read
from kproxy.captures.spool import Spool
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic

WHOLE = traffic.exported(traffic.KAFKA_1_1)


@pytest.fixture(autouse=True)
def _spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(directory: Path, number: int, taken: list[files.Packet]) -> Path:
    """Write packets in one of several formats, chosen by `number`."""
    forms = (
        files.pcap(taken),
        traffic.pcapng(taken),
        gzip.compress(files.pcap(taken, order=">")),
        files.pcap(taken, nano=True),
    )
    return files.write(directory / f"{random.Random(number).random()}", forms[number % len(forms)])


def same(reader_lines: list[dict[str, object]]) -> None:
    """Assert that these are the exchanges of the whole capture; times may have more digits."""
    cut = traffic.comparable(reader_lines).replace('000Z"', 'Z"')
    assert cut == traffic.comparable(WHOLE).replace('000Z"', 'Z"')


@pytest.mark.parametrize("seed", range(4))
def test_a_rotated_ring_in_any_order(seed: int, tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    dice = random.Random(seed)
    cuts = [0, *sorted(dice.sample(range(1, len(taken)), 5)), len(taken)]
    paths = [written(tmp_path, i, taken[a:b]) for i, (a, b) in enumerate(pairwise(cuts))]
    dice.shuffle(paths)
    source = open_source(paths)
    assert len(source.parts) == len(paths)
    same(traffic.lines(read(source)))


@pytest.mark.parametrize("seed", range(4))
def test_captures_of_the_same_time_are_merged(seed: int, tmp_path: Path) -> None:
    """Each packet is in one of three files: two of the same time span, and one with the last packets."""
    taken = traffic.packets(traffic.KAFKA_1_1)
    dice = random.Random(seed)
    last = len(taken) - 300
    shares: list[list[files.Packet]] = [[], [], taken[last:]]
    for packet in taken[:last]:
        shares[dice.randrange(2)].append(packet)
    paths = [written(tmp_path, i + seed, share) for i, share in enumerate(shares)]
    dice.shuffle(paths)
    source = open_source(paths)
    assert len(source.parts) == 2
    same(traffic.lines(read(source)))


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_of_equal_times_the_first_file_comes_first(batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of each file is read at once."""
    monkeypatch.setattr(joining, "BATCH", batch)
    frames = [[bytes([number, file]) + bytes(60) for number in range(5)] for file in range(2)]
    times = [[0, 1000, 1000, 1000, 2000], [500, 1000, 1000, 1000, 1000]]
    paths = [
        files.write(tmp_path / f"{file}.pcap", files.pcap(zip(times[file], frames[file], strict=True)))
        for file in range(2)
    ]
    (part,) = JoinedSource(paths).parts
    stream = joining.Stream(part.view)
    found = []
    while stream.fill():
        found += [(data[1], data[0]) for _, _, data, *_ in map(stream.packet, range(len(stream.keys)))]
        stream.drop(len(stream.keys))
    assert found == [(0, 0), (1, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (1, 4), (0, 4)]


def test_what_two_devices_captured_is_decoded_once(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    again = [(time + 12_000, frame) for time, frame in taken]
    reader = read([files.write(tmp_path / "a", files.pcap(taken)), files.write(tmp_path / "b", files.pcap(again))])
    found = traffic.lines(reader)
    assert traffic.exchanges(found) == traffic.exchanges(WHOLE)
    with_data = sum(traffic.payload(frame) > 0 for _, frame in taken)
    assert WHOLE[-1]["repeated"] == 3  # keep-alives have no data, these are retransmissions
    assert found[-1]["repeated"] == with_data + WHOLE[-1]["repeated"]
    assert found[-1]["packets"] == 2 * len(taken)


def test_comments_drops_and_links_survive_a_merge(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    one = [
        files.section(),
        files.interface(),
        *(files.enhanced(0, time // 1000, frame, comments=["a note"]) for time, frame in taken[::2]),
        files.statistics(0, 17),
    ]
    raw = [(time, frame[14:]) for time, frame in taken[1::2]]
    paths = [files.write(tmp_path / "a", b"".join(one)), files.write(tmp_path / "b", files.pcap(raw, link=101))]
    found = traffic.lines(read(paths))
    exchanges = traffic.exchanges(found)
    assert len(exchanges) == len(traffic.exchanges(WHOLE))
    assert found[-1]["recorder_dropped"] == 17
    assert any(line["request"].get("comments") == ["a note"] for line in exchanges if line["request"])


def test_one_that_cannot_be_read_is_told_last(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    paths = [
        files.write(tmp_path / "text", b"no capture at all"),
        files.write(tmp_path / "b", files.pcap(taken[1::2])[:-3]),
        files.write(tmp_path / "a", files.pcap(taken[::2])),
    ]
    reader = read(paths)
    with pytest.raises(CaptureError, match=r"b: byte \d+: ends inside a packet"):
        list(reader)
    assert reader.health.packets == len(taken) - 1


def test_each_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    paths = [
        files.write(tmp_path / "whole", files.pcap(taken[::3])),
        files.write(tmp_path / "cut", files.pcap(taken[1::3])[:-3]),
        files.write(tmp_path / "cut.gz", gzip.compress(files.pcap(taken[2::3]))[:-9]),
    ]
    reader = read(paths)
    with pytest.raises(CaptureError, match=r"cut: byte \d+: ends inside a packet"):
        list(reader)
    assert [str(error.path) for error in reader.errors] == [str(paths[1]), str(paths[2])]


def test_a_file_given_twice_is_read_once() -> None:
    assert traffic.lines(read([traffic.KAFKA_1_1, traffic.KAFKA_1_1])) == WHOLE


def test_which_overlap() -> None:
    second = 1_000_000_000
    spans = [Span(0, 10 * second, 0), Span(20 * second, 30 * second, 1), Span(30 * second - 1000, 40 * second, 2)]
    spans += [Span(5 * second, 6 * second, 3), Span(8 * second, 12 * second, 4)]
    assert [[one.index for one in group] for group in overlapping(spans)] == [[0, 3, 4], [1], [2]]


def test_addresses_stay_where_parts_are_opened_as_they_are(tmp_path: Path) -> None:
    """A viewer that opens the parts of another process's source finds the same bytes at the same addresses."""
    taken = traffic.packets(traffic.KAFKA_1_1)
    source = JoinedSource([written(tmp_path, 2, taken[700:]), written(tmp_path, 6, taken[:700])])
    viewed = open_source([part.path for part in source.parts], ordered=True)
    assert viewed.size == source.size
    assert bytes(viewed.read(0, viewed.size)) == bytes(source.read(0, source.size))


def test_the_output_is_none_of_what_was_merged(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    paths = [files.write(tmp_path / f"{i}.pcap", files.pcap(taken[i::2])) for i in range(2)]
    before = paths[1].read_bytes()
    result = CliRunner().invoke(main, ["export", *map(str, paths), "-o", str(paths[1])])
    assert result.exit_code == Exit.USAGE
    assert "this is the input capture" in result.stderr
    assert paths[1].read_bytes() == before


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_what_was_merged_is_kept_as_long_as_its_files_are_the_same(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    paths = [files.write(tmp_path / f"{each}.pcap", files.pcap(taken[each::2])) for each in range(2)]

    def spool() -> Spool:
        source = open_source(paths)
        (part,) = source.parts
        assert part.spool is not None
        same(traffic.lines(read(source)))
        source.close()
        return part.spool

    assert [spool().lent for _ in range(2)] == [False, True]
    data, status = bytearray(paths[1].read_bytes()), paths[1].stat()
    data[len(data) // 2] ^= 0xFF

    def change() -> None:
        other = files.write(tmp_path / "other", bytes(data))
        other.replace(paths[1])
        os.utime(paths[1], ns=(status.st_atime_ns, status.st_mtime_ns))

    if moment == "before":
        change()
        source = open_source(paths)
        assert source.parts[0].spool is not None
        assert not source.parts[0].spool.lent
        source.close()
        return
    # content of the old files must not be taken for that of the new ones
    which = joining.overlapping

    def changed(spans: Sequence[Span]) -> list[list[Span]]:
        change()
        return which(spans)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    with monkeypatch.context() as patched:
        patched.setattr(joining, "overlapping", changed)
        open_source(paths).close()
    source = open_source(paths)
    assert source.parts[0].spool is not None
    assert not source.parts[0].spool.lent
    source.close()
