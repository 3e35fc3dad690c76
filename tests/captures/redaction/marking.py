"""Replaces the hosts and secrets of a capture by marks of equal length, and searches outputs for these."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kproxy.captures.reader import read
from kproxy.captures.redaction.hosts import FIELDS
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.frames import frame_tree
from kproxy.decoders.tree import Node
from tests.captures import traffic

GOLDEN = traffic.DATA / "golden" / "golden-4.4.0.pcap"
HOST, SECRET = b"HoSt", b"SeCr"
MARKS = (HOST, SECRET)
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{8,}={0,2}")


@cache
def marked(path: Path = GOLDEN) -> bytes:
    """The capture with HOST repeated in fields of hosts and in URLs of other text, and SECRET in secret fields."""
    data = bytearray(path.read_bytes())
    for mark in (_host, _secret):
        held = bytes(data)
        reader = read(path)
        for item in (one for batch in reader.batches() for one in batch):
            if not isinstance(item, Exchange) or item.token:
                continue
            for frame in (item.request, item.response):
                if frame is None or len(frame.spans) != 1:
                    continue
                at, size = frame.spans[0]
                root = frame_tree(held[at : at + size], frame.side, item.api_key, item.api_version, reader.definitions)
                for node in root.walk():
                    value = mark(node)
                    if value:
                        data[at + node.end - len(value) : at + node.end] = value
    return bytes(data)


def _host(node: Node) -> bytes:
    if not isinstance(node.value, str):
        return b""
    size = len(node.value.encode("utf-8", "surrogatepass"))
    if node.name in FIELDS:
        return repeated(HOST, size)
    return b"//" + repeated(HOST, size - 4) + b":1" if size >= 12 else b""


def _secret(node: Node) -> bytes:
    if not node.secret or node.value is None or isinstance(node.value, int):
        return b""
    value = node.value.encode("utf-8", "surrogatepass") if isinstance(node.value, str) else node.value
    return repeated(SECRET, len(value))


def repeated(mark: bytes, size: int) -> bytes:
    return (mark * (size // len(mark) + 1))[:size]


def found(data: bytes, marks: tuple[bytes, ...] = MARKS) -> set[bytes]:
    """The marks that some bytes contain, directly or in base64."""
    texts = [data, *(_decoded(one) for one in _BASE64.findall(data))]
    return {mark for mark in marks if any(mark in text for text in texts)}


def found_in_lines(data: bytes, marks: tuple[bytes, ...] = MARKS) -> set[bytes]:
    """The marks that lines of JSON contain, in their decoded texts too."""
    texts = b"\n".join(
        text.encode("utf-8", "replace") for line in data.splitlines() for text in _texts(json.loads(line))
    )
    return found(texts, marks) | {mark for mark in marks if mark in data}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:
        return b""
