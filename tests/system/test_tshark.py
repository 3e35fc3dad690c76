"""tshark as the judge: the same frames in the same places on a capture that it decodes."""

from __future__ import annotations

import csv
import lzma
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from kproxy.cli.commands.export import command
from tests.captures import files
from tests.captures.formats import test_link
from tests.captures.traffic import DATA

pytestmark = pytest.mark.system

AS_OURS = ("--disable-protocol", "dns")
"""What tshark is told: scapy's UDP comes from the port of DNS."""
Frame = tuple[int, int, int]
"""API key, correlation id, length."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = lzma.decompress((DATA / "captures" / "bench-base.pcap.xz").read_bytes())
    return files.write(tmp_path_factory.mktemp("captures") / "bench-base.pcap", data)


def judged(path: Path) -> dict[tuple[str, int], list[Frame]]:
    """For each connection, named by its client's port, and direction the frames in order."""
    assert shutil.which("tshark"), "tshark is not installed"
    names = ("tcp.srcport", "tcp.dstport", "kafka.api_key", "kafka.correlation_id", "kafka.len")
    fields = [part for name in names for part in ("-e", name)]
    lines = subprocess.run(
        ["tshark", "-r", str(path), "-d", "tcp.port==19092,kafka", "-Y", "kafka", "-T", "fields", *fields],
        check=True, capture_output=True, text=True, timeout=300,
    ).stdout.splitlines()  # fmt: skip
    found: dict[tuple[str, int], list[Frame]] = defaultdict(list)
    for line in lines:
        source, destination, keys, correlations, sizes = line.split("\t")
        side = int(source == "19092")
        for frame in zip(keys.split(","), correlations.split(","), sizes.split(","), strict=True):
            key, correlation, size = map(int, frame)
            found[(source, destination)[side], side].append((key, correlation, size))
    return found


def test_the_same_frames_as_tshark(base: Path) -> None:
    columns = "exchange,client,api_key,correlation_id,request_size,response_size"
    result = CliRunner().invoke(command, [str(base), "--format", "csv", "--columns", columns], catch_exceptions=False)
    ours: dict[tuple[str, int], list[Frame]] = defaultdict(list)
    rows = list(csv.DictReader(result.stdout.splitlines()))
    for row in rows:
        client = row["client"].rpartition(":")[2]
        for side, name in enumerate(("request_size", "response_size")):
            if row[name]:
                ours[client, side].append((int(row["api_key"]), int(row["correlation_id"]), int(row[name])))
    theirs = judged(base)
    # Exchanges come in the order of their completion, which is that of responses; requests are compared as a set.
    assert {name: sorted(frames) for name, frames in ours.items()} == {
        name: sorted(frames) for name, frames in theirs.items()
    }
    assert {name: frames for name, frames in ours.items() if name[1]} == {
        name: frames for name, frames in theirs.items() if name[1]
    }
    assert len(rows) > 3000


@pytest.mark.parametrize("capture", sorted((DATA / "captures").glob("*.pcap")), ids=lambda path: path.stem)
def test_the_same_segments_came_again_as_in_tshark(capture: Path, tmp_path: Path) -> None:
    shutil.copy(capture, tmp_path / "capture")
    arguments = [str(tmp_path / "capture"), "--format", "parquet", "--tables", "flows", "-o", str(tmp_path / "tables")]
    CliRunner().invoke(command, arguments, catch_exceptions=False)
    rows = ds.dataset(tmp_path / "tables" / "flows", format="parquet").to_table().to_pylist()
    lines = subprocess.run(
        ["tshark", "-r", str(capture), "-Y", "tcp.analysis.retransmission or tcp.analysis.out_of_order",
         "-T", "fields", "-e", "tcp.srcport", "-e", "tcp.dstport"],
        check=True, capture_output=True, text=True, timeout=300,
    ).stdout.splitlines()  # fmt: skip
    theirs = Counter(frozenset(map(int, line.split("\t"))) for line in lines)
    ours = Counter[frozenset[int]]()
    for row in rows:
        ours[frozenset((row["client_port"], row["broker_port"]))] += row["retransmissions"] + row["out_of_order"]
    assert theirs
    assert +ours == theirs


def test_the_same_segments_in_whatever_they_are_wrapped(tmp_path: Path) -> None:
    """Each link layer and tunnel that our own tests build: where TCP's payload lies is tshark's to say."""
    for name, (link, build, _) in test_link.CASES.items():
        data = files.pcap([(5_000, bytes(build()))], link=link)
        (ours,) = files.rows(files.segments(data), data)
        told = subprocess.run(
            ["tshark", "-r", str(files.write(tmp_path / "capture", data)), "-T", "fields", "-E", "occurrence=l",
             *AS_OURS, "-e", "tcp.seq_raw", "-e", "tcp.ack_raw", "-e", "tcp.payload"],
            check=True, capture_output=True, text=True, timeout=60,
        ).stdout  # fmt: skip
        seq, ack, payload = told.strip("\n").split("\t")
        assert (int(seq), int(ack), bytes.fromhex(payload)) == (ours[2], ours[3], ours[6]), name
