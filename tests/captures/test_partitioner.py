"""Partitioners give the partitions that clients choose for keys."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from confluent_kafka import Message, Producer
from hypothesis import given
from hypothesis import strategies as some

from kproxy.captures.partitioner import KEYS, PARTITIONERS, Keys, fnv1a, hash_code, murmur2

PARTITIONS = 4  # of each topic in librdkafka's mock cluster
WORDS = [f"key-{number}".encode() for number in range(40)] + [b"", b"\xff\x80\x00", b"a" * 301]


@given(some.binary(max_size=40))
def test_murmur2_is_aiokafkas(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("key", "value"), [(b"", 1), (b"abc", 126145), (b"\xff", 30), (b"\x80" * 9, 1117106559 & 0x7FFFFFFF)]
)
def test_hash_code_is_javas(key: bytes, value: int) -> None:
    expected = 1
    for byte in key:
        expected = (31 * expected + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    assert hash_code(key) == expected & 0x7FFFFFFF
    if len(key) < 4:
        assert hash_code(key) == value


@pytest.mark.parametrize(("configured", "name"), [("murmur2", "murmur2"), ("consistent", "CRC32"), ("fnv1a", "FNV-1a")])
def test_librdkafka_sends_keys_where_we_think(configured: str, name: str) -> None:
    went: dict[bytes, int] = {}

    def delivered(_error: object, message: Message) -> None:
        went[message.key() or b""] = message.partition() or 0

    producer = Producer({"test.mock.num.brokers": 1, "partitioner": configured})
    for key in WORDS:
        producer.produce("t", b"", key, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert len(went) == len(WORDS)
    partitions = len(producer.list_topics("t").topics["t"].partitions)
    keys = Keys()
    for key, partition in went.items():
        if key:  # some partitioners put an empty key into any partition
            assert PARTITIONERS[name](key) % partitions == partition
            keys.add(key, partition)
    assert keys.fits(partitions) == name


def test_what_could_be_chance_is_not_told() -> None:
    keys = Keys()
    for key in WORDS[:6]:
        keys.add(key, murmur2(key) % 2)
    assert keys.fits(2) is None
    keys.add(WORDS[6], murmur2(WORDS[6]) % 2)
    assert keys.fits(2) == "murmur2"
    assert keys.fits(1) is None


def test_a_key_that_goes_elsewhere_fits_nothing() -> None:
    keys = Keys()
    for key in WORDS[:KEYS]:
        keys.add(key, murmur2(key) % PARTITIONS)
    assert keys.fits(PARTITIONS) == "murmur2"
    keys.add(WORDS[0], (murmur2(WORDS[0]) + 1) % PARTITIONS)
    assert keys.fits(PARTITIONS) is None


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968), (b"chongo was here!\n", 0xD49930D5)],
)
def test_fnv1a_is_that_of_its_authors(key: bytes, expected: int) -> None:
    """The values of draft-eastlake-fnv; Sarama takes them for signed numbers and drops the sign."""
    signed = expected - (1 << 32) if expected >= 1 << 31 else expected
    assert fnv1a(key) == abs(signed)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, expected: int) -> None:
    """The values of Kafka's own UtilsTest."""
    assert murmur2(key) == expected & 0x7FFFFFFF


def test_only_so_many_keys_are_tried() -> None:
    keys = Keys()
    for number in range(KEYS + 5):
        keys.add(b"%d" % number, number % PARTITIONS)
    assert len(keys.hashes) == KEYS == 64
    assert keys.full


def test_a_topic_of_one_partition_tells_nothing() -> None:
    keys = Keys()
    for word in WORDS:
        keys.add(word, 0)
    assert keys.fits(1) is None
    assert keys.fits(0) is None
