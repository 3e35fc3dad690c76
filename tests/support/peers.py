"""Readers and writers of records by other projects, to compare kproxy's with."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AioLegacyBuilder
from aiokafka.record.memory_records import MemoryRecords as AioMemoryRecords

with warnings.catch_warnings():
    # importing kafka-python raises deprecation warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

__all__ = [
    "READERS",
    "AioBatchBuilder",
    "AioLegacyBuilder",
    "DefaultRecordBatchBuilder",
    "LegacyRecordBatchBuilder",
    "read_aiokafka",
    "read_kafka_python",
]

Plain = tuple[int, int | None, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""(offset, timestamp, key, value, headers)."""


def _plain(record: Any) -> Plain:
    def own(data: Any) -> bytes | None:
        return None if data is None else bytes(data)

    headers = [(key, own(value)) for key, value in record.headers]
    timestamp = None if record.timestamp in {None, -1} else record.timestamp
    return record.offset, timestamp, own(record.key), own(record.value), headers


def _read(memory: Any) -> Iterator[Plain]:
    while (batch := memory.next_batch()) is not None:
        for record in batch:
            yield _plain(record)


def read_kafka_python(data: bytes) -> list[Plain]:
    return list(_read(MemoryRecords(data)))


def read_aiokafka(data: bytes) -> list[Plain]:
    return list(_read(AioMemoryRecords(data)))


READERS = {"kafka-python": read_kafka_python, "aiokafka": read_aiokafka}
