"""Readings: the same exchanges however a capture is stored, divided, followed or cut."""

from __future__ import annotations

import gc
import os
import random
import re
import struct
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures import slices
from kproxy.captures.errors import CaptureError
from kproxy.captures.opening import open_source
from kproxy.captures.reader import BATCH_BYTES, Reader, read
from kproxy.captures.source import RELEASE_BYTES, RingSource, SpoolSource
from kproxy.captures.spool import Spooling
from kproxy.decoders import schema
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.problems import Code
from tests.captures import files, traffic
from tests.captures.spark.test_damaged import disordered
from tests.support.plain import bare
from tests.support.thinned import thinned

SIDES = ("request", "response")


def reading(path: Path, *, batch: int = 32_768, **more: Any) -> Reader:
    return Reader(open_source(path), schema.definitions(None), batch=batch, **more)


@pytest.mark.parametrize("path", [traffic.LIBRDKAFKA, traffic.KAFKA_1_1])
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_batches_do_not_matter(path: Path, batch: int) -> None:
    assert traffic.lines(reading(path, batch=batch)) == traffic.exported(path)


def test_numbers_follow_the_capture() -> None:
    reader = reading(traffic.KAFKA_1_1, batch=5)
    started: list[int] = []
    connections: dict[int, str] = {}
    while not reader.finished:
        reader.poll()
        started += [exchange.number for exchange in reader.started]
        connections |= {exchange.connection.number: exchange.connection.client for exchange in reader.started}
        if reader.idle and not reader.finished:
            reader.finish()
    assert started == list(range(1, 250))
    assert sorted(connections) == list(range(1, len(connections) + 1))


def test_a_reading_is_held_by_no_circle() -> None:
    reader = reading(traffic.LIBRDKAFKA)
    held = weakref.ref(reader)
    gc.disable()
    try:
        assert len(list(reader)) > 100
        del reader
        assert held() is None
    finally:
        gc.enable()


def test_pcapng_gives_what_pcap_gives(tmp_path: Path) -> None:
    path = files.write(tmp_path / "a.pcapng", traffic.pcapng(traffic.packets(traffic.KAFKA_1_1)))

    assert traffic.exported(path) == traffic.exported(traffic.KAFKA_1_1)


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    taken = [(time + 123, frame) for time, frame in traffic.packets(traffic.LIBRDKAFKA)]
    path = files.write(tmp_path / "a.pcap", files.pcap(taken, nano=True))

    first = traffic.exchanges(traffic.exported(path))[0]
    assert first["request"]["timestamp"].endswith("123Z")
    assert len(first["request"]["timestamp"]) == len("2026-11-21T05:48:24.123456789Z")


def test_several_files_are_one(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    whole = traffic.exported(traffic.KAFKA_1_1)
    paths = [
        files.write(tmp_path / "a.pcap", files.pcap(taken[:300])),
        files.write(tmp_path / "b.pcapng", traffic.pcapng(taken[300:301])),
        files.write(tmp_path / "c.pcap", files.pcap(taken[301:], order=">")),
    ]
    assert traffic.lines(read(paths)) == whole


def test_ring_directory(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    for i in range(5):
        files.write(tmp_path / f"seg-{i + 1:06}.pcapng", traffic.pcapng(taken[i * 300 : (i + 1) * 300]))
    (tmp_path / "other.txt").write_text("not a segment")

    assert traffic.exported(tmp_path) == traffic.exported(traffic.KAFKA_1_1)


def test_following_a_ring_that_rolls(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    pieces = [traffic.pcapng(taken[i * 300 : (i + 1) * 300]) for i in range(5)]
    reader: Reader | None = None
    found: list[Any] = []
    started = 0
    for i, piece in enumerate(pieces):
        path = tmp_path / f"seg-{i + 1:06}.pcapng"
        for start in range(0, len(piece), 10_007):
            with path.open("ab") as file:
                file.write(piece[start : start + 10_007])
            reader = reader or read(tmp_path, follow=True)
            found += _drain(reader)
        if i >= 2:
            (tmp_path / f"seg-{i - 1:06}.pcapng").unlink()
    assert reader is not None
    assert not reader.finished
    started = max(item.number for item in found if isinstance(item, Exchange))
    found += reader.finish()
    assert reader.error is None
    whole = [item for item in read(traffic.KAFKA_1_1) if isinstance(item, Exchange)]
    ours = [item for item in found if isinstance(item, Exchange)]
    assert started <= 249
    assert [(item.number, item.api_key, item.status, item.latency_ns) for item in ours] == [
        (item.number, item.api_key, item.status, item.latency_ns) for item in whole
    ]
    first = next(item for item in ours if item.number == 1).request
    last = next(item for item in ours if item.number == 240).request
    assert first is not None
    assert last is not None
    assert len(first.data(reader.source)) == 0
    assert len(last.data(reader.source)) == last.size + 4


def test_a_segment_that_is_deleted_before_it_is_opened_does_not_end_the_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring that turns faster than it is read: the listing still has the segment."""
    taken = traffic.packets(traffic.KAFKA_1_1)
    reader, found = _followed(tmp_path, taken[:300])
    opened = RingSource._open_segment

    def gone(source: RingSource, name: str, base: int) -> bool:
        (source.directory / name).unlink()
        return opened(source, name, base)

    files.write(tmp_path / "seg-000002.pcapng", traffic.pcapng(taken[300:600]))
    with monkeypatch.context() as patched:
        patched.setattr(RingSource, "_open_segment", gone)
        found += _drain(reader)
        assert not reader.finished
    before = len(found)
    files.write(tmp_path / "seg-000003.pcapng", traffic.pcapng(taken[600:900]))
    found += _drain(reader)
    assert not reader.finished
    assert len(found) > before + 10
    reader.close()


def test_after_a_gap_what_follows_is_read_although_nothing_more_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets behind a gap wait for those before them, but no longer than a second of a capture that is watched."""
    taken = traffic.packets(traffic.KAFKA_1_1)
    reader, _ = _followed(tmp_path, taken[:300])
    files.write(tmp_path / "seg-000003.pcapng", traffic.pcapng(taken[600:640]))
    assert not _answered(_drain(reader))
    monkeypatch.setattr("kproxy.captures.reader.monotonic", lambda: time.monotonic() + 1)
    assert _answered(_drain(reader))
    assert not _answered(reader.finish())


def test_packets_wait_no_longer_although_their_connection_is_quiet_and_others_are_not(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)
    ends = [frozenset(traffic.ports(frame)) for _, frame in taken]
    # a connection that is quiet for three seconds before the capture ends
    quiet = next(
        one
        for one in dict.fromkeys(ends)
        if ends.count(one) > 30
        and taken[-1][0] - max(time for (time, _), other in zip(taken, ends, strict=True) if other == one) > 3 * 10**9
    )
    own = [number for number, one in enumerate(ends) if one == quiet and traffic.payload(taken[number][1])]
    del taken[own[-6]]  # a request: the packets from its response on wait
    reader = read([files.write(tmp_path / "a.pcap", files.pcap(taken))], follow=True)
    found = _answered(_drain(reader))
    whole = _answered(list(read(traffic.LIBRDKAFKA)))
    last = max(
        item.response.time for item in whole if item.response and item.connection.client.endswith(f":{max(quiet)}")
    )
    assert last in [item.response.time for item in found if item.response]


def test_packets_whose_file_is_deleted_while_they_wait_are_a_gap(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    reader, _ = _followed(tmp_path, taken[:300])
    files.write(tmp_path / "seg-000003.pcapng", traffic.pcapng(taken[600:640]))
    _drain(reader)
    (tmp_path / "seg-000001.pcapng").unlink()
    (tmp_path / "seg-000003.pcapng").unlink()
    files.write(tmp_path / "seg-000004.pcapng", traffic.pcapng(taken[640:]))
    later = [*_drain(reader), *reader.finish()]
    alone = {(item.correlation_id, item.request.time) for item in _answered(list(read(tmp_path))) if item.request}
    assert len(alone) > 100
    assert alone <= {(item.correlation_id, item.request.time) for item in _answered(later) if item.request}
    assert reader.health.not_kafka == 0


def _followed(ring: Path, taken: list[files.Packet]) -> tuple[Reader, list[Any]]:
    """A reader that follows a ring whose first segment has these packets, and the items that it has read of them."""
    files.write(ring / "seg-000001.pcapng", traffic.pcapng(taken))
    reader = read(ring, follow=True)
    return reader, _drain(reader)


def _answered(items: list[Any]) -> list[Exchange]:
    return [item for item in items if isinstance(item, Exchange) and item.status is Status.OK]


def _drain(reader: Reader) -> list[Any]:
    found = []
    while True:
        found += reader.poll()
        if reader.idle:
            return found


def test_a_ring_that_is_entered_late(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    files.write(tmp_path / "seg-000007.pcapng", traffic.pcapng(taken[:100]))
    (tmp_path / "ring.json").write_text('{"bases": {"seg-000007.pcapng": 123456}}')

    reader = read(tmp_path)
    items = [item for item in reader if isinstance(item, Exchange)]
    assert items[0].request is not None
    assert items[0].request.at > 123456
    assert len(items[0].request.data(reader.source)) == items[0].request.size + 4


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("again", ["nothing", "less", "more"])
def test_a_ring_that_is_overwritten_while_it_is_followed(which: int, again: str, tmp_path: Path) -> None:
    """As tcpdump -W does: exchanges read before stay, and bytes of new packets are never taken for old ones."""
    packets = traffic.packets(traffic.KAFKA_1_1)
    half = len(packets) // 2
    paths = [
        files.write(tmp_path / "ring.pcap0", files.pcap(packets[:half])),
        files.write(tmp_path / "ring.pcap1", files.pcap(packets[half:])),
    ]
    reader = read(paths, follow=True)
    before = []
    while not reader.idle:
        before += reader.poll()
    assert len(before) > 100
    seconds = 1_000_000_000
    later = [(time + seconds, frame) for time, frame in packets]
    paths[which].write_bytes({"nothing": b"", "less": files.pcap(later[:5]), "more": files.pcap(later)}[again])
    for _ in range(3):
        reader.poll()
    assert reader.finished
    assert reader.error is not None
    assert str(reader.error.path) == str(paths[which])
    assert "tcpdump -W" in reader.error.message
    reader.close()


@pytest.mark.parametrize("again", ["nothing", "more"])
def test_what_was_overwritten_is_gone_to_who_looks_at_it(again: str, tmp_path: Path) -> None:
    packets = traffic.packets(traffic.KAFKA_1_1)
    path = files.write(tmp_path / "ring.pcap0", files.pcap(packets))
    source = open_source([path], ordered=True)
    assert source.read(24, 5000) == path.read_bytes()[24:5000]
    later = [(time + 1_000_000_000, frame) for time, frame in packets]
    path.write_bytes({"nothing": b"", "more": files.pcap([*later, *later])}[again])
    assert source.read(24, 5000) == b""
    source.close()


def test_a_pipe_is_followed_and_its_spool_removed(tmp_path: Path) -> None:
    data = traffic.LIBRDKAFKA.read_bytes()
    receiving, sending = os.pipe()

    def feed() -> None:
        with os.fdopen(sending, "wb") as pipe:
            for start in range(0, len(data), 5_000):
                pipe.write(data[start : start + 5_000])
                pipe.flush()

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(receiving, "rb") as pipe:
        source = SpoolSource(pipe, spooling=Spooling(tmp_path / "spool"))
        assert [path.stat().st_mode & 0o777 for path in (tmp_path / "spool").iterdir()] == [0o600]
        reader = Reader(source, schema.definitions(None))
        found = traffic.lines(reader)
    thread.join()
    assert found == traffic.exported(traffic.LIBRDKAFKA)
    source.close()
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_cut_packet_comes_after_everything_before_it(tmp_path: Path) -> None:
    data = traffic.LIBRDKAFKA.read_bytes()
    path = files.write(tmp_path / "cut.pcap", data[: len(data) // 2])

    reader = read(path)
    found = traffic.lines(reader)
    whole = {line["exchange"]: line for line in traffic.exchanges(traffic.exported(traffic.LIBRDKAFKA))}
    same = [line for line in traffic.exchanges(found) if line == whole[line["exchange"]]]
    assert len(same) > 40
    assert found[-1]["schema"] == "kproxy.health/1"
    assert reader.error is not None
    assert "ends inside a packet" in str(reader.error)
    with pytest.raises(CaptureError, match="ends inside a packet"):
        list(read(path))


def test_a_bad_file_among_several_does_not_hide_the_others(tmp_path: Path) -> None:
    data = traffic.LIBRDKAFKA.read_bytes()
    bad = files.write(tmp_path / "bad.txt", b"this is text\n")
    reader = read([bad, traffic.LIBRDKAFKA])
    found = traffic.exchanges(traffic.lines(reader))
    assert len(found) == len(traffic.exchanges(traffic.exported(traffic.LIBRDKAFKA)))
    assert "bad.txt" in str(reader.error)
    assert len(data)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b"some text that is no capture", "neither pcap nor pcapng"),
        (files.pcap([])[:10], "ends inside its pcap header"),
        (b"\x1f\x8b\x08\x00rest of it", "the gzip data is"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CaptureError, match=message):
        list(read(path))


def test_a_directory_without_segments(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="without recording segments"):
        read(tmp_path)


def test_standard_input_stands_alone(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="together with other captures"):
        open_source([Path("-"), tmp_path])


def test_ports_narrow() -> None:
    both = traffic.exchanges(traffic.exported(traffic.KAFKA_1_1))
    one = traffic.exchanges(traffic.exported(traffic.KAFKA_1_1, ports="23001"))
    other = traffic.exchanges(traffic.exported(traffic.KAFKA_1_1, ports="100-200,23002-23009"))
    assert len(one) + len(other) == len(both)
    assert {line["broker"] for line in one} == {"127.0.0.1:23001"}
    assert traffic.exported(traffic.KAFKA_1_1, ports=(range(1, 3),))[:-1] == []


@pytest.mark.parametrize("text", ["", "x", "1-", "9-1", "70000", "1,,2"])
def test_bad_ports(text: str) -> None:
    with pytest.raises(ValueError, match="port"):
        read(traffic.KAFKA_1_1, ports=text)


def test_overlap_with_other_bytes_is_reported(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)
    victim = next(i for i, (_, frame) in enumerate(taken) if traffic.payload(frame) > 60)
    time, frame = taken[victim]
    taken.insert(victim + 1, (time, frame[:-8] + bytes(byte ^ 0x55 for byte in frame[-8:])))
    path = files.write(tmp_path / "overlap.pcap", files.pcap(taken))

    found = traffic.exported(path)
    clean = traffic.exchanges(traffic.exported(traffic.LIBRDKAFKA))
    assert [line | {"problems": []} for line in traffic.exchanges(found)] == clean
    codes = [line["code"] for line in traffic.problems(found)]
    codes += [problem["code"] for line in traffic.exchanges(found) for problem in line["problems"]]
    assert codes == ["overlap"]


@pytest.mark.parametrize("seed", range(4))
def test_duplicates_and_reordering_change_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    taken = traffic.packets(traffic.LIBRDKAFKA)
    damaged: list[files.Packet] = []
    for packet in taken:
        damaged.append(packet)
        if chance.random() < 0.05:
            damaged.append(packet)
    i = 0
    while i < len(damaged) - 1:
        a, b = damaged[i][1], damaged[i + 1][1]
        # only packets of the same direction: a response before its request is another case
        if a[26:38] == b[26:38] and traffic.payload(a) and traffic.payload(b) and chance.random() < 0.5:
            damaged[i], damaged[i + 1] = damaged[i + 1], damaged[i]
            i += 1
        i += 1
    path = files.write(tmp_path / "damaged.pcap", files.pcap(damaged))

    def bodies(lines: list[dict[str, Any]]) -> list[Any]:
        found = traffic.exchanges(lines)
        found.sort(key=lambda line: (line["connection"], line["correlation_id"] or 0, line["exchange"]))
        return [
            (
                line["api"],
                line["correlation_id"],
                line["status"],
                *(line[side] and line[side]["body"] for side in SIDES),
            )
            for line in found
        ]

    whole = traffic.exported(path)
    assert bodies(whole) == bodies(traffic.exported(traffic.LIBRDKAFKA))
    assert traffic.problems(whole) == []
    assert traffic.lines(reading(path, batch=1)) == whole


@pytest.mark.parametrize("seed", thinned(range(6), 2))
def test_lost_packets_cost_only_what_they_touch(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    taken = traffic.packets(traffic.KAFKA_1_1)
    kept = [packet for packet in taken if not traffic.payload(packet[1]) or chance.random() > 0.01]
    path = files.write(tmp_path / "lossy.pcap", files.pcap(kept))
    lost = len(taken) - len(kept)

    whole = {_name(line): line for line in traffic.exchanges(traffic.exported(traffic.KAFKA_1_1))}
    lines = traffic.exported(path)
    found = traffic.exchanges(lines)
    for line in found:
        if line["status"] != "ok" or line["problems"]:
            continue
        original = whole[_name(line)]
        # without what lost packets said about the content of bytes fields
        assert bare(line["request"]["body"]) == bare(original["request"]["body"])
        assert bare(line["response"]["body"]) == bare(original["response"]["body"])
        assert line["latency_ms"] == original["latency_ms"]
    good = [line for line in found if line["status"] in {"ok", "no_reply_expected"} and not line["problems"]]
    touched = len(whole) - len(good)
    assert touched <= 6 * lost + 5
    if lost:
        assert lines[-1]["gaps"] or touched
    assert traffic.lines(reading(path, batch=1)) == lines


def _name(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["client"], line["broker"], line["correlation_id"], line["api"]


def test_a_capture_that_starts_in_the_middle(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    syn = [i for i, (_, frame) in enumerate(taken) if frame[47] & 2]
    path = files.write(tmp_path / "late.pcap", files.pcap([packet for i, packet in enumerate(taken) if i not in syn]))

    whole = traffic.exchanges(traffic.exported(traffic.KAFKA_1_1))
    found = traffic.exchanges(traffic.exported(path))
    assert {(line["client"], line["broker"]) for line in found} == {(line["client"], line["broker"]) for line in whole}
    assert len(found) == len(whole)
    assert traffic.lines(reading(path, batch=1)) == traffic.exported(path)


@pytest.mark.parametrize("path", [traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA], ids=lambda path: path.stem)
def test_wherever_a_capture_starts_what_is_asked_later_is_there(path: Path, tmp_path: Path) -> None:
    def seen(exchange: Exchange) -> tuple[Any, ...]:
        request, response = exchange.request, exchange.response
        assert request is not None
        return (
            *(exchange.connection.client, exchange.connection.broker, exchange.api_key, exchange.api_version),
            *(exchange.correlation_id, exchange.client_id, exchange.status),
            *(request.time, response and response.time),
        )

    def exchanges(path: Path) -> list[Exchange]:
        return [item for item in read([path]) if isinstance(item, Exchange)]

    packets = traffic.packets(path)
    whole = exchanges(path)
    start = tmp_path / "start.pcap"
    for first in range(47, len(packets), 53):
        files.write(start, files.pcap(packets[first:]))
        begin = packets[first][0]
        asked = {seen(one) for one in whole if one.request is not None and one.request.first_time >= begin}
        assert {seen(one) for one in exchanges(start) if one.request is not None} == asked, first


def test_drop_counters_reach_health(tmp_path: Path) -> None:
    data = traffic.pcapng(traffic.packets(traffic.LIBRDKAFKA)) + files.statistics(0, 17)
    health = traffic.exported(files.write(tmp_path / "a.pcapng", data))[-1]
    assert health["recorder_dropped"] == 17
    assert health["packets"] == 679


def test_packet_comments_reach_the_exchange(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)
    victim = next(i for i, (_, frame) in enumerate(taken) if traffic.payload(frame) > 0)
    blocks = [
        files.enhanced(0, time // 1000, frame, comments=["changed by hand"] if i == victim else [])
        for i, (time, frame) in enumerate(taken)
    ]
    path = files.write(tmp_path / "a.pcapng", b"".join([files.section(), files.interface(), *blocks]))

    first = traffic.exchanges(traffic.exported(path))[0]
    assert first["request"]["comments"] == ["changed by hand"]


def test_reading_needs_no_numpy_to_open_a_source() -> None:
    import subprocess
    import sys

    code = "import sys, captures.source; assert not {'numpy', 'scapy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def flood(path: Path, connections: int, requests: int, segment: int, *, answered: bool = True) -> None:
    """A capture of pipelined ApiVersions requests of 22 bytes, `segment` of them in a packet, a millisecond apart.

    There are no responses; the capture holds the other side's TCP packets if `answered`.
    """
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether

    ports = range(1024, 1024 + connections)

    def frame(port: int, number: int, flags: str, data: bytes = b"") -> bytes:
        head = (
            Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=port, dport=9092, seq=number, ack=1, flags=flags)
        )
        return bytes(head / data)

    def answer(port: int, number: int, acknowledged: int, flags: str) -> bytes:
        head = TCP(sport=9092, dport=port, seq=number, ack=acknowledged, flags=flags)
        return bytes(Ether() / IP(src="10.0.0.2", dst="10.0.0.1") / head)

    rounds = [[frame(port, 0, "S") for port in ports]]
    if answered:
        rounds += [[answer(port, 0, 1, "SA") for port in ports], [frame(port, 1, "A") for port in ports]]
    for first in range(0, requests, segment):
        data = b"".join(
            struct.pack(">ihhih", 18, 18, 0, number, 8) + b"hostile!" for number in range(first, first + segment)
        )
        rounds.append([frame(port, 1 + 22 * first, "PA", data) for port in ports])
        if answered:
            rounds.append([answer(port, 1, 1 + 22 * (first + segment), "A") for port in ports])
    packets = [(10**6 * number, data) for number, one in enumerate(rounds) for data in one]
    path.write_bytes(files.pcap([(1_700_000_000 * 10**9 + at, data) for at, data in packets]))


@pytest.mark.system
def test_a_batch_is_bounded_by_its_bytes(tmp_path: Path) -> None:
    """Packets of 64 KiB hold tiny requests: the size of a batch must not grow with them."""
    flood(tmp_path / "flood.pcap", connections=1, requests=120_000, segment=2_900)
    reader = reading(tmp_path / "flood.pcap", batch=4096)
    sizes = [len(batch) for batch in reader.batches()]
    assert sum(sizes) == 121_800
    assert max(sizes[:-1]) <= BATCH_BYTES // 22
    assert sizes[-1] <= Limits().outstanding + BATCH_BYTES // 22


def test_packets_that_waited_are_taken_in_slices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The other side is missing: requests wait for it, and are all delivered at the end of the capture."""
    monkeypatch.setattr(slices, "SLICE_BYTES", 20_000)
    path = tmp_path / "flood.pcap"
    flood(path, connections=20, requests=290, segment=29, answered=False)
    reader = reading(path)
    numbers = []
    for _ in reader.batches():
        assert len(reader.started) <= 20_000 // 22
        numbers += [one.number for one in reader.started]
    assert numbers == list(range(1, 20 * 290 + 1))


@pytest.mark.parametrize("follow", [True, False])
def test_who_follows_a_capture_that_begins_within_a_connection_waits_a_second(tmp_path: Path, *, follow: bool) -> None:
    """A quiet connection: its SYN might still come, but while following, its exchanges are shown after a second."""
    spoken = [frame for _, frame in traffic.packets(traffic.KAFKA_1_1) if traffic.payload(frame)]
    client = spoken[0][26:38]
    broker = client[4:8] + client[:4] + client[10:] + client[8:10]
    mine = [frame for frame in spoken if frame[26:38] in {client, broker}][:4]
    path = tmp_path / "quiet.pcap"
    path.write_bytes(files.pcap([(10**18 + i * 600_000_000, frame) for i, frame in enumerate(mine)]))
    reader = reading(path, follow=follow)
    reader.poll()
    assert bool(reader.started) is follow


def test_slices_do_not_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "disordered.pcap"
    path.write_bytes(files.pcap(disordered(traffic.packets(traffic.KAFKA_1_1), random.Random(3))[20:]))
    whole = traffic.exported(path)
    for size in (1, 5_000):
        monkeypatch.setattr(slices, "SLICE_BYTES", size)
        assert traffic.lines(reading(path)) == whole
        assert traffic.lines(reading(path, batch=50)) == whole


def test_requests_that_wait_are_bounded_in_all(tmp_path: Path) -> None:
    flood(tmp_path / "flood.pcap", connections=20, requests=300, segment=30)
    reader = reading(tmp_path / "flood.pcap", batch=16, limits=Limits(all_outstanding=1_000))
    found: list[Any] = []
    for batch in reader.batches():
        found += batch
        assert reader._waiting <= 1_000
    evicted = [one for one in found if any(problem.code == Code.EVICTED for problem in one.problems)]
    assert len(found) == 20 * 300
    assert len(evicted) > 4_000
    assert {one.reason for one in evicted} == {"given up: too many requests waited in all"}
    assert {one.status for one in found} == {Status.NO_RESPONSE}


def test_memory_of_what_was_read_is_given_back(tmp_path: Path) -> None:
    """Pages of a mapped capture do not stay resident after they are read."""
    path = tmp_path / "large.pcap"
    flood(path, connections=1, requests=2_900, segment=2_900)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[24 + 3 * 70 :] * 1_500)  # 96 MB of one segment, again and again

    def mapped() -> int:
        """Resident bytes of the capture."""
        text = Path("/proc/self/smaps").read_text()
        sizes = re.findall(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss: +(\d+) kB", text)
        return sum(map(int, sizes)) * 1024

    reader = reading(path, batch=4096)
    most = 0
    for _ in reader.batches():
        most = max(most, mapped())
    assert path.stat().st_size > 90 << 20
    assert 0 < most <= 3 * RELEASE_BYTES
