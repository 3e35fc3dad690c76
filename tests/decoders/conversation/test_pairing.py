"""Responses find their requests by correlation id, whatever the order."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.decoders.conversation.limits import Limits
from tests.support.scripts import BROKER, CLIENT, Cut, Script, bytewise, line, packets, play, request, response, whole

METADATA, PRODUCE, FETCH, HEARTBEAT, API_VERSIONS = 3, 0, 1, 12, 18

CUTS = [whole, packets, bytewise]


def produce(correlation_id: int, acks: int, version: int = 9) -> bytes:
    return request(PRODUCE, version, correlation_id, acks=acks, timeoutMs=100, topicData=[])


@pytest.mark.parametrize("cut", CUTS)
class TestPairing:
    def test_a_request_and_its_response(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7)).broker(response(METADATA, 12, 7)).end()
        played = play(script, cut)
        assert played.lines() == ["1 Metadata v12 #7 ok"]
        (exchange,) = played.exchanges
        assert exchange.client_id == "shop"
        assert exchange.latency_ns == 1_000_000
        assert exchange.connection.number == 1

    def test_answers_out_of_order(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7), request(FETCH, 12, 8))
        script.broker(response(FETCH, 12, 8), response(METADATA, 12, 7)).end()
        assert play(script, cut).lines() == ["2 Fetch v12 #8 ok", "1 Metadata v12 #7 ok"]

    def test_an_id_used_again_after_its_answer_and_wrapping(self, cut: Cut) -> None:
        script = Script()
        for correlation_id in (2**31 - 1, -(2**31), -1, 0, 2**31 - 1):
            script.client(request(HEARTBEAT, 4, correlation_id)).broker(response(HEARTBEAT, 4, correlation_id))
        assert play(script.end(), cut).lines() == [
            "1 Heartbeat v4 #2147483647 ok",
            "2 Heartbeat v4 #-2147483648 ok",
            "3 Heartbeat v4 #-1 ok",
            "4 Heartbeat v4 #0 ok",
            "5 Heartbeat v4 #2147483647 ok",
        ]

    def test_an_id_used_again_while_it_waits_pairs_the_oldest_first(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7), request(FETCH, 12, 7), request(HEARTBEAT, 4, 7))
        script.broker(response(METADATA, 12, 7)).broker(response(FETCH, 12, 7)).broker(response(HEARTBEAT, 4, 7)).end()
        assert play(script, cut).lines() == [
            "1 Metadata v12 #7 ok",
            "2 Fetch v12 #7 ok (repeated_correlation_id)",
            "3 Heartbeat v4 #7 ok (repeated_correlation_id)",
        ]

    def test_a_response_that_nobody_asked_for(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7)).broker(response(METADATA, 12, 9))
        script.broker(response(METADATA, 12, 7)).end()
        played = play(script, cut)
        assert sorted(played.lines()) == ["1 Metadata v12 #7 ok", "2 ? #9 orphan_response (unmatched_response)"]

    def test_a_response_captured_before_its_request(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7)).broker(response(METADATA, 12, 7))
        script.broker(response(METADATA, 12, 8)).client(request(METADATA, 12, 8)).end()
        assert play(script, cut).lines() == ["1 Metadata v12 #7 ok", "2 Metadata v12 #8 ok"]

    def test_no_response_until_the_end(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7), request(FETCH, 12, 8)).broker(response(FETCH, 12, 8)).end()
        played = play(script, cut)
        assert played.lines() == ["2 Fetch v12 #8 ok", "1 Metadata v12 #7 no_response"]
        assert played.exchanges[1].reason == "the connection ended (FIN)"

    def test_the_brokers_end_answers_nothing_more(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7)).end(BROKER)
        assert play(script, cut).lines() == ["1 Metadata v12 #7 no_response"]

    def test_an_exchange_keeps_the_end_that_completed_it(self, cut: Cut) -> None:
        """Whatever comes of the connection later, and whenever."""
        script = Script().client(request(METADATA, 12, 7), request(METADATA, 12, 8)).broker(response(METADATA, 12, 8))
        script.wait(1).end(BROKER).wait(5).end(CLIENT).wait(5).end()
        answered, waited = play(script, cut).exchanges
        assert answered.end is None
        assert waited.end == script.events[-3]

    def test_the_clients_end_leaves_the_broker_time(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7)).end(CLIENT).broker(response(METADATA, 12, 7)).end(BROKER)
        assert play(script, cut).lines() == ["1 Metadata v12 #7 ok"]

    def test_more_than_the_limit_waits(self, cut: Cut) -> None:
        script = Script().client(*(request(METADATA, 12, number) for number in range(4)))
        script.broker(*(response(METADATA, 12, number) for number in (3, 2))).end()
        played = play(script, cut, limits=Limits(outstanding=2))
        assert played.lines() == [
            "1 Metadata v12 #0 no_response (evicted)",
            "2 Metadata v12 #1 no_response (evicted)",
            "4 Metadata v12 #3 ok",
            "3 Metadata v12 #2 ok",
        ]
        assert played.exchanges[0].reason == "given up: too many requests waited on this connection"

    def test_longer_than_the_limit_waits(self, cut: Cut) -> None:
        script = Script().client(request(METADATA, 12, 7)).wait(1_000_000).client(request(METADATA, 12, 8)).end()
        played = play(script, cut)
        assert played.lines() == ["1 Metadata v12 #7 no_response", "2 Metadata v12 #8 no_response"]
        assert played.exchanges[0].reason == "given up: no response within 900 s"
        assert [one.end for one in played.exchanges] == [None, script.events[-1]]


@pytest.mark.parametrize("cut", CUTS)
class TestNoReply:
    def test_acks_0_is_over_when_a_later_request_is_answered(self, cut: Cut) -> None:
        script = Script().client(produce(1, 0)).client(produce(2, 0)).client(request(METADATA, 12, 3))
        script.client(produce(4, 0)).broker(response(METADATA, 12, 3)).end()
        played = play(script, cut)
        assert played.lines() == [
            "1 Produce v9 #1 no_reply_expected",
            "2 Produce v9 #2 no_reply_expected",
            "3 Metadata v12 #3 ok",
            "4 Produce v9 #4 no_reply_expected",
        ]
        assert played.exchanges[0].reason == "acks=0"

    @pytest.mark.parametrize("version", range(14))
    def test_every_version_says_how_many_acks(self, cut: Cut, version: int) -> None:
        for acks, status in ((0, "no_reply_expected"), (1, "no_response"), (-1, "no_response")):
            body: dict[str, Any] = {"acks": acks, "timeoutMs": 0, "topicData": []}
            if version >= 3:
                body["transactionalId"] = "pay-7"
            data = request(PRODUCE, version, 1, **body)
            (exchange,) = play(Script().client(data).end(), cut).exchanges
            assert exchange.status == status

    def test_acks_0_that_is_answered_all_the_same(self, cut: Cut) -> None:
        script = Script().client(produce(1, 0)).broker(response(PRODUCE, 9, 1)).end()
        assert play(script, cut).lines() == ["1 Produce v9 #1 ok"]

    def test_acks_0_does_not_wait_for_ever(self, cut: Cut) -> None:
        script = Script()
        for number in range(3):
            script.client(produce(number, 0)).wait(700)
        events = list(script.events)
        script.end()
        first = play(script, cut)
        assert [exchange.status for exchange in first.exchanges] == ["no_reply_expected"] * 3
        script.events = events
        assert play(script, cut).lines() == ["1 Produce v9 #0 no_reply_expected"]

    def test_tick_completes_what_an_idle_connection_holds(self, cut: Cut) -> None:
        script = Script().client(produce(1, 0))
        played = play(script, cut)
        assert played.lines() == []
        assert played.conversation.tick(script.time + 500_000_000, 10_000) == []
        ((at, item),) = played.conversation.tick(script.time + 1_500_000_000, 10_001)
        assert at == 10_001
        assert line(item) == "1 Produce v9 #1 no_reply_expected"

    def test_an_id_of_acks_0_used_again_is_no_problem(self, cut: Cut) -> None:
        script = Script().client(produce(1, 0)).client(request(METADATA, 12, 1)).broker(response(METADATA, 12, 1)).end()
        assert play(script, cut).lines() == ["1 Produce v9 #1 no_reply_expected", "2 Metadata v12 #1 ok"]
