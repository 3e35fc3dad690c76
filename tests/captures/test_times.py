"""Packets with an impossible time are kept, with the time of the packet before, and counted."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.captures.opening import open_source
from kproxy.captures.reader import read
from kproxy.captures.repacking import Packets
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic

CLOCKS = {
    "seconds that count beyond 2262": (b"\x00", 0, 1 << 40),
    "all bits": (b"\x06", 0, (1 << 64) - 1),
    "before 1970": (b"\x09", -2_000_000_000, 5),
    "an offset of centuries": (b"\x06", 1 << 62, 5),
    "a clock of 2^20 ticks": (b"\x94", 0, (1 << 64) - 1),
}


def capture(path: Path, clock: str) -> int:
    """Write a capture in which every packet between the second and the last has a bad time; the number of these."""
    resolution, offset, ticks = CLOCKS[clock]
    taken = traffic.packets(traffic.LIBRDKAFKA)[:40]
    options = files.option(9, resolution) + files.option(14, struct.pack("<q", offset))
    odd = files.block(1, struct.pack("<HHI", 1, 0, 0) + options)
    blocks = [files.enhanced(0, time // 1000, frame) for time, frame in taken]
    blocks[2:-1] = [files.enhanced(1, ticks, frame) for _, frame in taken[2:-1]]
    path.write_bytes(b"".join([files.section(), files.interface(), odd, *blocks]))
    return len(blocks) - 3


@pytest.mark.parametrize("clock", CLOCKS)
def test_every_command_keeps_packets_without_a_time(clock: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.pcapng"
    odd = capture(path, clock)
    taken = traffic.packets(traffic.LIBRDKAFKA)[:40]
    reader = read(path)
    found = [item for batch in reader.batches() for item in batch]
    assert reader.health.untimed == odd
    assert reader.health.packets == len(taken)
    assert found
    for arguments in (
        ["merge", path, "-o", tmp_path / "merged.pcapng"],
        ["split", path, "--time", "1s", "-o", tmp_path / "parts"],
        ["export", path, "--format", "pcapng", "-o", tmp_path / "slice.pcapng"],
        ["export", path, "--format", "parquet", "-o", tmp_path / "tables"],
        ["stats", path],
    ):
        result = CliRunner().invoke(main, [*map(str, arguments)])
        assert result.exit_code == Exit.OK, result.stderr
        assert "out of range" in result.stderr, arguments
    source = open_source(tmp_path / "merged.pcapng")
    merged = list(Packets(source))
    assert [bytes(one.data) for one in merged] == [frame for _, frame in taken]
    assert [one.time for one in merged] == [*[time for time, _ in taken[:2]], *[taken[1][0]] * odd, taken[-1][0]]
    source.close()


def test_times_up_to_2262_are_read_as_they_are(tmp_path: Path) -> None:
    last = (1 << 63) - 1
    path = tmp_path / "late.pcapng"
    taken = traffic.packets(traffic.LIBRDKAFKA)[:3]
    blocks = [files.enhanced(0, last - 2 + i, frame) for i, (_, frame) in enumerate(taken)]
    path.write_bytes(b"".join([files.section(), files.interface(resolution=9), *blocks]))
    source = open_source(path)
    reading = Packets(source)
    assert [one.time for one in reading] == [last - 2, last - 1, last]
    assert reading.untimed == 0
    source.close()
