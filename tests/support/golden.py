"""The golden corpora: frames from a pcap, each with the body that Kafka's classes read in it."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Golden:
    """A frame with its length field, and its expected reading."""

    frame: bytes
    kind: str
    name: str
    api_key: int
    api_version: int
    correlation_id: int
    body: Any

    def __repr__(self) -> str:
        return f"{self.name} v{self.api_version} #{self.correlation_id}"


def segments(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """(source, destination, payload) of each TCP segment with a payload in a pcap file."""
    data = path.read_bytes()
    order = "<" if data[:4] in {b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"} else ">"
    (link,) = struct.unpack_from(order + "I", data, 20)
    skip = {1: 14, 101: 0, 228: 0, 113: 16, 0: 4}[link]
    position = 24
    while position < len(data):
        (stored,) = struct.unpack_from(order + "I", data, position + 8)
        packet = data[position + 16 : position + 16 + stored]
        position += 16 + stored
        ip = packet[skip:]
        header = (ip[0] & 15) * 4
        total = int.from_bytes(ip[2:4], "big")
        tcp = ip[header:total]
        payload = tcp[(tcp[12] >> 4) * 4 :]
        if payload:
            source, destination = (".".join(map(str, ip[at : at + 4])) for at in (12, 16))
            ports = struct.unpack_from(">HH", tcp)
            yield f"{source}:{ports[0]}", f"{destination}:{ports[1]}", payload


@cache
def golden(release: str) -> tuple[Golden, ...]:
    """Every frame of a golden corpus ("4.4.0", "3.9.2") with its expectation."""
    with gzip.open(DATA / "golden" / f"golden-{release}.jsonl.gz", "rt", encoding="utf-8") as lines:
        expected = [json.loads(line) for line in lines]
    streams: dict[tuple[str, str], bytearray] = {}
    for source, destination, payload in segments(DATA / "golden" / f"golden-{release}.pcap"):
        streams.setdefault((source, destination), bytearray()).extend(payload)
    frames: dict[tuple[str, str, int], bytes] = {}
    for (source, destination), stream in streams.items():
        request = destination == "10.0.0.2:9092"
        at = 0
        while at < len(stream):
            frame = bytes(stream[at : at + 4 + struct.unpack_from(">i", stream, at)[0]])
            (correlation_id,) = struct.unpack_from(">i", frame, 8 if request else 4)
            frames["request" if request else "response", source if request else destination, correlation_id] = frame
            at += len(frame)
    return tuple(
        Golden(
            frames[line["kind"], line["client"], line["correlation_id"]],
            line["kind"],
            line["name"],
            line["api_key"],
            line["api_version"],
            line["correlation_id"],
            line["body"],
        )
        for line in expected
    )


def plain(body: Any) -> Any:
    """kproxy's JSON in the form of the expectations: a records object as its size, {base64, decoded} as its base64."""
    if isinstance(body, list):
        return [plain(element) for element in body]
    if not isinstance(body, dict):
        return body
    result = {}
    for name, value in body.items():
        if isinstance(value, dict) and "truncatedTail" in value:
            result[f"{name}SizeInBytes"] = value["sizeInBytes"]
        elif isinstance(value, dict) and value.keys() == {"base64", "decoded"}:
            result[name] = value["base64"]
        else:
            result[name] = plain(value)
    return result
