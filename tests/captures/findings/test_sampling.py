"""Which batches are opened, and what is said of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import lz4.frame
import pytest

from kproxy.captures.findings import facts, sampling
from kproxy.captures.findings.facts import Content
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.findings.sample_facts import RECORDS, content, first_batch, schema_id
from kproxy.captures.findings.sampling import ALWAYS, EACH, OPEN
from tests.decoders.batches.support import batch, message, record
from tests.support.scripts import Script, eyes, play, request, response

ATTRIBUTES = {"none": 0, "lz4": 3}


def one(value: bytes = b"value", *, codec: str = "none", **more: Any) -> bytes:
    """A batch of one record."""
    records = record(0, b"key", value)
    return batch(lz4.frame.compress(records) if codec == "lz4" else records, 1, attributes=ATTRIBUTES[codec], **more)


class Traffic:
    """Produce and Fetch exchanges of one connection."""

    def __init__(self) -> None:
        self.script = Script()
        self._number = 0

    def _exchange(self, key: int, asked: dict[str, Any], answered: dict[str, Any], version: int) -> Traffic:
        self._number += 1
        self.script.client(request(key, version, self._number, "app", **asked))
        if answered:
            self.script.broker(response(key, version, self._number, **answered))
        return self

    def produce(self, *records: bytes, offset: int = -1, acks: int = 1, **answer: Any) -> Traffic:
        """A request with a batch for each partition from 0 on."""
        parts = [{"index": index, "records": each} for index, each in enumerate(records)]
        asked = {"acks": acks, "topicData": [{"name": "t", "partitionData": parts}]}
        said = [{"index": index, "baseOffset": offset, **answer} for index in range(len(records))]
        answered = {"responses": [{"name": "t", "partitionResponses": said}]} if acks else {}
        return self._exchange(0, asked, answered, 8)

    def fetch(self, records: bytes, version: int = 11) -> Traffic:
        answer = {"topic": "t", "partitions": [{"partitionIndex": 0, "records": records}]}
        return self._exchange(1, {}, {"responses": [answer]}, version)

    def wait(self, seconds: float) -> Traffic:
        self.script.wait(round(seconds * 1000))
        return self

    def made(self, *kinds: type[Any], shuffle: int | None = None) -> list[Any]:
        """All facts of these kinds; `shuffle` hands the exchanges over in another order, a few at a time."""
        played = play(self.script.end())
        exchanges = played.exchanges
        if shuffle is not None:
            places = {id(each): number for number, each in enumerate(exchanges)}
            dice = random.Random(shuffle)
            exchanges.sort(key=lambda each: places[id(each)] + dice.randrange(8))
        maker = FactMaker(played.tape, eyes(), kinds or sampling.MAKES)
        found: list[Any] = []
        for at in range(0, len(exchanges), 3):
            found += maker.make(exchanges[at : at + 3])
        found += maker.finish()
        return [each for each in found if isinstance(each, kinds or tuple(sampling.MAKES))]


def values(found: Iterable[Any]) -> list[Any]:
    return sorted((each.at.exchange, each.partition, type(each).__name__, repr(each[3:])) for each in found)


def test_a_batch_is_opened_of_each_slot() -> None:
    traffic = Traffic()
    for number in range(25):
        traffic.produce(one(b"%d" % number)).wait(1)
    found = traffic.made(facts.Volume, facts.Sample)
    volumes = [each for each in found if isinstance(each, facts.Volume)]
    samples = [each for each in found if isinstance(each, facts.Sample)]
    assert len(samples) == len(volumes)
    assert len(volumes) in {3, 4}
    assert sum(each.batches for each in volumes) == sum(each.records for each in volumes) == 25
    assert [(each.at, each.weight, each.volume) for each in samples] == [
        (each.at, each.records, each.size) for each in volumes
    ]


def busy() -> Traffic:
    traffic = Traffic()
    for number in range(60):
        traffic.produce(*(one(b"%d.%d" % (number, place)) for place in range(1 + number % 3))).wait(0.7)
    return traffic


def test_the_choice_does_not_depend_on_the_order_of_reading() -> None:
    expected = values(busy().made())
    assert len(expected) >= 2 * 3 * 4
    for seed in range(5):
        assert values(busy().made(shuffle=seed)) == expected


def test_the_choice_is_no_habit() -> None:
    """Another batch than the first or the last one of a slot is opened now and then."""
    traffic = Traffic()
    for number in range(30):
        for turn in range(10):
            traffic.produce(one(b"%d.%d" % (number, turn))).wait(0.02)
        traffic.wait(9.77)
    places = {each.at.exchange % 10 for each in traffic.made(facts.Sample)}
    assert len(places) >= 6


def test_a_slot_opens_a_bounded_number_of_batches() -> None:
    for times, expected in ((1, ALWAYS), (4, 4 * 3 * OPEN // EACH), (20, OPEN)):
        traffic = Traffic()
        for turn in range(times):
            traffic.produce(*(one(b"%d.%d" % (turn, number)) for number in range(3 * OPEN)))
        found = traffic.made()
        assert sum(isinstance(each, facts.Volume) for each in found) == 3 * OPEN
        assert sum(isinstance(each, facts.Sample) for each in found) == expected


def test_facts_come_once_their_slot_is_over() -> None:
    traffic = Traffic().produce(one()).wait(30).produce(one())
    played = play(traffic.script.end())
    maker = FactMaker(played.tape, eyes(), (facts.Sample,))
    early = [each for each in maker.make(played.exchanges) if isinstance(each, facts.Sample)]
    late = [each for each in maker.finish() if isinstance(each, facts.Sample)]
    assert [each.at.exchange for each in (*early, *late)] == [1, 2]
    assert len(early) == 1


def test_a_clock_that_goes_back_opens_no_more() -> None:
    """What belongs to slots that are over counts in the next one."""
    traffic = Traffic().wait(100_000).produce(one()).wait(30).produce(one())
    traffic.script.time -= 90_000_000_000_000
    for number in range(50):
        traffic.produce(one(b"%d" % number)).wait(11)
    found = traffic.made()
    assert sum(isinstance(each, facts.Sample) for each in found) == 3
    assert sum(each.batches for each in found if isinstance(each, facts.Volume)) == 52


@pytest.mark.parametrize("held", [0, sampling.HELD])
def test_large_batches_are_opened_at_once(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "HELD", held)
    assert values(busy().made()) == values(busy().made())
    (sample,) = Traffic().produce(one(codec="lz4")).made(facts.Sample)
    assert sample.content.keys == ((b"key", 1),)


def test_damaged_batches_are_counted_and_not_described() -> None:
    good = one()
    for damaged in (b"\0" * 80, good[:40], good[:-2], b"\xff" * 200):
        found = Traffic().produce(damaged).made()
        assert [type(each) for each in found] == [facts.Volume]
        assert found[0].size == len(damaged)
    (sample,) = Traffic().produce(good[:61] + bytes(len(good) - 61)).made(facts.Sample)
    assert sample.content.read == 0


def test_timestamps() -> None:
    (sample,) = Traffic().produce(one(max_time=5_000)).made(facts.Sample)
    assert sample.newest == 5_000
    (sample,) = Traffic().produce(one(max_time=-1)).made(facts.Sample)
    assert sample.newest is None, "the producer gave none"
    (sample,) = Traffic().produce(one(max_time=5_000), logAppendTimeMs=7_000).made(facts.Sample)
    assert sample.newest is None, "the broker replaces it"


# --- content ---


def described(data: bytes) -> Content:
    found = first_batch(data)
    assert found is not None
    return content(data, found)


def test_what_records_hold() -> None:
    header: Sequence[tuple[bytes, bytes | None]] = ((b"trace", b"12345"), (b"x", None))
    records = [
        record(0, b"a", b"12"),
        record(1, b"a", None, header),
        record(2, None, b"123456789"),
        record(3, b"", b""),
    ]
    found = described(batch(b"".join(records), 4))
    assert found.ratio is not None
    assert found._replace(ratio=None) == Content(None, 4, 1 + 2 + 1 + 11 + 9, 12, 2, 11, ((b"a", 2),), (), 2)


def test_only_the_first_records_are_read() -> None:
    found = described(batch(b"".join(record(number, None, b"v") for number in range(500)), 500))
    assert found.read == RECORDS


def test_how_much_a_codec_shrinks() -> None:
    plain = record(0, None, b"text " * 1000)
    found = described(batch(plain, 1))
    assert found.ratio is not None
    assert found.ratio > 20
    packed = described(batch(lz4.frame.compress(plain), 1, attributes=3))
    assert packed.ratio is not None
    assert packed.ratio > 10
    noise = described(batch(record(0, None, random.Random(1).randbytes(5000)), 1))
    assert noise.ratio is not None
    assert noise.ratio < 1.01


def test_messages_of_old_formats() -> None:
    data = b"".join(message(1, number, b"k", b"%d" % number) for number in range(3))
    found = described(data)
    assert (found.read, found.ratio, found.keys) == (3, None, ((b"k", 3),))


def test_ids_of_schemas() -> None:
    framed = b"\0\0\0\0\x07payload"
    assert schema_id(framed) == 7
    for value in (
        b"",
        b"\0\0\0\0\x07",
        b"\1" + framed[1:],
        b"\0" * 12,
        b"\0\xff\0\0\x07payload",
        b"\0\0\0\0\x07\0\0\0",
    ):
        assert schema_id(value) is None
    records = [
        record(0, None, framed),
        record(1, None, b"{}"),
        record(2, None, None),
        record(3, None, b"raw", ((b"__value_schema_id", b"\1"),)),
    ]
    found = described(batch(b"".join(records), 4))
    assert (found.framed, found.raw) == (((7, 1),), 1)


# --- batches that brokers compress anew ---


def stored(codec: str, offset: int = 67, **more: Any) -> bytes:
    return one(codec=codec, offset=offset, **more)


def test_a_batch_that_comes_in_another_codec() -> None:
    traffic = Traffic().produce(one(), offset=67).fetch(stored("none", 60) + stored("lz4"))
    (found,) = traffic.made(facts.Recoded)
    assert (found.offset, found.sent_codec, found.codec, found.produced.exchange, found.at.exchange) == (
        67, "none", "lz4", 1, 2,
    )  # fmt: skip


def test_a_consumer_that_is_answered_before_the_producer() -> None:
    """From the second slot on, the partition is known to have samples."""
    traffic = Traffic().produce(one(), offset=60).wait(10).fetch(stored("lz4")).produce(one(), offset=67)
    (found,) = traffic.made(facts.Recoded)
    assert (found.produced.exchange, found.at.exchange) == (3, 2)


def test_a_batch_that_is_converted_for_an_old_consumer() -> None:
    traffic = Traffic().produce(one(), offset=67).fetch(message(1, 67, b"key", b"value"), 3)
    (found,) = traffic.made(facts.Recoded)
    assert (found.sent_magic, found.magic) == (2, 1)


def test_batches_that_stay_as_they_are_give_no_fact() -> None:
    assert not Traffic().produce(one(), offset=67).fetch(stored("none")).made(facts.Recoded)
    assert not Traffic().produce(one(), offset=67).fetch(stored("lz4", 68)).made(facts.Recoded)


def test_a_batch_of_another_producer_at_the_same_offset_gives_no_fact() -> None:
    for other in ({"producer": 7}, {"max_time": 9_999}):
        assert not Traffic().produce(one(), offset=67).fetch(stored("lz4", **other)).made(facts.Recoded)


def test_log_append_time_is_no_other_batch() -> None:
    later = batch(lz4.frame.compress(record(0, b"key", b"value")), 1, offset=67, attributes=3 | 8, max_time=9_999)
    assert Traffic().produce(one(), offset=67).fetch(later).made(facts.Recoded)


def test_other_checksums_alone_give_no_fact() -> None:
    """Brokers write timestamps, and so a new CRC, where the topic has LogAppendTime."""
    stamped = batch(record(0, b"key", b"value"), 1, offset=67, attributes=8, max_time=9_999)
    assert not Traffic().produce(one(), offset=67).fetch(stamped).made(facts.Recoded)


def test_messages_of_old_producers_give_no_fact() -> None:
    """The broker converts what they send to its own format."""
    old = message(1, 0, b"key", b"value")
    assert not Traffic().produce(old, offset=67).fetch(stored("lz4")).made(facts.Recoded)


def test_a_batch_whose_offset_is_unknown_gives_no_fact() -> None:
    assert not Traffic().produce(one(), acks=0).fetch(stored("lz4")).made(facts.Recoded)
    assert not Traffic().produce(one(), offset=67, errorCode=6).fetch(stored("lz4")).made(facts.Recoded)


# --- transactions ---


def test_records_of_transactions() -> None:
    within = batch(record(0, None, b"v"), 1, attributes=16, producer=7)
    found, other = Traffic().produce(within, within).produce(one()).made(facts.Produced)
    assert (found.producer_id, found.records, found.tiny) == (7, 2, 0)
    assert (other.producer_id, other.records, other.tiny) == (None, 0, 1)
