"""Merging and splitting captures: every packet appears once, unchanged."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures import repacking
from kproxy.captures.opening import open_source
from kproxy.captures.repacking import Packet, Packets, by_size, by_time, split
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic

RAW = 101


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def packets(*paths: Path) -> list[tuple[int, int, int, bytes, str | None]]:
    source = open_source(list(paths))
    found = [(one.time, one.link, one.wire, bytes(one.data), one.comment) for one in Packets(source)]
    source.close()
    return found


def exchanges(*paths: Path) -> list[dict[str, Any]]:
    found = traffic.exchanges([json.loads(line) for line in run("export", *paths).stdout.splitlines()])
    for line in found:
        for side in ("request", "response"):
            if line[side] is not None:
                line[side]["timestamp"] = line[side]["timestamp"][:26]
    return found


def test_what_was_split_and_merged_again_is_what_it_was(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)
    # packets of equal time come in the order of the captures
    thirds = [[one for one in taken if one[0] // 1000 % 3 == i] for i in range(3)]
    parts = [files.write(tmp_path / f"{i}.pcap", files.pcap(each)) for i, each in enumerate(thirds)]
    out = tmp_path / "all.pcapng"
    assert run("merge", *parts, "-o", out).exit_code == Exit.OK
    assert packets(out) == packets(traffic.LIBRDKAFKA)
    assert exchanges(out) == exchanges(traffic.LIBRDKAFKA)


def test_link_layers_and_comments_stay(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)[:30]
    blocks = [files.enhanced(0, time // 1000, frame, comments=["seen"]) for time, frame in taken[:15]]
    told = files.write(tmp_path / "told.pcapng", b"".join([files.section(), files.interface(), *blocks]))
    raw = files.write(tmp_path / "raw.pcap", files.pcap([(t, f[14:]) for t, f in taken[15:]], link=RAW, snap=100))
    out = tmp_path / "out.pcapng"
    assert run("merge", raw, told, "-o", out).exit_code == Exit.OK
    assert packets(out) == [*packets(told), *packets(raw)]
    assert Counter(link for _, link, *_ in packets(out)) == {files.ETHERNET: 15, RAW: 15}


@pytest.mark.parametrize("arguments", [("--size", "20K"), ("--time", "1s"), ("--connection",)])
def test_every_packet_is_in_one_file(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run("split", traffic.KAFKA_1_1, *arguments, "-o", tmp_path / "out")
    assert result.exit_code == Exit.OK
    parts = [Path(line) for line in result.stdout.splitlines()]
    assert len(parts) > 5
    assert sorted(parts) == sorted((tmp_path / "out").iterdir())
    assert sorted(one for part in parts for one in packets(part)) == sorted(packets(traffic.KAFKA_1_1))
    if arguments[0] != "--connection":
        assert exchanges(*parts) == exchanges(traffic.KAFKA_1_1)
    if arguments[0] == "--size":
        assert all(part.stat().st_size <= 20 * 1024 or len(packets(part)) == 1 for part in parts)
    if arguments[0] == "--time":
        assert all(len({one[0] // 1_000_000_000 for one in packets(part)}) == 1 for part in parts)


def test_a_connection_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repacking, "_OPEN", 2)
    names = run("split", traffic.LIBRDKAFKA, "--connection", "-o", tmp_path).stdout.splitlines()
    together = exchanges(traffic.LIBRDKAFKA)
    apart = [line for name in names for line in exchanges(Path(name))]
    assert len(apart) == len(together)
    for name in names:
        found = exchanges(Path(name))
        assert len({(line["client"], line["broker"]) for line in found}) == 1
        assert found[0]["client"].rpartition(":")[2] in name


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 1000))
def test_sizes_hold_for_any_packets(sizes: list[int], most: int) -> None:
    import tempfile

    taken = [Packet(i, 1, size, memoryview(bytes(size)), None) for i, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory() as folder:
        found = split(taken, Path(folder), by_size("x", most))
        assert sum(found.values()) == len(sizes)
        for name, count in found.items():
            assert (Path(folder) / name).stat().st_size <= max(most, 0) or count == 1


def test_times_are_cut_where_the_clock_is(tmp_path: Path) -> None:
    taken = [Packet(time, 1, 1, memoryview(b"x"), None) for time in (5, 9, 10, 11, 35)]
    assert list(split(taken, tmp_path, by_time("t", 10)).values()) == [2, 2, 1]


def test_a_cut_capture_is_merged_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = files.write(tmp_path / "cut.pcap", traffic.LIBRDKAFKA.read_bytes()[:100_000])
    out = tmp_path / "out.pcapng"
    result = run("merge", cut, "-o", out)
    assert result.exit_code == Exit.INPUT
    assert len(packets(out)) > 100


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("command", [("merge", "-o", "out.pcapng"), ("split", "--time", "1s", "-o", "out")])
def test_an_empty_file_is_said_to_be_empty(
    command: tuple[str, ...], packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = files.write(tmp_path / "empty", gzip.compress(b"") if packed else b"")
    result = run(*command, path)
    assert result.exit_code == Exit.INPUT
    assert "is empty" in result.stderr


def test_usage(tmp_path: Path) -> None:
    assert run("split", traffic.LIBRDKAFKA, "-o", tmp_path).exit_code == Exit.USAGE
    assert run("split", traffic.LIBRDKAFKA, "--size", "1M", "--time", "1s", "-o", tmp_path).exit_code == Exit.USAGE
    assert run("split", traffic.LIBRDKAFKA, "--time", "0s", "-o", tmp_path).exit_code == Exit.USAGE
    path = files.write(tmp_path / "a.pcap", traffic.LIBRDKAFKA.read_bytes())
    assert "this is the input capture" in run("merge", path, "-o", path).stderr
