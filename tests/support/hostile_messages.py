"""A capture of every Kafka message with hostile text in each field."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kproxy.decoders.compiler import decoder
from kproxy.decoders.schema import Message
from kproxy.decoders.schema.layout import Layout, Shape, Slot
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.writer import write
from tests.captures import files
from tests.captures.files import Packet
from tests.decoders.batches.support import batch, record
from tests.decoders.test_escaping import HOSTILE
from tests.support.scripts import eyes, request, response

TEXT = f"={HOSTILE}"
"""Text that a spreadsheet would take for a formula, with control sequences for terminals."""
DATA = TEXT.encode()
RECORDS = batch(record(0, DATA, DATA, [(DATA, DATA)]), 1)
INSIDE = {
    "protocols.metadata": "ConsumerProtocolSubscription",
    "members.metadata": "ConsumerProtocolSubscription",
    "groups.members.memberMetadata": "ConsumerProtocolSubscription",
    "assignments.assignment": "ConsumerProtocolAssignment",
    "assignment": "ConsumerProtocolAssignment",
    "groups.members.memberAssignment": "ConsumerProtocolAssignment",
}
"""Structures inside bytes fields that members of a group send, by path of the field."""
RAW = 101


def conversation() -> Iterator[tuple[bytes, bytes]]:
    """Request and response of every API in its last version, with all fields set."""
    yield request(18, 0, 0), response(18, 0, 0)  # by this the connection is recognised as Kafka
    for number, key in enumerate(eyes().apis, 1):
        version = eyes().versions(key).high
        asked, answered = eyes().request(key, version), eyes().response(key, version)
        if asked is not None and answered is not None:
            ask = request(key, version, number, TEXT, raw=filled(asked, version))
            yield ask, response(key, version, number, raw=filled(answered, version))


def filled(message: Message, version: int) -> bytes:
    """A message's body with TEXT in every string, one element in every array, and every tagged field."""
    body = write(message, version, _values(layout_of(message, version)))
    _, end = decoder(message, version)(body, 0, len(body))
    assert end == len(body)
    return body


def _values(layout: Layout, above: str = "") -> dict[str, Any]:
    return {slot.name: _value(slot, f"{above}{slot.name}") for slot in layout.every()}


def _value(slot: Slot, path: str) -> Any:
    if slot.shape is Shape.STRING:
        return "consumer" if slot.name == "protocolType" else TEXT
    if slot.shape is Shape.ARRAY:
        return [_value(slot.one, path)]
    if slot.shape is Shape.STRUCT:
        return _values(slot.struct, f"{path}.")
    if slot.shape is Shape.BYTES:
        return RECORDS if slot.type == "records" else _inside(path)
    return bytes(16) if slot.type == "uuid" else 0


def _inside(path: str) -> bytes:
    """The value of a bytes field: the filled structure of INSIDE if it has one, else the text."""
    name = INSIDE.get(path)
    if name is None:
        return DATA
    message = eyes().message(name, 3)
    assert message is not None
    return struct.pack(">h", 3) + filled(message, 3)


def capture(path: Path) -> Path:
    """Write a capture with all exchanges on one connection, one after the other."""
    from scapy.layers.inet import IP, TCP

    packets: list[Packet] = []
    sent = [1, 1]
    ends = (("10.0.0.1", 40000), ("10.0.0.2", 9092))

    def packet(side: int, flags: str, data: bytes = b"") -> None:
        (source, port), (target, to) = ends[side], ends[1 - side]
        tcp = TCP(sport=port, dport=to, seq=sent[side], ack=sent[1 - side], flags=flags)
        packets.append((len(packets) * 1_000_000 + 10**18, bytes(IP(src=source, dst=target) / tcp / data)))
        sent[side] += len(data) + ("S" in flags)

    packet(0, "S")
    packet(1, "SA")
    for asked, answered in conversation():
        for side, data in enumerate((asked, answered)):
            for at in range(0, len(data), 60_000):
                packet(side, "PA", data[at : at + 60_000])
    path.write_bytes(files.pcap(packets, link=RAW))
    return path
