"""Connections that go on in another split or file, after frames that wait or are missing."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random

from kproxy.captures.spark import local
from kproxy.captures.spark.read.flows import Options
from tests.captures import files
from tests.captures.spark.comparing import TABLES, assert_same, counted, exported
from tests.captures.spark.cutting import cut_at
from tests.captures.spark.test_damaged import fragmented
from tests.captures.spark.test_joined import (
    COORDINATOR,
    SECOND,
    START,
    Talk,
    assert_as_exported,
    find_coordinator,
    request,
    response,
    timed,
)

FIRST, LENGTH = 1000, 100
"""Address of the first segment of `held`, and bytes of each."""


def apart(folder: Path, *parts: Sequence[bytes]) -> list[Path]:
    """Packets in consecutive compressed files, each of which is a split."""
    paths = []
    for number, frames in enumerate(parts):
        path = folder / f"{number}.pcap.gz"
        path.write_bytes(gzip.compress(files.pcap(timed(frames, START + number * SECOND))))
        paths.append(path)
    return paths


def exchanges(talk: Talk, numbers: Sequence[int]) -> list[bytes]:
    """Packets of consecutive exchanges."""
    pairs = ((talk.send(0, find_coordinator(n)), talk.send(1, response(n, COORDINATOR))) for n in numbers)
    return [packet for pair in pairs for packet in pair]


def test_a_correlation_id_that_waits_and_is_used_again(tmp_path: Path) -> None:
    talk = Talk()
    before = [*talk.opening, *exchanges(talk, range(3)), talk.send(0, find_coordinator(7))]
    tables = assert_as_exported(apart(tmp_path, before, exchanges(talk, range(3, 20))), size=1)
    assert "no_response" in tables["exchanges"].column("status").to_pylist()


def metadata(number: int) -> tuple[bytes, bytes]:
    """A request for metadata, and its response."""
    broker = struct.pack(">ii", 1, 77) + b"\0\x0810.0.0.2" + struct.pack(">i", 9092) + b"\xff\xff"
    return request(3, 1, number, struct.pack(">i", -1)), response(number, broker + struct.pack(">ii", 77, 0))


def test_a_response_that_begins_before_its_request(tmp_path: Path) -> None:
    talk = Talk()
    frames = [*talk.opening, *exchanges(talk, range(20))]
    answer, (asked, answered) = response(500, COORDINATOR), metadata(501)
    frames += [talk.send(1, answer[:10]), talk.send(0, find_coordinator(500) + asked), talk.send(1, answer[10:])]
    frames += [talk.send(1, answered), *exchanges(talk, range(600, 605))]
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(timed(frames)))
    tables = assert_as_exported([path])
    assert set(tables["exchanges"].column("status").to_pylist()) == {"ok"}


def test_a_clock_that_goes_forth_and_back(tmp_path: Path) -> None:
    talk, later = Talk(), START + 100 * SECOND
    first, one, rest = exchanges(talk, range(2)), exchanges(talk, [2]), exchanges(talk, range(3, 43))
    packets = [(later - 50 * SECOND, one[0]), (later + SECOND, one[1]), *timed(rest, later - 49 * SECOND)]
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap([*timed(first, later), *packets]))
    planned = cut_at(path, [4.5 / (4 + len(packets))])
    expected = exported([path])
    tables = local.of_plan(planned, Options(tuple(TABLES)), size=1 << 40)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, expected)
    assert "orphan_response" in tables["exchanges"].column("status").to_pylist()


def test_a_packet_whose_fragments_were_captured_the_other_way_round(tmp_path: Path) -> None:
    talk = Talk()
    packet = talk.send(0, request(10, 0, 1, struct.pack(">h", 300) + b"g" * 300))
    pieces = fragmented([(START, packet)] * 50, Random(1))[-2:]
    assert pieces[0][1] != packet
    frames = [talk.send(1, response(1, COORDINATOR)), *exchanges(talk, range(2, 20))]
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap([*pieces[::-1], *timed(frames)]))
    assert len(assert_as_exported([path])["exchanges"]) == 19


def test_exchanges_behind_one_that_waits(tmp_path: Path) -> None:
    talk = Talk()
    before = [*talk.opening, *exchanges(talk, range(5)), talk.send(0, find_coordinator(100))]
    assert_as_exported(apart(tmp_path, before, exchanges(talk, range(5, 25))), size=1)


def test_a_connection_that_goes_on_in_another_file(tmp_path: Path) -> None:
    talk = Talk()
    parts = [*talk.opening, *exchanges(talk, range(5))], exchanges(talk, range(5, 25)), exchanges(talk, range(25, 30))
    assert_as_exported(apart(tmp_path, *parts), size=1)


def test_packets_that_are_missing_before_a_stretch(tmp_path: Path) -> None:
    talk = Talk()
    before = [*talk.opening, *exchanges(talk, range(5))]
    talk.send(1, bytes(100))
    assert_as_exported(apart(tmp_path, before, exchanges(talk, range(5, 25))), size=1)


def test_what_a_body_holds_is_no_exchange(tmp_path: Path) -> None:
    """A split that begins within a body finds what looks like exchanges in it, which are not exchanges."""
    outer, inner = Talk(), [find_coordinator(n) for n in range(20)]
    answers = [response(n, COORDINATOR) for n in range(20)]
    asked, answered = b"".join(inner), b"".join(answers)
    # API 10 with a body that no definition fits, and its response; each frame inside is one packet
    head, reply = request(10, 0, 500, b""), response(500, b"")
    head = struct.pack(">i", len(head) - 4 + len(asked)) + head[4:]
    reply = struct.pack(">i", len(reply) - 4 + len(answered)) + reply[4:]
    before = [*outer.opening, *exchanges(outer, range(3)), outer.send(0, head)]
    body = [outer.send(side, one) for pair in zip(inner, answers, strict=True) for side, one in enumerate(pair)]
    last = [outer.send(1, reply), *(outer.send(1, one) for one in answers)]
    tables = assert_as_exported(apart(tmp_path, before, [*body, *last]), size=1)
    assert len(tables["exchanges"]) < 3 + 20 + 20
