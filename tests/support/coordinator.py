"""Captures of conversations in the two drafts of the unreleased co-ordinator protocol.

Every byte is packed by hand from the tables of the drafts, without the decoder. Run as a module, it writes
tests/data/dialects anew: python -m tests.support.coordinator.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "dialects"
START = 1_400_000_000 * 1_000_000_000
"""2014-05-13T16:53:20Z, in nanoseconds."""
MILLISECOND = 1_000_000
CONSUMER, BROKER, COORDINATOR = "10.0.0.1", "10.0.0.2", "10.0.0.3"
KAFKA_PORT = 9092

Offset = tuple[str, str, int]
Assigned = tuple[str, int, int, int]
Broker = tuple[str, int, str, int]


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Draft:
    """Frames of one draft; correlation ids are ignored if the draft has none."""

    def __init__(self, number: int, *, correlation_ids: bool = True) -> None:
        self.name = f"coordinator-draft-{number}"
        self.first = number == 1
        self.ids = self.first and correlation_ids
        base = 20001 if self.first else 20101
        self.types = dict(zip(("Consult", "Register", "Ping", "Stop", "Start"), range(base, base + 5), strict=True))
        self.port = 9500 if self.first else 9501

    def asked(self, name: str, correlation_id: int, client_id: str, body: bytes = b"") -> bytes:
        """A request's frame."""
        header = struct.pack(">h", self.types[name])
        if self.first:
            header += struct.pack(">h", 0)
            header += struct.pack(">i", correlation_id) if self.ids else b""
            header += string(client_id)
        return framed(header + body)

    def answered(self, correlation_id: int, body: bytes = b"", error: int = 0) -> bytes:
        """A response's frame."""
        header = b""
        if self.first:
            header += struct.pack(">i", correlation_id) if self.ids else b""
            header += struct.pack(">h", 0)
        return framed(header + struct.pack(">h", error) + body)

    def consult(self, correlation_id: int) -> bytes:
        body = struct.pack(">bi", -1, 1500) if self.first else b""
        return self.asked("Consult", correlation_id, "shop", body)

    def coordinator(self, correlation_id: int, number: int, brokers: Sequence[Broker], error: int = 0) -> bytes:
        body = struct.pack(">hi", number, len(brokers))
        for creator, node, host, port in brokers:
            body += string(creator) + struct.pack(">i", node) + string(host) + struct.pack(">i", port)
        return self.answered(correlation_id, body, error)

    def register(
        self, correlation_id: int, group: str, consumer: str, *, auto_commit: bool, rest: str, interval: int, most: int
    ) -> bytes:
        body = string(group) + string(consumer) + struct.pack(">b", auto_commit) + string(rest)
        return self.asked("Register", correlation_id, "shop", body + struct.pack(">ih", interval, most))

    def ping(self, correlation_id: int) -> bytes:
        return self.asked("Ping", correlation_id, "coordinator")

    def offsets(self, correlation_id: int, offsets: Sequence[Offset] | None, error: int = 0) -> bytes:
        """A PingResponse or StopResponse; `offsets` is None if the consumer does not commit automatically."""
        body = b""
        if offsets is not None:
            body = struct.pack(">h", len(offsets))
            for topic, partition, offset in offsets:
                body += string(topic) + string(partition) + struct.pack(">q", offset)
        return self.answered(correlation_id, body, error)

    def stop(self, correlation_id: int) -> bytes:
        return self.asked("Stop", correlation_id, "coordinator")

    def start(self, correlation_id: int, assignment: Sequence[Assigned]) -> bytes:
        body = struct.pack(">i", len(assignment))
        for topic, partition, broker, offset in assignment:
            body += string(topic) + struct.pack(">iiq", partition, broker, offset)
        return self.asked("Start", correlation_id, "coordinator", body)


def metadata(correlation_id: int) -> bytes:
    """A request of Kafka's Metadata v1 for all topics."""
    return framed(struct.pack(">hhi", 3, 1, correlation_id) + string("shop") + struct.pack(">i", -1))


def metadata_answer(correlation_id: int) -> bytes:
    """A response of Metadata v1 with one broker and no topics."""
    broker = struct.pack(">i", 7) + string("kafka-7") + struct.pack(">i", KAFKA_PORT) + struct.pack(">h", -1)
    return framed(struct.pack(">ii", correlation_id, 1) + broker + struct.pack(">ii", 7, 0))


class Wire:
    """Packets of TCP connections over raw IPv4."""

    def __init__(self) -> None:
        self.time = START
        self.packets: list[tuple[int, bytes]] = []

    def wait(self, milliseconds: float) -> None:
        self.time += round(milliseconds * MILLISECOND)

    def pcap(self) -> bytes:
        out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
        for time, packet in self.packets:
            seconds, rest = divmod(time, 1_000_000_000)
            out.append(struct.pack("<IIII", seconds, rest // 1000, len(packet), len(packet)) + packet)
        return b"".join(out)


class Talk:
    """One connection; it begins with the SYN unless `opened` is False."""

    def __init__(self, wire: Wire, port: int, broker: str, broker_port: int, *, opened: bool = True) -> None:
        self.wire = wire
        self.ends = ((CONSUMER, port), (broker, broker_port))
        self.next = [1000, 5000]
        if opened:
            self._packet(0, 0x02)
            self.next[0] += 1
            self._packet(1, 0x12)
            self.next[1] += 1
            self._packet(0, 0x10)

    def client(self, *frames: bytes) -> None:
        self._packet(0, 0x18, b"".join(frames))

    def broker(self, *frames: bytes) -> None:
        self._packet(1, 0x18, b"".join(frames))

    def lose(self, side: int, size: int) -> None:
        """Leave a gap: `size` bytes that the capture does not hold."""
        self.next[side] += size

    def close(self) -> None:
        self._packet(0, 0x11)
        self.next[0] += 1
        self._packet(1, 0x11)
        self.next[1] += 1
        self._packet(0, 0x10)

    def _packet(self, side: int, flags: int, data: bytes = b"") -> None:
        (source, source_port), (target, target_port) = self.ends[side], self.ends[1 - side]
        sequence, acknowledged = self.next[side], self.next[1 - side] if flags != 0x02 else 0
        tcp = struct.pack(">HHIIBBHHH", source_port, target_port, sequence, acknowledged, 5 << 4, flags, 65535, 0, 0)
        addresses = bytes(map(int, source.split("."))) + bytes(map(int, target.split(".")))
        size = 20 + len(tcp) + len(data)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0x4000, 64, 6, 0) + addresses
        self.wire.packets.append((self.wire.time, ip + tcp + data))
        self.next[side] += len(data)
        self.wire.wait(1)


OFFSETS = (("orders", "0", 41), ("orders", "1", 1 << 40))
ASSIGNMENT = (("orders", 0, 7, 41), ("orders", 1, 8, -1))
BROKERS = (("zk-1", 7, "kafka-7", 9092), ("zk-1", 8, "kafka-8", 9092))


def consulting(wire: Wire, draft: Draft) -> None:
    """Consult requests pipelined with Kafka's own; responses come in order."""
    talk = Talk(wire, 40001, BROKER, KAFKA_PORT)
    talk.client(metadata(1))
    talk.broker(metadata_answer(1))
    talk.client(metadata(2), draft.consult(3), metadata(4))
    talk.broker(metadata_answer(2), draft.coordinator(3, 7, BROKERS), metadata_answer(4))
    talk.client(draft.consult(5))
    talk.broker(draft.coordinator(5, -1, (), error=15))
    talk.close()


def committing(wire: Wire, draft: Draft) -> None:
    """A consumer with automatic commits is pinged, stopped and started."""
    talk = Talk(wire, 40002, COORDINATOR, draft.port)
    register = draft.register(1, "billing", "c-1", auto_commit=True, rest="smallest", interval=3000, most=3)
    talk.client(register)
    wire.wait(500)
    talk.broker(draft.ping(100))
    talk.client(draft.offsets(100, OFFSETS))
    wire.wait(500)
    talk.broker(draft.stop(101))
    talk.client(draft.offsets(101, OFFSETS[:1]))
    talk.broker(draft.start(102, ASSIGNMENT))
    talk.client(draft.answered(102))
    wire.wait(500)
    talk.broker(draft.ping(103))
    talk.client(draft.offsets(103, (), error=1))
    talk.close()


def failing(wire: Wire, draft: Draft) -> None:
    """A consumer without automatic commits misses one ping, answers the next, and then no more."""
    talk = Talk(wire, 40003, COORDINATOR, draft.port)
    talk.client(draft.register(1, "billing", "c-2", auto_commit=False, rest="largest", interval=1000, most=3))
    wire.wait(400)
    talk.broker(draft.ping(1))
    talk.client(draft.offsets(1, None))
    wire.wait(600)
    talk.broker(draft.ping(2))
    wire.wait(1100)
    talk.broker(draft.ping(3))
    talk.client(draft.offsets(3, None))
    for number in range(4, 8):
        wire.wait(1100)
        talk.broker(draft.ping(number))
    wire.wait(1100)
    talk.close()


def forgotten(wire: Wire, draft: Draft) -> None:
    """A consumer registers, and its first ping comes too late."""
    talk = Talk(wire, 40004, COORDINATOR, draft.port)
    talk.client(draft.register(1, "billing", "c-3", auto_commit=False, rest="largest", interval=1000, most=3))
    wire.wait(1500)
    talk.broker(draft.ping(1))
    talk.client(draft.offsets(1, None))
    talk.close()


def recording(draft: Draft) -> bytes:
    """All conversations above as one pcap file."""
    wire = Wire()
    for part in (consulting, committing, failing, forgotten):
        part(wire, draft)
        wire.wait(10)
    return wire.pcap()


def main() -> None:
    for draft in (Draft(1), Draft(2)):
        (DATA / f"{draft.name}.pcap").write_bytes(recording(draft))


if __name__ == "__main__":
    main()
