"""The flags of exchanges, each on real traffic damaged in that way."""

from __future__ import annotations

import lzma
import random
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from scapy.layers.inet import TCP
from scapy.utils import rdpcap

from kproxy.captures.reader import read
from kproxy.captures.tcp.packets import SYN, endpoints
from kproxy.cli.main import main
from kproxy.decoders.exchange import Exchange, Frame, StreamProblem
from kproxy.decoders.problems import Code
from tests.captures import files, traffic

CAPTURES = (traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA)


@pytest.fixture(params=CAPTURES, ids=lambda path: path.stem)
def capture(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def written(path: Path, folder: Path, *options: str) -> dict[str, list[dict[str, Any]]]:
    """The tables exchanges and flows."""
    result = CliRunner().invoke(main, ["export", str(path), "--format", "parquet", "-o", str(folder), *options])
    assert result.exit_code in {0, 3}, result.stderr
    return {
        name: ds.dataset(folder / name, format="parquet", partitioning="hive").to_table().to_pylist()
        for name in ("exchanges", "flows")
    }


def flagged(path: Path, folder: Path, flag: str, *options: str) -> set[int]:
    return {row["exchange"] for row in written(path, folder, *options)["exchanges"] if flag in row["flags"]}


def frames(exchange: Exchange) -> list[Frame]:
    return [frame for frame in (exchange.request, exchange.response) if frame is not None]


def test_undamaged(capture: Path, tmp_path: Path) -> None:
    assert [row["flags"] for row in written(capture, tmp_path)["exchanges"] if row["flags"]] == []


def test_packets_of_a_frame_that_changed_places(tmp_path: Path) -> None:
    data = traffic.KAFKA_1_1.read_bytes()
    packets = traffic.packets(traffic.KAFKA_1_1)
    ends, at = [], 24
    for _, frame in packets:
        at += 16 + len(frame)
        ends.append(at)
    reader = read(traffic.KAFKA_1_1)
    several = [
        (item.number, [sum(end <= place for end in ends) for place, _ in frame.spans])
        for item in reader
        if isinstance(item, Exchange)
        for frame in frames(item)
        if len(frame.spans) > 1
    ]
    reader.close()
    assert len(data) == ends[-1]
    number, places = next((number, places) for number, places in several if len(set(places)) > 1)
    first, second = places[:2]
    times = [time for time, _ in packets]
    packets[first], packets[second] = packets[second], packets[first]
    made = files.write(tmp_path / "swapped.pcap", files.pcap(zip(times, (one for _, one in packets), strict=True)))
    assert flagged(made, tmp_path / "tables", "out_of_order") == {number}


def test_connections_that_began_before(capture: Path, tmp_path: Path) -> None:
    packets = traffic.packets(capture)
    data = files.pcap(packets[len(packets) // 2 :])
    made = files.write(tmp_path / "late.pcap", data)
    segments = files.segments(data)
    begun = {
        frozenset(endpoints(key))
        for key, flags in zip(segments.keys, segments.flags.tolist(), strict=True)
        if flags & SYN
    }
    rows = written(made, tmp_path / "tables")["exchanges"]
    assert {"midstream" in row["flags"] for row in rows} == {True, False}
    for row in rows:
        ends = {f"{row['client_ip']}:{row['client_port']}", f"{row['broker_ip']}:{row['broker_port']}"}
        assert ("midstream" in row["flags"]) == (frozenset(ends) not in begun)


def test_packets_that_were_cut(capture: Path, tmp_path: Path) -> None:
    made = files.write(tmp_path / "snap.pcap", files.pcap(traffic.packets(capture), snap=96))
    rows = written(made, tmp_path / "tables")["exchanges"]
    cut = {row["exchange"] for row in rows if row["status"] == "cut" and row["reason"] is None}
    assert flagged(made, tmp_path / "tables", "snaplen_cut") >= cut != set()
    short = {row["exchange"] for row in rows if max(row["request_bytes"] or 0, row["response_bytes"] or 0) <= 96 - 66}
    assert not short & flagged(made, tmp_path / "tables", "snaplen_cut")


def test_bytes_that_the_capture_holds(tmp_path: Path) -> None:
    """A real capture with a snap length of 200 bytes holds as many bytes of frames as scapy finds in its packets."""
    packed = traffic.DATA / "findings" / "capture.health.pcap.xz"
    capture = tmp_path / "cut.pcap"
    capture.write_bytes(lzma.decompress(packed.read_bytes()))
    rows = written(capture, tmp_path / "tables")["exchanges"]
    held = sum(len(bytes(packet[TCP].payload)) for packet in rdpcap(str(capture)) if TCP in packet)
    assert sum((row["request_captured"] or 0) + (row["response_captured"] or 0) for row in rows) == held
    assert sum((row["request_bytes"] or 0) + (row["response_bytes"] or 0) for row in rows) > 3 * held


def test_frames_that_were_found_after_a_gap(capture: Path, tmp_path: Path) -> None:
    dice = random.Random(3)
    made = files.write(
        tmp_path / "lossy.pcap", files.pcap(packet for packet in traffic.packets(capture) if dice.random() > 0.1)
    )
    reader = read(made)
    items = [item for batch in reader.batches() for item in batch]
    resumed = {
        (item.connection.number, item.side, item.offset + item.size)
        for item in items
        if isinstance(item, StreamProblem) and item.code is Code.RESYNC
    }
    expected = {
        item.number
        for item in items
        if isinstance(item, Exchange)
        for frame in frames(item)
        if (item.connection.number, frame.side, frame.stream_offset) in resumed
    }
    every = {item.number for item in items if isinstance(item, Exchange)}
    reader.close()
    assert expected
    assert expected != every
    assert flagged(made, tmp_path / "tables", "gap_before") == expected
    some = written(made, tmp_path / "some", "-Y", "latency > 1ms")["exchanges"]
    assert {row["exchange"] for row in some if "gap_before" in row["flags"]} == expected & {
        row["exchange"] for row in some
    }
    assert flagged(made, tmp_path / "redacted", "gap_before", "--redact", "hosts") == expected


def test_what_was_redacted_counts_packets_alike(tmp_path: Path) -> None:
    twice = [packet for packet in traffic.packets(traffic.KAFKA_1_1) for _ in range(2)]
    made = files.write(tmp_path / "twice.pcap", files.pcap(twice))
    plain = written(made, tmp_path / "tables")["flows"]
    redacted = written(made, tmp_path / "redacted", "--redact", "hosts")["flows"]
    assert sum(row["retransmissions"] for row in plain) > 3
    assert {row["connection"]: row["retransmissions"] for row in redacted} == {
        row["connection"]: row["retransmissions"] for row in plain
    }
