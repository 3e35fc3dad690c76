"""What one connection tells another, and what files tell each other, gives the rows of an export."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kproxy.captures.spark import local
from kproxy.captures.spark.read.flows import Options
from tests.captures import files
from tests.captures.spark.comparing import TABLES, assert_same, counted, exported

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
TOPIC = bytes(range(16))
METADATA_TOPIC = bytes(15) + b"\1"
COORDINATOR = struct.pack(">hi", 0, 1) + b"\0\1h" + struct.pack(">i", 9092)
"""The body of a FindCoordinator response v0."""


class Talk:
    """Packets of a TCP connection from its handshake on."""

    def __init__(self, port: int = 40000, isn: int = 1000, *, mapped: bool = False) -> None:
        self._ports = port, 9092
        self._seq = [isn, 2 * isn]
        self._mapped = mapped
        self.opening = [self._frame(0, 0x02), self._frame(1, 0x12)]
        self._seq = [isn + 1, 2 * isn + 1]

    def send(self, side: int, data: bytes) -> bytes:
        frame = self._frame(side, 0x18, data)
        self._seq[side] += len(data)
        return frame

    def reset(self) -> bytes:
        return self._frame(0, 0x14)

    def _frame(self, side: int, flags: int, data: bytes = b"") -> bytes:
        ports, addresses = (self._ports, (1, 2)) if not side else (self._ports[::-1], (2, 1))
        seq, ack = (self._seq[side], self._seq[1 - side])
        tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 0x50, flags, 65535, 0, 0) + data
        hosts = [bytes((10, 0, 0, last)) for last in addresses]
        if self._mapped:
            ip = struct.pack(">IHBB", 0x60000000, len(tcp), 6, 64) + b"".join(
                bytes(10) + b"\xff\xff" + one for one in hosts
            )
            return bytes(12) + b"\x86\xdd" + ip + tcp
        return (
            bytes(12)
            + b"\x08\0"
            + struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0)
            + b"".join(hosts)
            + tcp
        )


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def request(key: int, version: int, number: int, body: bytes, *, tags: bytes = b"") -> bytes:
    return framed(struct.pack(">hhi", key, version, number) + b"\0\1c" + tags + body)


def response(number: int, body: bytes) -> bytes:
    return framed(struct.pack(">i", number) + body)


def find_coordinator(number: int) -> bytes:
    return request(10, 0, number, b"\0\1g")


def fetch(number: int, topic: bytes) -> bytes:
    partition = struct.pack(">iiqiqi", 0, 0, 5, -1, 0, 1000) + b"\0"
    body = struct.pack(">iiiibii", -1, 10, 1, 1000, 0, 0, -1) + b"\2" + topic + b"\2" + partition + b"\0\1\1\0"
    return request(1, 13, number, body, tags=b"\0")


def fetched(number: int, topic: bytes) -> bytes:
    partition = struct.pack(">ihqqq", 0, 0, 5, 5, 0) + b"\0" + struct.pack(">i", -1) + b"\1\0"
    return response(number, b"\0" + struct.pack(">ihi", 0, 0, 0) + b"\2" + topic + b"\2" + partition + b"\0\0")


def timed(frames: Sequence[bytes], start: int = START, step: int = SECOND // 1000) -> list[files.Packet]:
    return [(start + i * step, frame) for i, frame in enumerate(frames)]


def assert_as_exported(paths: Sequence[Path], *more: str, options: Options | None = None, size: int = 1 << 40) -> Any:
    expected = exported(paths, *more)
    tables = local.tables(paths, options or Options(tuple(TABLES)), size=size)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, expected)
    return tables


def written(frames: Sequence[bytes], path: Path) -> Path:
    path.write_bytes(files.pcap(timed(frames)))
    return path


def test_an_exchange_does_not_know_what_comes_behind_it_in_the_same_packet(tmp_path: Path) -> None:
    talk = Talk()
    frames = [*talk.opening, talk.send(0, find_coordinator(1)), talk.send(0, request(3, 1, 2, struct.pack(">i", -1)))]
    broker = struct.pack(">ii", 1, 77) + b"\0\x0810.0.0.2" + struct.pack(">i", 9092) + b"\xff\xff"
    answers = [
        talk.send(1, response(1, COORDINATOR)),
        talk.send(1, response(2, broker + struct.pack(">ii", 77, 0))),
    ]
    later = [talk.send(0, find_coordinator(3)), talk.send(1, response(3, COORDINATOR))]
    for number, order in enumerate((answers, answers[::-1])):
        tables = assert_as_exported([written([*frames, *order, *later], tmp_path / f"{number}.pcap")])
        assert tables["exchanges"].column("broker_id").to_pylist().count(77) >= 1


def test_the_reserved_topic_needs_nobody_to_name_it(tmp_path: Path) -> None:
    talk = Talk()
    frames = [*talk.opening]
    for number, topic in enumerate((METADATA_TOPIC, TOPIC)):
        frames += [talk.send(0, fetch(number, topic)), talk.send(1, fetched(number, topic))]
    tables = assert_as_exported([written(frames, tmp_path / "a.pcap")])
    assert sorted(tables["exchange_topics"].column("topic").to_pylist(), key=str) == [None, "__cluster_metadata"]


def test_definitions_of_users_may_teach(tmp_path: Path) -> None:
    common = {"apiKey": 900, "validVersions": "0", "flexibleVersions": "none", "listeners": ["broker"]}
    number = {"name": "X", "type": "int32", "versions": "0+"}
    topics = [
        {"name": "Name", "type": "string", "versions": "0+"},
        {"name": "TopicId", "type": "uuid", "versions": "0+"},
    ]
    listed = {"name": "Topics", "type": "[]T", "versions": "0+", "fields": topics}
    folder = tmp_path / "definitions"
    folder.mkdir()
    for kind, field in (("Request", number), ("Response", listed)):
        message = common | {"type": kind.lower(), "name": f"Vendor{kind}", "fields": [field]}
        (folder / f"Vendor{kind}.json").write_text(json.dumps(message))
    talk = Talk()
    frames = [
        *talk.opening, talk.send(0, request(900, 0, 1, struct.pack(">i", 1))),
        talk.send(1, response(1, struct.pack(">i", 1) + b"\0\3top" + TOPIC)),
        talk.send(0, fetch(2, TOPIC)), talk.send(1, fetched(2, TOPIC)),
    ]  # fmt: skip
    path = written(frames, tmp_path / "a.pcap")
    options = Options(tuple(TABLES), user_definitions=(str(folder),))
    tables = assert_as_exported([path], "--definitions", str(folder), options=options)
    assert "top" in tables["exchange_topics"].column("topic").to_pylist()


def test_a_flow_that_says_nothing_behind_a_hole(tmp_path: Path) -> None:
    silent, other = Talk(), Talk(40001)
    asked = [silent.send(0, find_coordinator(1)), other.send(0, find_coordinator(1))]
    before = [*silent.opening, *other.opening, *asked, other.send(1, response(1, COORDINATOR))]
    after = []
    for number in range(2, 50):
        after += [other.send(0, find_coordinator(number)), other.send(1, response(number, COORDINATOR))]
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    first.write_bytes(files.pcap(timed(before))[:-7])
    second.write_bytes(files.pcap(timed(after, START + 10 * SECOND, SECOND)))
    tables = assert_as_exported([first, second])
    reasons = [reason or "" for reason in tables["exchanges"].column("reason").to_pylist()]
    assert any("packets that the capture lacks" in reason for reason in reasons)


def test_a_client_that_is_written_both_ways_is_one_flow(tmp_path: Path) -> None:
    frames: list[bytes] = []
    for talk in (Talk(), Talk(isn=7000, mapped=True)):
        frames += talk.opening
        for number in range(3):
            frames += [talk.send(0, find_coordinator(number)), talk.send(1, response(number, COORDINATOR))]
    path = written(frames, tmp_path / "a.pcap")
    for size in (1, 1 << 40):
        tables = assert_as_exported([path], size=size)
        assert len(set(tables["exchanges"].column("flow_id").to_pylist())) == 1


def test_exchanges_that_begin_together_are_numbered_in_their_order(tmp_path: Path) -> None:
    """Requests whose client ids are not text do not show Kafka, so all of them wait for the first one with text."""
    talk = Talk()
    frames = []
    for number in range(6):
        asked = find_coordinator(number).replace(b"\0\1c", b"\0\1c" if number > 3 else b"\0\1\xff")
        frames += [talk.send(0, asked), talk.send(1, response(number, COORDINATOR))]
    tables = assert_as_exported([written(frames, tmp_path / "a.pcap")])
    assert sorted(tables["exchanges"].column("exchange").to_pylist()) == list(range(1, 7))


def test_merged_captures_of_which_one_is_cut(tmp_path: Path) -> None:
    one, other = Talk(), Talk(40001)
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path, talk, left in zip(paths, (one, other), (None, -5), strict=True):
        frames = [*talk.opening]
        for number in range(3):
            frames += [talk.send(0, find_coordinator(number)), talk.send(1, response(number, COORDINATOR))]
        path.write_bytes(files.pcap(timed(frames))[:left])
    tables = assert_as_exported(paths)
    truncated = dict(zip(*(tables["captures"].column(name).to_pylist() for name in ("path", "truncated")), strict=True))
    assert truncated == {str(paths[0]): False, str(paths[1]): True}


def test_every_file_has_its_own_error(tmp_path: Path) -> None:
    talk = Talk()
    paths = [tmp_path / f"{name}.pcap" for name in ("good", "cut", "odd", "late")]
    good, cut, odd, late = paths
    frames = [talk.send(0, b"\0\0\0\4abcd") for _ in range(30)]
    good.write_bytes(files.pcap(timed([*talk.opening, *frames[:10]])))
    cut.write_bytes(files.pcap(timed(frames[10:20], START + SECOND))[:-5])
    odd.write_bytes(b"nothing that is a capture")
    late.write_bytes(files.pcap(timed(frames[20:], START + 2 * SECOND))[:-7])
    rows = assert_as_exported(paths)["captures"]
    errors = {row["path"]: row["error"] for row in rows.to_pylist()}
    assert [errors[str(path)] is None for path in paths] == [True, False, False, False]
