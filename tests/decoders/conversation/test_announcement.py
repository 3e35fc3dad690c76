"""A capture of only the broker's side is recognised by an ApiVersions response, and by nothing less."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from kproxy.decoders.conversation.limits import Limits
from tests.support.golden import golden
from tests.support.scripts import BROKER, CLIENT, Cut, Script, bytewise, framed, packets, play, response, whole

LISTED = [{"apiKey": key, "minVersion": 0, "maxVersion": 4} for key in [*range(12), 18]]
ZOOKEEPER = b"".join(framed(pack(">iqi", xid, 1 << 33 | xid, 0) + bytes(xid)) for xid in range(1, 40))


def api_versions(version: int, **body: Any) -> bytes:
    return response(18, version, 1, **{"apiKeys": LISTED, **body})


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
@pytest.mark.parametrize("opened", [True, False])
class TestOnlyAnswers:
    @pytest.mark.parametrize("version", [0, 2, 3, 4])
    def test_responses_without_requests(self, cut: Cut, opened: bool, version: int) -> None:
        script = Script().packets(BROKER, api_versions(version), 30)
        script.broker(response(3, 12, 2), response(1, 12, 3)).broker(response(12, 4, 4)).end()
        played = play(script, cut, opened=opened)
        assert sorted(played.lines()) == [
            "! client 0+0 one_sided",
            *(f"{number} ? #{number} orphan_response (unmatched_response)" for number in (1, 2, 3, 4)),
        ]
        assert (played.health.not_kafka, played.health.resyncs) == (0, 0)

    def test_bytes_that_were_lost(self, cut: Cut, opened: bool) -> None:
        script = Script().broker(api_versions(3), response(3, 12, 2)).lost(BROKER, bytes(9)).broker(bytes(50)).end()
        played = play(script, cut, opened=opened)
        assert len(played.exchanges) == 2
        assert played.health.gaps == 1

    def test_requests_that_acknowledgements_show_to_be_lost(self, cut: Cut, opened: bool) -> None:
        script = Script().lost(CLIENT, bytes(30)).broker(api_versions(3)).lost(CLIENT, bytes(50))
        played = play(script.broker(response(3, 12, 2)).end(), cut, opened=opened)
        assert [exchange.correlation_id for exchange in played.exchanges] == [1, 2]
        assert (played.health.gaps, played.health.lost) == (2, 80)

    @pytest.mark.parametrize(
        "data",
        [
            ZOOKEEPER,
            b"".join(response(3, 12, number) for number in range(5)),
            api_versions(0, errorCode=35),
            api_versions(0, apiKeys=LISTED[:4]),
            api_versions(0, apiKeys=LISTED * 2),
            api_versions(0, apiKeys=LISTED[:12]),
            api_versions(3)[:-3],
            b"SSH-2.0-OpenSSH_9.7\r\n" * 20,
            bytes(500),
        ],
    )
    def test_anything_else_is_not_told(self, cut: Cut, opened: bool, data: bytes) -> None:
        played = play(Script().broker(data).end(), cut, opened=opened)
        assert played.lines() == []
        assert played.health.not_kafka == 1


def test_no_other_response_of_kafka_passes() -> None:
    for one in golden("4.4.0"):
        if one.kind == "response" and one.api_key != 18:
            assert play(Script().broker(one.frame).end(), opened=False).exchanges == [], one


def test_held_bytes_without_an_end_are_told_at_the_limit() -> None:
    script = Script().broker(api_versions(3)).packets(BROKER, response(3, 12, 2) * 20, 100)
    played = play(script, packets, opened=False, limits=Limits(unrecognised=500))
    assert len(played.exchanges) == 21


def test_what_is_asked_decides_where_it_is_there() -> None:
    played = play(Script().broker(api_versions(3)).client(b"GET / HTTP/1.1\r\n\r\n").end())
    assert played.exchanges == []
