"""Kafka, and traffic that is not Kafka, are recognised by content, on any port."""

from __future__ import annotations

import pytest

from kproxy.decoders.conversation.recognition import Verdict, known, recognise, which_side_asks
from tests.support.golden import golden
from tests.support.scripts import (
    Cut,
    Script,
    bytewise,
    eyes,
    framed,
    packets,
    play,
    request,
    response,
    whole,
)

LIMIT = 128 << 20
CLIENT_HELLO = bytes.fromhex("160301020001000001fc0303") + bytes(500)
SERVER_HELLO = bytes.fromhex("16030300500200004c0303") + bytes(70)
ALERT = bytes.fromhex("15030300020228")
HTTP = b"GET / HTTP/1.1\r\nHost: kafka:9092\r\n\r\n"
POSTGRES = bytes.fromhex("0000002900030000") + b"user\x00shop\x00database\x00shop\x00\x00"
ZOOKEEPER = bytes.fromhex("0000002d00000000000000000000000000007530000000000000000000000010") + bytes(17)
CASSANDRA = bytes.fromhex("0400000001000000160001000b") + b"CQL_VERSION\x00\x053.0.0"
GSSAPI = framed(b"\x60\x2a" + b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02" + bytes(31))
SSH = b"SSH-2.0-OpenSSH_9.7\r\n"


def verdict(data: bytes) -> Verdict:
    return recognise(data, known(eyes()), LIMIT)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (CLIENT_HELLO, Verdict.TLS),
        (ALERT, Verdict.TLS),
        (HTTP, Verdict.HTTP),
        (b"HTTP/1.1 200 OK\r\n\r\n", Verdict.HTTP),
        (POSTGRES, Verdict.OTHER),
        (CASSANDRA, Verdict.OTHER),
        (SSH, Verdict.OTHER),
        (bytes(100), Verdict.OTHER),
        (b"\xff" * 100, Verdict.OTHER),
        (GSSAPI, Verdict.SASL),
        (request(18, 4, 1), Verdict.KAFKA),
        (request(18, 4, 1, None), Verdict.KAFKA),
        (request(18, 4, 1, ""), Verdict.WEAK),
        (request(18, 4, 1, "a\x1b[2J"), Verdict.WEAK),
        (request(32001, 0, 1, "a\n", raw=b"whatever"), Verdict.OTHER),
        (request(18, 99, 1, raw=b""), Verdict.KAFKA),
        (request(7, 0, 1, brokerId=3), Verdict.KAFKA),
        (request(32001, 0, 1, raw=b"whatever"), Verdict.KAFKA),
        (b"", Verdict.MORE),
    ],
)
def test_verdicts(data: bytes, expected: Verdict) -> None:
    assert verdict(data) is expected


@pytest.mark.parametrize(
    "data", [CLIENT_HELLO, HTTP, POSTGRES, ZOOKEEPER, CASSANDRA, GSSAPI, SSH, request(18, 4, 1), request(3, 1, 2, "")]
)
def test_more_bytes_do_not_change_the_verdict(data: bytes) -> None:
    said = [verdict(data[:length]) for length in range(len(data) + 1)]
    first = next(index for index, one in enumerate(said) if one is not Verdict.MORE)
    assert set(said[first:]) == {said[-1]}


@pytest.mark.parametrize("release", ["4.4.0", "3.9.2"])
def test_every_golden_request_is_kafka(release: str) -> None:
    for one in golden(release):
        if one.kind == "request":
            script = Script().client(one.frame).end()
            assert [exchange.api_key for exchange in play(script).exchanges] == [one.api_key], one


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
class TestConnections:
    def test_tls_is_one_exchange_that_says_so(self, cut: Cut) -> None:
        script = Script().client(CLIENT_HELLO).broker(SERVER_HELLO).client(bytes(300)).end()
        played = play(script, cut)
        assert played.lines() == ["1 ? tls (tls)"]
        assert played.conversation.ignored
        assert (played.health.tls, played.health.not_kafka) == (1, 0)

    @pytest.mark.parametrize("data", [HTTP, POSTGRES, ZOOKEEPER, CASSANDRA, SSH])
    def test_what_is_not_kafka_is_only_counted(self, cut: Cut, data: bytes) -> None:
        played = play(Script().client(data).broker(SSH).end(), cut)
        assert played.lines() == []
        assert played.conversation.ignored
        assert (played.health.tls, played.health.not_kafka) == (0, 1)

    def test_a_server_that_speaks_first_is_not_kafka(self, cut: Cut) -> None:
        played = play(Script().broker(SSH).client(SSH).end(), cut)
        assert played.lines() == []
        assert played.health.not_kafka == 1

    def test_an_empty_client_id_is_believed_when_the_frame_decodes(self, cut: Cut) -> None:
        script = Script().client(request(3, 1, 7, "", topics=[])).broker(response(3, 1, 7)).end()
        assert play(script, cut).lines() == ["1 Metadata v1 #7 ok"]

    def test_a_client_id_with_control_characters_is_believed_when_the_frame_decodes(self, cut: Cut) -> None:
        script = Script().client(request(3, 1, 7, "\x1b]52;c;eA==\x07", topics=[])).broker(response(3, 1, 7)).end()
        assert play(script, cut).lines() == ["1 Metadata v1 #7 ok"]

    def test_an_unknown_key_and_an_unknown_version(self, cut: Cut) -> None:
        script = Script().client(request(32001, 0, 1, raw=b"abc")).broker(response(32001, 0, 1, raw=b"def"))
        script.client(request(32002, 7, 2, raw=b"abc")).broker(response(32002, 7, 2, raw=b"def"))
        script.client(request(3, 99, 3, raw=b"abc")).broker(response(3, 99, 3, raw=b"def")).end()
        assert play(script, cut).lines() == ["1 32001 v0 #1 ok", "2 32002 v7 #2 ok", "3 Metadata v99 #3 ok"]

    def test_a_broker_that_answers_in_tls(self, cut: Cut) -> None:
        script = Script().client(request(18, 4, 1)).broker(ALERT).end()
        assert play(script, cut).lines() == ["! broker 0+5 tls", "1 ApiVersions v4 #1 no_response"]

    def test_a_broker_that_answers_in_http(self, cut: Cut) -> None:
        script = Script().client(request(18, 4, 1)).broker(b"HTTP/1.1 400 Bad Request\r\n\r\n").end()
        assert play(script, cut).lines() == ["! broker 0+5 not_kafka", "1 ApiVersions v4 #1 no_response"]

    def test_a_capture_that_ends_in_the_first_frame(self, cut: Cut) -> None:
        played = play(Script().client(request(3, 12, 1, "shop", topics=None)[:20]).end(reason="end of capture"), cut)
        assert played.lines() == ["1 Metadata v12 #1 cut (truncated)"]

    def test_nothing_at_all(self, cut: Cut) -> None:
        played = play(Script().end(), cut)
        assert played.lines() == []


class TestSides:
    def test_requests_against_responses(self) -> None:
        asked, answered = request(3, 12, 1), response(3, 12, 1)
        assert which_side_asks(asked, answered, eyes()) == 0
        assert which_side_asks(answered, asked, eyes()) == 1
        assert which_side_asks(asked, b"", eyes()) == 0
        assert which_side_asks(b"", asked, eyes()) == 1

    def test_tls_and_http(self) -> None:
        assert which_side_asks(SERVER_HELLO, CLIENT_HELLO, eyes()) == 1
        assert which_side_asks(HTTP, b"HTTP/1.1 200 OK\r\n\r\n", eyes()) == 0

    def test_a_response_that_begins_like_a_request_waits_for_the_other_side(self) -> None:
        topic = {"name": "t-gzip", "partitionResponses": [{"index": 0, "errorCode": 0, "baseOffset": 0}]}
        answered = response(0, 1, 1, responses=[topic])
        assert recognise(answered, known(eyes()), LIMIT) is Verdict.KAFKA
        assert which_side_asks(answered, b"", eyes()) is None
        assert which_side_asks(answered, b"", eyes(), final=True) is None
        asked = request(0, 1, 2, raw=bytes(600))[:256]
        assert which_side_asks(asked, b"", eyes()) is None
        assert which_side_asks(asked, b"", eyes(), final=True) == 0
        assert which_side_asks(answered, asked, eyes()) == 1

    def test_a_response_full_of_zeros_is_no_produce_of_nothing(self) -> None:
        topic = {"name": "t-none", "partitionResponses": [{"index": 0, "errorCode": 0, "baseOffset": 0}]}
        answered = response(0, 0, 0, responses=[topic])
        assert which_side_asks(answered, b"", eyes(), final=True) is None

    def test_a_request_that_begins_later(self) -> None:
        assert which_side_asks(b"rest of a frame" + request(3, 12, 1), b"rest" + response(3, 12, 1), eyes()) == 0

    def test_what_does_not_tell(self) -> None:
        assert which_side_asks(b"", b"", eyes()) is None
        assert which_side_asks(SSH, SSH, eyes()) is None

    def test_golden_traffic(self) -> None:
        pairs: dict[int, dict[str, bytes]] = {}
        for one in golden("4.4.0"):
            pairs.setdefault(one.correlation_id, {})[one.kind] = one.frame
        for pair in pairs.values():
            assert which_side_asks(pair["request"], pair["response"], eyes()) == 0
            assert which_side_asks(pair["response"], pair["request"], eyes()) == 1
