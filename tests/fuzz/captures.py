"""Any bytes offered as a capture give the same items whole, in batches of one packet and as the file grows.

A follower waits as long here as a reading of the whole file for packets that are out of order.

Nothing is raised but what `Reader.error` holds (what is gone when it is wanted is no error either), every health count
is at least 0, and no exchange holds more bytes than were fed.
"""

from __future__ import annotations

import struct
from dataclasses import asdict
from functools import lru_cache
from itertools import zip_longest
from random import Random
from typing import Any

from kproxy.captures.analysis.views import Views
from kproxy.captures.export.jsonl import JsonLines
from kproxy.captures.reader import Reader
from kproxy.captures.tcp.waiting import LONGEST_TIME
from kproxy.decoders import schema
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.exchange import Exchange, StreamProblem
from tests.captures import files, traffic
from tests.captures.memory import MemorySource

MOST_PACKETS = 60


@lru_cache(maxsize=4)
def _packets(index: int) -> list[files.Packet]:
    return traffic.packets((traffic.LIBRDKAFKA, traffic.KAFKA_1_1)[index])


def once(random: Random) -> None:
    data = _capture(random)
    whole = _read(data, batch=1000)
    _equal(whole, _read(data, batch=1))
    shown, step = random.randint(0, len(data)), random.randint(1, 999)
    _equal(whole, _read(data, batch=random.randint(1, 50), shown=shown, step=step))
    _forget(random, data)


def _forget(random: Random, data: bytes) -> None:
    """Segments of a ring go while they are read."""
    source = MemorySource(data)
    reader = Reader(source, schema.definitions(None), follow=True, batch=random.randint(1, 10))
    lines = JsonLines(reader)
    for _ in range(random.randint(0, 8)):
        lines.lines(reader.poll())
        source.forget(random.randint(0, reader.position))
    lines.lines(reader.finish())


def _equal(whole: list[Any], divided: list[Any]) -> None:
    for one, other in zip_longest(whole, divided):
        assert one == other, f"{one}\n{other}"


def _capture(random: Random) -> bytes:
    """Packets of a real capture, damaged in what TCP does and then in the file's bytes."""
    taken = _packets(random.randrange(2))
    start = random.randrange(len(taken))
    chosen = [(time, bytearray(frame)) for time, frame in taken[start : start + random.randint(1, MOST_PACKETS)]]
    for _ in range(random.choice((0, 0, 1, 3, 10))):
        i = random.randrange(len(chosen))
        time, frame = chosen[i]
        action = random.randrange(7)
        if action == 0 and len(chosen) > 1:
            del chosen[i]
        elif action == 1:
            chosen.insert(random.randrange(len(chosen) + 1), (time, bytearray(frame)))
        elif action == 2:
            j = random.randrange(len(chosen))
            chosen[i], chosen[j] = chosen[j], chosen[i]
        elif action == 3:
            frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)
        elif action == 4:
            del frame[random.randrange(len(frame)) :]
        elif action == 5 and len(frame) >= 54:
            seq = int.from_bytes(frame[38:42], "big") + random.choice((-1, 1)) * random.choice((1, 7, 1 << 16, 1 << 30))
            frame[38:42] = (seq % 2**32).to_bytes(4, "big")
        elif action == 6 and len(frame) >= 54:
            frame[47] ^= random.choice((1, 2, 4))
        if not chosen[i % len(chosen)][1]:
            chosen[i % len(chosen)] = (time, bytearray(b"\0"))
    packets = [(time, bytes(frame)) for time, frame in chosen]
    kind = random.randrange(4)
    if kind == 0:
        data = files.pcap(packets, order=random.choice("<>"), nano=random.random() < 0.5)
    elif kind == 1:
        data = files.pcap(packets, snap=random.choice((40, 60, 96, 200)))
    elif kind == 2:
        data = traffic.pcapng(packets)
    else:
        data = _blocks(random, packets)
    return _broken(random, data)


def _blocks(random: Random, packets: list[files.Packet]) -> bytes:
    """A pcapng file of many kinds of blocks."""
    order = random.choice("<>")
    out = [files.section(order), files.interface(order=order)]
    interfaces = 1
    for time, frame in packets:
        roll = random.randrange(12)
        if roll == 0:
            order = random.choice("<>")
            out += [files.section(order), files.interface(resolution=random.choice((None, 6, 9, 0x8A)), order=order)]
            interfaces = 1
        elif roll == 1:
            out.append(
                files.interface(
                    random.choice((1, 0, 101, 113, 276, 147)), resolution=random.randrange(256), order=order
                )
            )
            interfaces += 1
        elif roll == 2:
            out.append(files.statistics(random.randrange(interfaces), random.randrange(100), order))
        elif roll == 3:
            out.append(files.block(random.choice((4, 10, 0xBAD)), frame[: random.randrange(20)], order))
        if roll == 4:
            out.append(files.simple(frame, order))
        elif roll == 5:
            out.append(files.obsolete(random.randrange(interfaces), time // 1000, frame, order))
        else:
            comments = ["note"] * random.choice((0, 0, 0, 1, 2))
            out.append(
                files.enhanced(random.randrange(interfaces), time // 1000, frame, comments=comments, order=order)
            )
    return b"".join(out)


def _broken(random: Random, data: bytes) -> bytes:
    if random.random() < 0.5:
        return data
    broken = bytearray(data)
    for _ in range(random.choice((1, 2, 8))):
        at = random.randrange(len(broken) + 1)
        action = random.randrange(4)
        if action == 0:
            broken[at : at + 1] = random.randbytes(1)
        elif action == 1:
            broken[at : at + 4] = struct.pack(
                "<I", random.choice((0, 1, 0xFFFFFFFF, 0x7FFFFFFF, random.getrandbits(16)))
            )
        elif action == 2:
            del broken[at : at + random.randint(1, 40)]
        else:
            broken[at:at] = random.randbytes(random.randint(1, 20))
    return bytes(broken[: random.randrange(len(broken) + 1)] if random.random() < 0.3 else broken)


def _read(data: bytes, *, batch: int, shown: int | None = None, step: int = 0) -> list[Any]:
    """What a reading gives, in a form that can be compared."""
    follow = shown is not None
    source = MemorySource(data, shown=shown, step=step)
    limits = Limits(outstanding=50)
    reader = Reader(source, schema.definitions(None), follow=follow, batch=batch, limits=limits, patience=LONGEST_TIME)
    items: list[Any] = []
    if follow:
        # A follower is told sooner of what has waited too long, by the clock of all connections.
        reader._ticked = 1 << 63
        while not reader.finished:
            items += reader.poll()
            if reader.idle and source.size == len(data) and not reader.finished:
                items += reader.poll()
                if reader.idle:
                    items += reader.finish()
    else:
        views = Views(source, reader.definitions)
        for some in reader.batches():
            items += some
            for item in some:
                if isinstance(item, Exchange):
                    views.add(item)
    health = reader.health
    assert min(health.packets, health.bytes, health.lost, health.gaps, health.cut) >= 0
    assert health.packets <= len(data)
    error = None if reader.error is None else str(reader.error)
    return [*(_comparable(item, len(data)) for item in items), health, error]


def _comparable(item: Exchange | StreamProblem, size: int) -> Any:
    if isinstance(item, StreamProblem):
        return (item.connection.number, item.side, item.offset, item.size, item.code, item.message)
    for frame in (item.request, item.response):
        assert frame is None or sum(length for _, length in frame.spans) <= size
    return (
        item.number,
        asdict(item.connection),
        item.api_key,
        item.correlation_id,
        item.status,
        item.request,
        item.response,
        item.problems,
    )
