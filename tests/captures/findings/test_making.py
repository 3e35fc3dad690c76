"""Facts of real captures and of scripted exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kproxy.captures.bodies import Bodies
from kproxy.captures.findings import facts, fetch_facts, making
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.schema import Definitions, store
from kproxy.decoders.stream import Source
from tests.decoders.batches.support import batch, record
from tests.support.scripts import Script, eyes, play, request, response

CAPTURES = Path(__file__).parents[2] / "data" / "captures"


def made(capture: str, *wanted: type[facts.Fact]) -> Iterator[facts.Fact]:
    reader = read(CAPTURES / capture)
    maker = FactMaker(reader.source, reader.definitions, wanted or facts.KINDS)
    for items in reader.batches():
        yield from maker.make(items, reader.closings)


def test_every_connection_ends_once() -> None:
    ends = [one for one in made("kafka-1.1.1.pcap", facts.Closed) if isinstance(one, facts.Closed)]
    assert len({one.at.connection for one in ends}) == len(ends) == 30
    assert {one.how for one in ends} == {"FIN", "RST", "end of capture"}
    assert all(one.began <= one.at.time for one in ends)
    assert all(one.client_bytes for one in ends if one.opened)


def test_facts_come_in_the_order_of_time() -> None:
    """But for connections that are open when the capture ends: of these the last packet's time is known."""
    found = made("kafka-4.4.0-librdkafka.pcap")
    times = [one.at.time for one in found if not isinstance(one, facts.Closed) or one.by_peers]
    assert times == sorted(times)


def test_members_of_a_classic_group() -> None:
    joins = [
        one for one in made("kafka-1.1.1.pcap", facts.Member) if isinstance(one, facts.Member) and one.what == "join"
    ]
    assert [one.generation for one in joins] == [1, 2, 2]
    assert {one.group for one in joins} == {"grp"}
    assert {(one.session_ms, one.rebalance_ms) for one in joins} == {(6000, 300000)}
    assert [one.fresh for one in joins].count(True) == 2
    assert len({one.subscription for one in joins}) == 1, "both members subscribe to the same topics"


def test_sentinels_are_none() -> None:
    lost = [one for one in made("kafka-1.1.1.pcap") if isinstance(one, facts.PartitionIO) and one.error]
    assert lost
    assert {one.high_watermark for one in lost} == {None}
    offsets = [one.offset for one in made("kafka-1.1.1.pcap") if isinstance(one, facts.Committed)]
    assert None in offsets
    assert -1 not in offsets


def test_heartbeats_that_repeat_each_other_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And give the same facts as if each was decoded."""
    capture = "../findings/group.slow_rejoin.pcap.xz"
    decoded: list[int | None] = []

    def bodies(exchange: Exchange, source: Source, definitions: Definitions) -> Bodies:
        decoded.append(exchange.api_key)
        return Bodies(exchange, source, definitions)

    monkeypatch.setattr(making, "Bodies", bodies)
    quick, few = list(made(capture)), decoded.count(12)
    monkeypatch.setattr(making, "REPEATED", frozenset())
    decoded.clear()
    assert list(made(capture)) == quick
    assert few < decoded.count(12) / 2


def test_only_what_is_wanted_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: set[int | None] = set()

    def watched(exchange: Exchange, source: Source, definitions: Definitions) -> Bodies:
        decoded.add(exchange.api_key)
        return Bodies(exchange, source, definitions)

    monkeypatch.setattr(making, "Bodies", watched)
    assert list(made("kafka-1.1.1.pcap", facts.Member))
    assert {8, 11, 12, 14} <= decoded
    assert not decoded & {0, 1, 2, 9}


def test_a_leave_of_two_members_is_two_facts() -> None:
    members = [{"memberId": "a", "reason": "tired"}, {"memberId": "b", "groupInstanceId": "i"}]
    answers = [{"memberId": "a", "errorCode": 0}, {"memberId": "b", "errorCode": 25}]
    script = Script().client(request(13, 5, 1, "app", groupId="g", members=members))
    played = play(script.broker(response(13, 5, 1, members=answers)).end())
    maker = FactMaker(played.tape, eyes(), (facts.Member,))
    left = [one for one in maker.make(played.exchanges) if isinstance(one, facts.Member)]
    assert [(one.member, one.reason, one.instance, one.error) for one in left] == [
        ("a", "tired", None, 0),
        ("b", None, "i", 25),
    ]


def test_ends_of_epochs() -> None:
    """As somebody asks for them, and as a Fetch says that its position is beyond."""
    asked = {"topic": "t", "partitions": [{"partition": 3, "currentLeaderEpoch": 6, "leaderEpoch": 5}]}
    ends = {"topic": "t", "partitions": [{"partition": 3, "leaderEpoch": 5, "endOffset": 100, "errorCode": 0}]}
    fetched = {"topic": "t", "partitions": [{"partition": 3, "fetchOffset": 120}]}
    diverged = {"partitionIndex": 3, "divergingEpoch": {"epoch": 4, "endOffset": 90}}
    script = Script().client(request(23, 4, 1, "app", replicaId=-1, topics=[asked]))
    script.broker(response(23, 4, 1, topics=[ends])).client(request(1, 12, 2, "app", topics=[fetched]))
    same = {"partitionIndex": 4}
    played = play(script.broker(response(1, 12, 2, responses=[{"topic": "t", "partitions": [diverged, same]}])).end())
    maker = FactMaker(played.tape, eyes(), (facts.EpochEnd,))
    found = [one for one in maker.make(played.exchanges) if isinstance(one, facts.EpochEnd)]
    assert [(one.partition, one.epoch, one.end_offset, one.position, one.replica) for one in found] == [
        (3, 5, 100, None, None),
        (3, 4, 90, 120, None),
    ]


def appended(found: Iterable[facts.Fact]) -> list[facts.Append]:
    return [batch for one in found if isinstance(one, facts.Produced) for batch in one.batches]


def test_batches_of_producers() -> None:
    """A transactional producer, and one without an id: what makes their batches known again."""
    found = appended(made("kafka-4.4.0-librdkafka.pcap", facts.Produced))
    assert found
    assert {one.acks for one in found} == {-1}
    assert all(one.answered and one.offset is not None and one.size > 60 for one in found)
    within = [one for one in found if one.transactional]
    assert {one.topic for one in within} == {"shop-payments"}
    assert {one.producer_id is not None and one.base_sequence is not None for one in within} == {True}
    assert len({(one.crc, one.topic, one.partition) for one in found}) == len(found), "nothing is sent twice"


def test_a_produce_without_answer() -> None:
    topic = {"name": "t", "partitionData": [{"index": 0, "records": batch(record(0, None, b"v"), 1)}]}
    script = Script()
    for acks in (1, 0):
        script.client(request(0, 8, acks + 1, "app", acks=acks, topicData=[topic]))
    played = play(script.end())
    found = appended(FactMaker(played.tape, eyes(), (facts.Produced,)).make(played.exchanges))
    assert sorted((one.acks, one.answered) for one in found) == [(0, True), (1, False)]


def test_topic_ids() -> None:
    views = [one for one in made("kafka-4.4.0-librdkafka.pcap") if isinstance(one, facts.TopicView) and not one.error]
    assert views
    assert all(one.topic_id is not None and len(one.topic_id) == 22 for one in views)
    older = [one for one in made("kafka-1.1.1.pcap") if isinstance(one, facts.TopicView)]
    assert {one.topic_id for one in older} == {None}


TABLES = (*making.READERS, fetch_facts.readers())
MADE = {
    key: frozenset[type[facts.Fact]]().union(*(table[key].makes for table in TABLES if key in table))
    for key in {key for table in TABLES for key in table}
}
"""For each API the kinds of facts that its bodies give."""


@pytest.mark.parametrize("key", sorted(MADE))
def test_empty_bodies_of_every_version_give_facts_or_none(key: int) -> None:
    """Bodies with all fields at their defaults, in every version that we know."""
    known = {
        (one.kind, version): one.message
        for kept in store.definitions().values()
        for one in kept
        if one.api_key == key and one.kind in {"request", "response"}
        for version in range(one.versions.low, one.versions.high + 1)
    }
    versions = sorted({version for kind, version in known if kind == "request"})
    script = Script()
    for number, version in enumerate(versions):
        script.client(request(key, version, number, "app"))
        script.broker(response(key, version, number))
    played = play(script.end())
    assert len(played.exchanges) == len(versions)
    maker = FactMaker(played.tape, eyes(), facts.KINDS)
    kinds = {type(one) for one in maker.make(played.exchanges)}
    assert kinds <= MADE[key] | {
        facts.Exchange, facts.Beginning, facts.Trouble, facts.Replaced
    }  # fmt: skip


def test_a_connection_begins_and_then_begins_to_work() -> None:
    script = Script()
    for number, key in enumerate((18, 3, 8, 8), 1):
        script.client(request(key, 2, number, "app")).broker(response(key, 2, number))
    played = play(script.end())
    found = list(FactMaker(played.tape, eyes(), (facts.Beginning,)).make(played.exchanges))
    begun = [(one.at.key, one.work) for one in found if isinstance(one, facts.Beginning)]
    assert begun == [(18, False), (8, True)]
