"""Frames and connections across many splits: with one packet in each split, rows are those of an export."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.captures.errors import CaptureError
from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tcp import reassembly
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported
from tests.captures.spark.test_damaged import again, disordered, repeated, tcp_of, tiny
from tests.captures.spark.test_joined import COORDINATOR, Talk, find_coordinator, response, timed
from tests.support.thinned import thinned

Damage = Callable[[list[files.Packet], random.Random], list[files.Packet]]
FIN, RST = 1, 4


def made(path: Path, size: int) -> Rows:
    found = local.tables([path], Options(tuple(TABLES)), size=size)
    return {name: counted(found[name].to_pylist()) for name in TABLES}


def cut(frame: bytes, start: int, end: int, flags: int | None = None) -> bytes:
    """A packet with bytes [start, end) of another packet's payload, at their position in the stream."""
    at, begin = tcp_of(frame)
    head = bytearray(frame[:begin])
    struct.pack_into(">H", head, 16, begin - 14 + end - start)
    struct.pack_into(">I", head, at + 4, (struct.unpack_from(">I", frame, at + 4)[0] + start) % (1 << 32))
    if flags is not None:
        head[at + 13] = flags
    return bytes(head) + frame[begin + start : begin + end]


def in_pieces(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:  # noqa: ARG001
    """Every packet in pieces of 200 bytes, so that large frames span very many."""
    out = []
    for time, frame in taken:
        size = traffic.payload(frame)
        pieces = [(start, min(start + 200, size)) for start in range(0, size, 200)] or [(0, 0)]
        out += [(time, cut(frame, *piece)) for piece in pieces]
    return out


def kept_alive(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    """Keep-alives between packets: the last byte again, or no byte at the sequence number before the expected one."""
    out = []
    for time, frame in taken:
        out.append((time, frame))
        size = traffic.payload(frame)
        if size and rng.random() < 0.5:
            out.append((time, cut(frame, size - 1, size - rng.randrange(2))))
    return out


def overlapping(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    """Retransmissions with other borders: the second half of a packet, and a packet joined with the next one."""
    out: list[files.Packet] = []
    last: dict[bytes, bytes] = {}
    for time, frame in taken:
        at, begin = tcp_of(frame)
        size = traffic.payload(frame)
        ends = frame[26:34] + frame[at : at + 4]
        before = last.get(ends)
        out.append((time, frame))
        if size and before is not None and rng.random() < 0.5:
            until = traffic.payload(before)
            more = frame[begin : begin + size] if _number(before) + until == _number(frame) else b""
            piece = bytearray(cut(before, until // 2, until) + more)
            struct.pack_into(">H", piece, 16, len(piece) - 14)
            out.append((time, bytes(piece)))
        if size:
            last[ends] = frame
    return out


def _number(frame: bytes) -> int:
    at, _ = tcp_of(frame)
    return int(struct.unpack_from(">I", frame, at + 4)[0])


def one_side_later(to_broker: bool) -> Damage:
    """The first third of one direction is missing."""

    def later(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:  # noqa: ARG001
        third = len(taken) // 3
        return [
            (time, frame)
            for number, (time, frame) in enumerate(taken)
            if number > third or _to_broker(frame) != to_broker
        ]

    return later


def _to_broker(frame: bytes) -> bool:
    """Whether a packet goes to the broker; clients have the higher port."""
    source, destination = struct.unpack_from(">HH", frame, tcp_of(frame)[0])
    return bool(source > destination)


def doubled(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:  # noqa: ARG001
    """Every packet twice, as captured on two interfaces."""
    return [(time + more, frame) for time, frame in taken for more in (0, 1000)]


def broken_off(flag: int) -> Damage:
    """A change by which some connections end in the middle of a frame."""

    def broken(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
        over: set[frozenset[bytes]] = set()
        out = []
        for time, frame in taken:
            at, _ = tcp_of(frame)
            ends = frozenset({frame[26:30] + frame[at : at + 2], frame[30:34] + frame[at + 2 : at + 4]})
            size = traffic.payload(frame)
            if ends in over:
                continue
            if size > 40 and rng.random() < 0.1:
                over.add(ends)
                out += [(time, cut(frame, 0, size // 2)), (time, cut(frame, size // 2, size // 2, flag | 16))]
            else:
                out.append((time, frame))
        return out

    return broken


@pytest.mark.parametrize(
    "how",
    thinned(
        [
            disordered, one_side_later(True), one_side_later(False), broken_off(FIN), broken_off(RST), overlapping,
            in_pieces, tiny, kept_alive, doubled, repeated, again,
        ],
        3,
    ),
    ids=[
        "disordered", "requests later", "responses later", "FIN", "RST", "overlapping",
        "pieces", "tiny", "keep-alive", "both interfaces", "repeated", "ports again",
    ],
)  # fmt: skip
def test_every_packet_is_a_split(how: Damage, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    taken = how(traffic.packets(traffic.LIBRDKAFKA)[:36], random.Random(3))
    path.write_bytes(files.pcap(taken))
    assert len(plan([path], 1).splits) == len(taken)
    expected = exported([path])
    assert expected["exchanges"].total() > 2
    assert_same(made(path, 1), expected)


def test_a_frame_across_ten_splits(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(in_pieces(traffic.packets(traffic.KAFKA_1_1)[:150], random.Random())))
    expected = exported([path])
    columns = ("request_bytes", "response_bytes")
    sizes = [size or 0 for row in expected["exchanges"] for name, size in row if name in columns]
    size = max(sizes) // 20
    assert max(one.end - one.start for one in plan([path], size).splits) < max(sizes) // 10
    assert_same(made(path, size), expected)


def test_nothing_there(tmp_path: Path) -> None:
    """Empty files, and packets without bytes."""
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CaptureError, match="a folder without captures"):
        plan([tmp_path / "folder"])
    (tmp_path / "nothing.pcap").write_bytes(files.pcap([(1, b""), (2, b""), (3, b"")]))
    for name in ("empty.pcap", "nothing.pcap"):
        expected = exported([tmp_path / name])
        for size in (1, 1 << 40):
            assert_same(made(tmp_path / name, size), expected)


def test_any_number_of_connections_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export ends silent connections if too many others are active; here each flow is read alone."""
    talks = [Talk(20_000 + number) for number in range(400)]
    frames = [frame for talk in talks for frame in talk.opening]
    for number in (1, 2):
        frames += [talk.send(0, find_coordinator(number)) for talk in talks]
        frames += [talk.send(1, response(number, COORDINATOR)) for talk in talks]
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(timed(frames)))
    expected = exported([path])
    monkeypatch.setattr(reassembly, "MOST_OPEN", 10)
    assert exported([path])["flows"] != expected["flows"]
    assert_same(made(path, 1 << 18), expected)
