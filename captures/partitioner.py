"""Infers a producer's partitioner from its keys and their partitions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import Final

KEYS: Final = 64
"""Maximum number of distinct keys that are tested for a producer and topic."""
SURE: Final = 0.01
"""Maximum probability that a partitioner fits the keys by chance; a less certain partitioner is not reported."""
_WORD: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Kafka's hash `Utils.murmur2`, made positive: the default of the Java client, kafka-python and aiokafka."""
    multiplier = 0x5BD1E995
    value = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * multiplier & _WORD
        word = (word ^ word >> 24) * multiplier & _WORD
        value = (value * multiplier & _WORD) ^ word
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * multiplier & _WORD
    value = (value ^ value >> 13) * multiplier & _WORD
    return (value ^ value >> 15) & 0x7FFFFFFF


def crc32(key: bytes) -> int:
    """CRC-32: librdkafka's partitioner `consistent`, its default for keys."""
    return zlib.crc32(key)


def fnv1a(key: bytes) -> int:
    """The absolute value of the signed 32-bit FNV-1a: Sarama's default, librdkafka's `fnv1a`."""
    value = reduce(lambda value, byte: (value ^ byte) * 0x01000193 & _WORD, key, 0x811C9DC5)
    return value if value < 1 << 31 else (1 << 32) - value


def hash_code(key: bytes) -> int:
    """Java's `Arrays.hashCode`, made positive: the default of Kafka 0.8's Scala producer for bytes."""
    return reduce(lambda value, byte: (value * 31 + (byte ^ 0x80) - 0x80) & _WORD, key, 1) & 0x7FFFFFFF


PARTITIONERS: Final[Mapping[str, Callable[[bytes], int]]] = MappingProxyType(
    {"murmur2": murmur2, "CRC32": crc32, "FNV-1a": fnv1a, "Arrays.hashCode": hash_code}
)


@dataclass(slots=True)
class Keys:
    """The keys that one producer sent to one topic: their hashes, and the partition of each."""

    hashes: dict[tuple[int, ...], int] = field(default_factory=dict)
    moved: bool = False
    """Whether a key went to two partitions: the partitioner uses more than keys, or the topic got more partitions."""

    @property
    def full(self) -> bool:
        return len(self.hashes) >= KEYS or self.moved

    def add(self, key: bytes, partition: int) -> None:
        if self.full:
            return
        hashed = tuple(function(key) for function in PARTITIONERS.values())
        if self.hashes.setdefault(hashed, partition) != partition:
            self.moved = True

    def fits(self, partitions: int) -> str | None:
        """The name of the only partitioner that fits all keys, if the topic has this number of partitions.

        None if no partitioner fits, if several fit, or if chance could explain the fit.
        """
        fitting = self.fitting(partitions)
        return fitting[0] if len(fitting) == 1 else None

    def fitting(self, partitions: int) -> list[str]:
        """All partitioners that fit; none if chance could explain it."""
        if self.moved or partitions < 2 or partitions ** -len(self.hashes) > SURE:
            return []
        return [
            name
            for place, name in enumerate(PARTITIONERS)
            if all(hashed[place] % partitions == partition for hashed, partition in self.hashes.items())
        ]
