"""Every message of Kafka's with hostile text in each of its fields, as a capture."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kproxy.decoders.compiler import decoder
from kproxy.decoders.layout import Layout, Shape, Slot
from kproxy.decoders.layout import layout as layout_of
from kproxy.decoders.schema import Message
from kproxy.decoders.writer import write
from tests.captures import files
from tests.captures.files import Packet
from tests.decoders.records.support import batch, record
from tests.decoders.test_escaping import HOSTILE
from tests.support.scripts import eyes, request, response

TEXT = f"={HOSTILE}"
"""What a spreadsheet would calculate, and what a terminal obeys."""
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
"""What is in bytes that members of a group send, by the field's path."""
RAW = 101


def conversation() -> Iterator[tuple[bytes, bytes]]:
    """A request and its response for every API, in its last version, all fields set."""
    yield request(18, 0, 0), response(18, 0, 0)  # by which the connection is known as Kafka's
    for number, key in enumerate(eyes().apis, 1):
        version = eyes().versions(key).high
        asked, answered = eyes().request(key, version), eyes().response(key, version)
        if asked is not None and answered is not None:
            ask = request(key, version, number, TEXT, raw=filled(asked, version))
            yield ask, response(key, version, number, raw=filled(answered, version))


def filled(message: Message, version: int) -> bytes:
    """The message with TEXT in every string, one element in every array, and every tagged field there."""
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
    """The bytes of a field: where a group's members say something in them that, else the text alone."""
    name = INSIDE.get(path)
    if name is None:
        return DATA
    message = eyes().message(name, 3)
    assert message is not None
    return struct.pack(">h", 3) + filled(message, 3)


def capture(path: Path) -> Path:
    """All of it as one connection, an exchange after the other."""
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
