"""Facts of real captures and of scripted exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.captures.bodies import Bodies
from kproxy.captures.findings import facts, making
from kproxy.captures.findings.body_facts import READERS
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.schema import Definitions, store
from kproxy.decoders.stream import Source
from tests.support.scripts import Script, eyes, play, request, response

CAPTURES = Path(__file__).parents[2] / "data" / "captures"


def made(capture: str, *wanted: type[facts.Fact]) -> Iterator[facts.Fact]:
    reader = read(CAPTURES / capture)
    maker = FactMaker(reader.source, reader.definitions, wanted or facts.KINDS)
    for batch in reader.batches():
        yield from maker.make(batch, reader.closings)


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


@pytest.mark.parametrize("key", sorted(READERS))
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
    assert kinds <= READERS[key].makes | {facts.Exchange, facts.Answer, facts.Trouble}
