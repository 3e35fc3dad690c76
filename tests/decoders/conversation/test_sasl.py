"""Bare SASL tokens after SaslHandshake v0, and before any request."""

from __future__ import annotations

import pytest

from tests.decoders.conversation.test_recognition import GSSAPI
from tests.support.scripts import Cut, Script, bytewise, framed, packets, play, request, response, whole

PLAIN = framed(b"\x00alice\x00secret")
SCRAM = [
    framed(b"n,,n=alice,r=abc"),
    framed(b"r=abcdef,s=c2FsdA==,i=4096"),
    framed(b"c=biws,r=abcdef,p=cHJvb2Y="),
    framed(b"v=dg=="),
]


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
class TestTokens:
    def test_plain(self, cut: Cut) -> None:
        script = Script().client(request(17, 0, 1, mechanism="PLAIN")).broker(response(17, 0, 1))
        script.client(PLAIN).broker(framed(b"")).client(request(3, 12, 2)).broker(response(3, 12, 2)).end()
        played = play(script, cut)
        assert played.lines() == ["1 SaslHandshake v0 #1 ok", "2 token ok", "3 Metadata v12 #2 ok"]
        token = played.exchanges[1]
        assert token.token
        assert (token.api_key, token.api_version, token.correlation_id) == (None, None, None)

    def test_scram(self, cut: Cut) -> None:
        script = Script().client(request(17, 0, 1, mechanism="SCRAM-SHA-256")).broker(response(17, 0, 1))
        script.client(SCRAM[0]).broker(SCRAM[1]).client(SCRAM[2]).broker(SCRAM[3])
        script.client(request(3, 12, 2)).broker(response(3, 12, 2)).end()
        assert play(script, cut).lines() == [
            "1 SaslHandshake v0 #1 ok",
            "2 token ok",
            "3 token ok",
            "4 Metadata v12 #2 ok",
        ]

    def test_a_last_token_without_answer(self, cut: Cut) -> None:
        script = Script().client(request(17, 0, 1, mechanism="GSSAPI")).broker(response(17, 0, 1))
        script.client(GSSAPI).broker(GSSAPI).client(framed(b"\x05\x04last"))
        script.client(request(3, 12, 2)).broker(response(3, 12, 2)).end()
        played = play(script, cut)
        assert played.lines() == [
            "1 SaslHandshake v0 #1 ok",
            "2 token ok",
            "3 token no_reply_expected",
            "4 Metadata v12 #2 ok",
        ]

    def test_tokens_before_any_request(self, cut: Cut) -> None:
        script = Script().client(GSSAPI).broker(GSSAPI).client(request(3, 0, 2)).broker(response(3, 0, 2)).end()
        assert play(script, cut).lines() == ["1 token ok", "2 Metadata v0 #2 ok"]

    def test_since_v1_there_are_none(self, cut: Cut) -> None:
        script = Script().client(request(17, 1, 1, mechanism="PLAIN")).broker(response(17, 1, 1))
        script.client(request(36, 0, 2, authBytes=b"\x00alice\x00secret")).broker(response(36, 0, 2)).end()
        assert play(script, cut).lines() == ["1 SaslHandshake v1 #1 ok", "2 SaslAuthenticate v0 #2 ok"]

    def test_a_token_that_ends_the_capture(self, cut: Cut) -> None:
        script = Script().client(request(17, 0, 1, mechanism="PLAIN")).broker(response(17, 0, 1))
        script.client(PLAIN[:-3]).end(reason="end of capture")
        lines = play(script, cut).lines()
        assert lines[0] == "1 SaslHandshake v0 #1 ok"
        assert len(lines) == 2
