"""Takes real captures apart and builds new ones from their packets, whole or damaged."""

from __future__ import annotations

import json
import lzma
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kproxy.captures.errors import CaptureError
from kproxy.captures.export.jsonl import JsonLines
from kproxy.captures.reader import Reader, read
from kproxy.decoders.view import View
from tests.captures import files

DATA = Path(__file__).parents[1] / "data"
LIBRDKAFKA = DATA / "captures" / "kafka-4.4.0-librdkafka.pcap"
KAFKA_0_8 = DATA / "captures" / "kafka-0.8.2.2.pcap"
KAFKA_1_1 = DATA / "captures" / "kafka-1.1.1.pcap"
BENCH = DATA / "captures" / "bench-base.pcap.xz"


def packets(path: Path) -> list[files.Packet]:
    """The packets of a little-endian microsecond pcap file, which may be compressed by xz."""
    data = path.read_bytes()
    data = lzma.decompress(data) if path.suffix == ".xz" else data
    found, at = [], 24
    while at < len(data):
        seconds, micro, held, _ = struct.unpack_from("<IIII", data, at)
        found.append((seconds * 1_000_000_000 + micro * 1000, data[at + 16 : at + 16 + held]))
        at += 16 + held
    return found


def payload(frame: bytes) -> int:
    """Bytes of TCP payload in an Ethernet frame with IPv4."""
    tcp = 14 + (frame[14] & 15) * 4
    return int.from_bytes(frame[16:18], "big") + 14 - tcp - (frame[tcp + 12] >> 4) * 4


def ports(frame: bytes) -> tuple[int, int]:
    """The source and the destination port of TCP, or UDP, in an Ethernet frame with IPv4."""
    at = 14 + (frame[14] & 15) * 4
    return int.from_bytes(frame[at : at + 2], "big"), int.from_bytes(frame[at + 2 : at + 4], "big")


def is_syn(frame: bytes) -> bool:
    """Whether an Ethernet frame with IPv4 is the first packet of a TCP connection."""
    at = 14 + (frame[14] & 15) * 4
    return frame[23] == 6 and frame[at + 13] & 0x12 == 2


def pcapng(taken: Iterable[files.Packet]) -> bytes:
    blocks = [files.enhanced(0, time // 1000, frame) for time, frame in taken]
    return b"".join([files.section(), files.interface(), *blocks])


def lines(reader: Reader) -> list[dict[str, Any]]:
    """The lines that export prints for a reading; if that ends in an error, those before it."""
    form = JsonLines(reader, View(show_secrets=True))
    out = []
    try:
        for item in reader:
            out.append(form.line(item))  # noqa: PERF401  # an error must not lose what came before it
    except CaptureError:
        assert reader.error is not None
    return out


def exported(path: Path | str, **more: Any) -> list[dict[str, Any]]:
    return lines(read(path, **more))


def exchanges(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in found if line["schema"] == "kproxy.exchange/1"]


def problems(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in found if line["schema"] == "kproxy.problem/1"]


def comparable(found: list[dict[str, Any]]) -> str:
    return json.dumps(found, sort_keys=True, indent=0)
