"""Redaction leaves no mark of cut messages in any form of output, wherever they are cut."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.captures.redaction import Removed
from kproxy.captures.redaction.frames import FrameRedaction
from kproxy.captures.redaction.hosts import Hosts
from kproxy.decoders.exchange import Connection, Exchange, Frame
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from tests.captures import files, traffic
from tests.captures.redaction import marking
from tests.captures.redaction.test_exports import FORMS, export, output
from tests.captures.redaction.test_records import batch, record

PRESET_OF = {"hosts": marking.HOST, "secrets": marking.SECRET}
SNAP = 154
"""Snap length in bytes, with 100 of TCP payload."""


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every eighth connection of the marked capture with its packets cut, in a file whose name contains a host."""
    folder = tmp_path_factory.mktemp("cut")
    whole, path = folder / "whole.pcap", folder / "HoSt.pcap"
    whole.write_bytes(marking.marked())
    packets = [packet for packet in traffic.packets(whole) if _port(packet[1]) % 8 == 0]
    path.write_bytes(files.pcap(packets, snap=SNAP))
    return path


def _port(frame: bytes) -> int:
    """The client's port of a packet to or from a broker at port 9092."""
    sender, receiver = struct.unpack_from(">HH", frame, 34)
    return int(sender + receiver - 9092)


def cuts(step: int) -> Iterator[tuple[bytes, Frame, Exchange]]:
    """Marked frames, one for every `step`-th byte, which lack that byte or, alternately, all bytes from it on."""
    number = 0
    source = marking.marked()
    for item in traffic_of(marking.GOLDEN):
        for frame in (item.request, item.response):
            if frame is None or len(frame.spans) != 1:
                continue
            at, size = frame.spans[0]
            data = source[at : at + size]
            if not marking.found(data):
                continue
            for length in range(size):
                number += 1
                if number % step:
                    continue
                behind = data[length + 1 :] if number // step % 2 else b""
                missing = size - length - len(behind)
                short = replace(frame, missing=missing, spans=[(at, length), (at + length + 1, len(behind))])
                where = "request" if frame is item.request else "response"
                gone = [Problem(where, length, "", "", Code.GAP)]
                request, response = (short, None) if where == "request" else (None, short)
                made = replace(item, problems=gone, request=request, response=response)
                yield data[:length] + behind, short, made


def traffic_of(path: Path) -> Iterator[Exchange]:
    for items in read(path).batches():
        yield from (item for item in items if isinstance(item, Exchange))


def leaks(step: int) -> list[str]:
    """Those cuts that leave a mark after redaction of only hosts, or only secrets."""
    redactions = [
        (mark, FrameRedaction(definitions(), {preset}, Hosts(b"salt"), Knowledge(), Removed()))
        for preset, mark in PRESET_OF.items()
    ]
    left, seen = [], 0
    for data, frame, exchange in cuts(step):
        seen += 1
        for mark, redaction in redactions:
            out = redaction.of(data, frame, exchange)
            assert len(out) == len(data)
            if marking.found(out, (mark,)):
                left.append(f"{exchange.api_key} v{exchange.api_version} {len(data)} bytes: {mark!r}")
    assert seen > 100
    return left


def test_no_mark_is_left_of_frames_cut_anywhere() -> None:
    assert not leaks(1009)


@pytest.mark.parametrize("form", FORMS)
def test_no_form_shows_a_mark_of_a_cut_capture(form: str, cut: Path, tmp_path: Path) -> None:
    plain, closed = tmp_path / "plain", tmp_path / "closed"
    export(cut, form, closed, "--redact", "hosts")
    assert not search(closed, form)
    if form in {"jsonl", "pcapng", "parquet"}:
        export(cut, form, plain, "--show-secrets")
        assert marking.HOST in search(plain, form)


def search(out: Path, form: str) -> set[bytes]:
    held = output(out, form)
    return marking.found_in_lines(held) if form == "jsonl" else marking.found(held)


def redacted(data: bytes, api_key: int | None, version: int, side: Side, *presets: str) -> bytes:
    frame = Frame(side, 0, len(data) - 4, 0, 0, 0, [(0, len(data))])
    exchange = Exchange(1, Connection(1, "a:1", "b:2", 0), api_key, version, 1, "c")
    exchange.request, exchange.response = (frame, None) if side is Side.CLIENT else (None, frame)
    redaction = FrameRedaction(definitions(), presets, Hosts(b"salt"), Knowledge(), Removed())
    return redaction.of(data, frame, exchange)


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("preset", ["hosts", "secrets", "payloads"])
def test_bodies_that_nothing_reads_are_withheld(preset: str) -> None:
    unknown = sized(struct.pack(">hhih", 30_000, 0, 7, 1) + b"c" + b"\0\4HoSt")
    assert redacted(unknown, 30_000, 0, Side.CLIENT, preset) == unknown[:15] + b"x" * 6
    orphan = sized(struct.pack(">i", 7) + b"\0\4HoSt")
    assert redacted(orphan, None, 0, Side.BROKER, preset) == orphan[:8] + b"x" * 6
    # a Metadata v1 response with a wrong count of brokers
    broken = sized(struct.pack(">iii", 7, 1, 0) + b"\0\4HoSt" + struct.pack(">ihi", 9092, -1, 1))
    assert redacted(broken, 3, 1, Side.BROKER, preset) == broken[:8] + b"x" * (len(broken) - 8)


@pytest.mark.parametrize("preset", ["hosts", "secrets", "payloads"])
def test_bytes_behind_a_body_and_unknown_tags_are_withheld(preset: str) -> None:
    heartbeat = sized(struct.pack(">ih", 7, 0) + b"HoSt")
    assert redacted(heartbeat, 12, 0, Side.BROKER, preset) == heartbeat[:10] + b"xxxx"
    tagged = sized(struct.pack(">i", 7) + b"\0" + struct.pack(">ih", 0, 0) + b"\1\x63\4HoSt")
    out = redacted(tagged, 12, 4, Side.BROKER, preset)
    assert out == tagged[:-4] + b"xxxx"


def test_the_beginning_of_a_cut_answer_can_still_be_read() -> None:
    broker = struct.pack(">i", 1) + b"\0\x08HoStHoSt" + struct.pack(">ih", 9092, -1)
    data = sized(struct.pack(">ii", 7, 2) + broker + broker)
    short = data[:-15]
    frame = Frame(Side.BROKER, 0, len(data) - 4, 0, 0, 0, [(0, len(short))], (), 15)
    exchange = Exchange(1, Connection(1, "a:1", "b:2", 0), 3, 1, 7, "c", None, frame)
    redaction = FrameRedaction(definitions(), {"hosts"}, Hosts(b"salt"), Knowledge(), Removed())
    out = redaction.of(short, frame, exchange)
    assert not marking.found(out)
    assert out[:18] == short[:18]  # two brokers, the first is number 1, and its host has 8 characters
    assert out[26:32] == short[26:32]
    assert out[32:36] == short[32:36]
    assert out[36:] == b"x"


def test_records_that_no_batch_claims_are_withheld() -> None:
    whole = batch([record(0, b"k", b"v", [])])
    behind = bytearray(batch([record(0, b"k", b"v", []), record(1, b"PaYl", b"PaYl", [])]))
    behind[57:61] = struct.pack(">i", 1)
    control = batch([record(0, b"\0\0\0\1", b"PaYlPaYl", [])], attributes=32)
    for field in (whole + b"PaYlPaYlPaYlPaYlPaYl", bytes(behind), control, whole + control[:-2]):
        data = produce(field)
        for presets in (("payloads",), ("hosts",)) if field is not control else (("payloads",),):
            assert b"PaYl" not in redacted(data, 0, 3, Side.CLIENT, *presets)


def produce(field: bytes) -> bytes:
    head = struct.pack(">hhih", 0, 3, 7, 1) + b"c"
    body = struct.pack(">hhiih", -1, 1, 1000, 1, 1) + b"t" + struct.pack(">ii", 1, 0) + sized(field)
    return sized(head + body)


def test_comments_keep_their_form_and_lose_what_they_quote(tmp_path: Path) -> None:
    comment = 'changed by kproxy on the way to the client:\nbrokers[0].host: "HoSt" -> "HoSt"\nbrokers[0].port: 1 -> 2'
    leaked = "kproxy let pass a broker's own address: HoSt:9092"
    packets = traffic.packets(traffic.LIBRDKAFKA)[:60]
    blocks = [
        files.enhanced(0, time // 1000, frame, comments=[comment, leaked, "seen at HoSt"]) for time, frame in packets
    ]
    path = tmp_path / "comments.pcapng"
    path.write_bytes(b"".join([files.section(), files.interface(), *blocks]))
    for form in ("jsonl", "pcapng", "html", "parquet"):
        export(path, form, tmp_path / form, "--redact", "hosts")
        assert not search(tmp_path / form, form)
    assert b"brokers[0].host: (withheld)" in (tmp_path / "jsonl").read_bytes()
    assert b"own address: (withheld)" in (tmp_path / "pcapng").read_bytes()


def test_what_sasl_and_reasons_tell_is_searched_for_hosts() -> None:
    from kproxy.captures.redaction.exchanges import Redaction
    from kproxy.decoders.sasl.session import Session

    reader = read(traffic.LIBRDKAFKA)
    item = next(one for one in traffic_of(traffic.LIBRDKAFKA))
    reader.source.grow(wait=False)
    redaction = Redaction(reader.source, reader.definitions, {"hosts"})
    redaction.hosts.learn("HoSt-1")
    named = replace(item, session=Session(principal="kafka/HoSt-1@REALM"), reason="closed by HoSt-1")
    line = exchange_json(redaction.exchange(named), reader.source, reader.definitions, view=View())
    assert "HoSt" not in repr(line)
