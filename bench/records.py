"""Measures how many records are decoded per CPU second, by codec, compared with the readers of kafka-python and
aiokafka.

All readers decode the same bytes in the same run: batches of magic 2 written by aiokafka, each with RECORDS records of
a key, a text value and a header. Each reader does what its consumer does by default: it checks the CRC of each batch,
decompresses it, and returns offset, timestamp, key, value and headers of each record, which the bench then accesses.
The bench iterates over the records once and keeps none. A second measurement leaves out the CRC check. Garbage
collection is off while a reader runs. The readers alternate for ROUNDS rounds; the result is the round with the least
CPU time, and the median shows how steady the machine was.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Any
from unittest.mock import patch

from aiokafka.record import default_records as aiokafka_records
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords

from kproxy.decoders.batches import current, loop
from kproxy.decoders.batches.batch import COMPRESSION, Trouble, parse
from kproxy.decoders.batches.compiled import COMPILED
from kproxy.decoders.batches.opening import iterate_batch

with warnings.catch_warnings():
    # kafka-python warns when it is imported, because it reads its definitions in a deprecated way.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords as KafkaPythonRecords

ROUNDS = 9
RECORDS = 200
BATCHES = 100
SIZES = (100, 1000)
GOAL = 2

Read = Callable[[bytes], int]


def batches(codec: int, size: int) -> bytes:
    """BATCHES batches with values of `size` bytes of JSON, which compress to about a third."""
    chance = random.Random(size)
    out = bytearray()
    for _ in range(BATCHES):
        builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
        for index in range(RECORDS):
            key = b"customer-%06d" % chance.randrange(10**6)
            value = b""
            while len(value) < size:
                item = {"item": chance.randrange(10**9), "state": chance.choice(("paid", "open", "sent")), "price": 9.5}
                value += json.dumps(item).encode()
            trace = [("trace-id", b"%016x" % chance.getrandbits(64))]
            builder.append(index, 1_700_000_000_000 + index // 3, key, value[:size], trace)
        out += builder.build()
    return bytes(out)


def ours(data: bytes, *, check: bool) -> int:
    count = 0
    for batch in parse(data, check=check).batches:
        assert not check or batch.header["crcValid"]
        troubles: list[Trouble] = []
        for _offset, _timestamp, _key, _value, headers in iterate_batch(data, batch, troubles):
            count += 1
            for _name, _content in headers:
                pass
        assert not troubles
    return count


def plain(data: bytes, *, check: bool) -> int:
    """Read records with kproxy's plain Python loop in place of the compiled one; returns their number."""
    with patch.object(current, "CommonRecords", loop.CommonRecords):
        return ours(data, check=check)


def theirs(records: type[Any]) -> Callable[..., int]:
    def read(data: bytes, *, check: bool) -> int:
        count = 0
        memory = records(data)
        while memory.has_next():
            batch = memory.next_batch()
            assert not check or batch.validate_crc()
            for record in batch:
                record.offset, record.timestamp, record.key, record.value  # noqa: B018 (what is measured)
                count += 1
                for _name, _content in record.headers:
                    pass
        return count

    return read


READERS: dict[str, Callable[..., int]] = {
    "kproxy": ours,
    "kproxy, plain Python": plain,
    "aiokafka": theirs(AiokafkaRecords),
    "kafka-python": theirs(KafkaPythonRecords),
}
PEERS = ("aiokafka", "kafka-python")


def rates(data: bytes, *, check: bool) -> dict[str, list[float]]:
    """Records per CPU second: by reader, one figure for each round."""
    found: dict[str, list[float]] = {name: [] for name in READERS}
    for _ in range(ROUNDS):
        for name, read in READERS.items():
            gc.collect()
            gc.disable()
            start = time.process_time()
            count = read(data, check=check)
            found[name].append(count / (time.process_time() - start))
            gc.enable()
            assert count == RECORDS * BATCHES, name
    return found


def report(title: str, found: dict[str, list[float]]) -> None:
    best = {name: max(values) for name, values in found.items()}
    middle = {name: statistics.median(values) for name, values in found.items()}
    peer = max(PEERS, key=lambda name: best[name])
    figures = "  ".join(f"{name} {best[name] / 1e6:5.2f} ({middle[name] / 1e6:5.2f})" for name in READERS)
    print(f"{title}  {figures}  ratio {best['kproxy'] / best[peer]:4.2f} ({middle['kproxy'] / middle[peer]:4.2f})")


def main() -> None:
    extension: ModuleType | str = getattr(aiokafka_records.DefaultRecordBatch, "__module__", "")
    assert "_crecords" in str(extension), "aiokafka runs without its C extension: no peer"
    peers = ", ".join(f"{name} {version(name)}" for name in PEERS)
    print(f"{peers} ({extension}); our loop is {'compiled' if COMPILED else 'plain Python'}")
    print(f"million records a second, best (median) of {ROUNDS}; one core; load {os.getloadavg()[0]:.1f}; goal {GOAL}x")
    for size in SIZES:
        for check in (True, False):
            print(f"values of {size} bytes, CRC {'checked' if check else 'not looked at'}")
            for codec, name in enumerate(COMPRESSION):
                report(f"  {name:6}", rates(batches(codec, size), check=check))


if __name__ == "__main__":
    main()
