"""Names from the wire that would control a terminal, in every output that shows them."""

from __future__ import annotations

import csv
import io
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.captures.formats.pcapng_writer import LINKTYPE_RAW
from tests.captures import files
from tests.decoders.test_escaping import HOSTILE, controls
from tests.support.patience import SECONDS
from tests.support.thinned import thinned

NAME = HOSTILE.encode()
TEXT = (
    "stats",
    "topics",
    "groups",
    "txns",
    "conns",
    "cluster",
    "audit",
    "audit --csv",
    "stats --by client",
    "stats --by topic",
    "replay",
)
JSON = (
    "export",
    "export --format json",
    "export --format records",
    "stats --json",
    "topics --json",
    "conns --json",
    "audit --json",
)
HTML = (
    "audit --html",
    "export --format html --exchange 1",
    "export --format html --exchange 2",
    "export --format html --exchange 3",
)


def string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def framed(head: bytes, body: bytes) -> bytes:
    return struct.pack(">i", len(head) + len(body)) + head + body


def request(key: int, version: int, number: int, body: bytes, client_id: bytes = NAME) -> bytes:
    return framed(struct.pack(">hhi", key, version, number) + string(client_id), body)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client, topics, groups, hosts, racks and a user whose names are hostile; one name is a formula."""
    from scapy.layers.inet import IP, TCP

    path = tmp_path_factory.mktemp("hostile") / "hostile.pcap"
    topics = struct.pack(">i", 1) + string(NAME)
    broker = struct.pack(">ii", 1, 1) + string(NAME) + struct.pack(">i", 9092) + string(NAME)
    metadata = broker + struct.pack(">ii", 1, 1) + struct.pack(">h", 3) + string(NAME) + b"\0" + struct.pack(">i", 0)
    record = struct.pack(">bb", 0, 0) + struct.pack(">i", len(NAME)) + NAME + struct.pack(">i", len(NAME)) + NAME
    import zlib

    entry = struct.pack(">I", zlib.crc32(record)) + record
    records = struct.pack(">qi", 0, len(entry)) + entry
    produce = struct.pack(">hii", 1, 1000, 1) + string(NAME) + struct.pack(">iii", 1, 0, len(records)) + records
    produced = struct.pack(">i", 1) + string(NAME) + struct.pack(">iihq", 1, 0, 3, -1)
    join = string(NAME) + struct.pack(">i", 10_000) + string(NAME) + string(NAME) + struct.pack(">i", 1)
    join += string(NAME) + struct.pack(">i", len(NAME)) + NAME
    joined = struct.pack(">hi", 0, 1) + string(NAME) + string(NAME) + string(NAME) + struct.pack(">i", 0)
    found = struct.pack(">hi", 0, 1) + string(NAME) + struct.pack(">i", 9092)
    talk = [
        (request(3, 1, 1, topics, b"known as Kafka by its name"), framed(struct.pack(">i", 1), metadata)),
        (request(0, 0, 2, produce), framed(struct.pack(">i", 2), produced)),
        (request(11, 0, 3, join), framed(struct.pack(">i", 3), joined)),
        (request(10, 0, 4, string(NAME)), framed(struct.pack(">i", 4), found)),
        (request(3, 1, 5, topics, b"=cmd|' /C calc'!A0"), framed(struct.pack(">i", 5), metadata)),
    ]
    packets: list[files.Packet] = []
    sent = [1, 1]
    ends = (("10.0.0.1", 40000), ("10.0.0.2", 9092))

    def packet(side: int, flags: str, data: bytes = b"") -> None:
        (source, port), (target, to) = ends[side], ends[1 - side]
        tcp = TCP(sport=port, dport=to, seq=sent[side], ack=sent[1 - side], flags=flags)
        packets.append((len(packets) * 1_000_000 + 10**18, bytes(IP(src=source, dst=target) / tcp / data)))
        sent[side] += len(data) + ("S" in flags)

    packet(0, "S")
    packet(1, "SA")
    for asked, answered in talk:
        packet(0, "PA", asked)
        packet(1, "PA", answered)
    path.write_bytes(files.pcap(packets, link=LINKTYPE_RAW))
    return path


def run(command: str, capture: Path, *more: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", *command.split(), str(capture), *more],
        capture_output=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("command", thinned(["export --format csv", *TEXT, *JSON, *HTML], 10))
def test_no_output_controls_a_terminal(command: str, capture: Path) -> None:
    for text in run(command, capture):
        assert not controls(text) - {"\n"}, command
        assert not any(line.startswith("kproxy: forged") for line in text.splitlines())


def test_the_names_are_there(capture: Path) -> None:
    lines = [json.loads(line) for line in run("export", capture)[0].splitlines()[:-1]]
    assert [line["status"] for line in lines] == ["ok"] * 5
    assert lines[1]["client_id"] == HOSTILE
    assert lines[0]["response"]["body"]["brokers"][0]["host"] == HOSTILE
    assert "\\x1b]52" in run("topics", capture)[0]


def test_a_sheet_calculates_nothing_unless_asked(capture: Path) -> None:
    for option, begins in (("", "'=cmd"), ("--formulas", "=cmd")):
        out, _ = run(f"export --format csv --columns client_id {option}".strip(), capture)
        assert list(csv.reader(io.StringIO(out)))[-1][0].startswith(begins)


def test_a_messages_line_of_the_relay_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    from kproxy.cli.messages import Messages

    said = Messages()
    said.take({"event": "broker", "controller": False, "node": 1, "upstream": HOSTILE + "x" * 32_000, "listener": "y"})
    said.take({"event": "warning", "message": HOSTILE})
    text = capsys.readouterr().err
    assert len(text.splitlines()) == 2
    assert len(text) < 4_000
    assert not controls(text) - {"\n"}
