"""The messages of SASL mechanisms: examples of the RFCs, messages of a SCRAM library, and any bytes."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient, ScramMechanism

from kproxy.decoders.sasl.tokens import LONGEST, OAUTHBEARER, PLAIN, SCRAM, Token, masked, read
from tests.support import sasl

# RFC 5802, 5; RFC 7628, 4.1
SCRAM_RFC = [
    b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
]
OAUTH_RFC = (
    b"n,a=user@example.com,\1host=server.example.com\1port=143\1"
    b"auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\1\1"
)
REFUSED_RFC = b'{"status":"invalid_token","scope":"example_scope","openid-configuration":"https://example.com/x"}'


def shown(token: Token) -> dict[str, Any]:
    return {part.name: part.value for part in token.parts if not part.secret}


def hidden(token: Token) -> dict[str, Any]:
    return {part.name: part.value for part in token.parts if part.secret}


def known(data: bytes) -> Token:
    token = read(data)
    assert token is not None
    return token


def test_plain() -> None:
    token = known(b"\0tim\0tanstaaftanstaaf")
    assert (token.mechanism, token.step, token.principal) == (PLAIN, "client-first", "tim")
    assert shown(token) == {"username": "tim"}
    assert hidden(token) == {"password": b"tanstaaftanstaaf"}
    assert known(b"Ursel\0Kurt\0xipj3plmq").principal == "Ursel"


def test_scram_step_by_step() -> None:
    tokens = [known(data) for data in SCRAM_RFC]
    assert {token.mechanism for token in tokens} == {SCRAM}
    assert [token.step for token in tokens] == ["client-first", "server-first", "client-final", "server-final"]
    assert [shown(token) for token in tokens] == [
        {"username": "user"},
        {"iterations": 4096},
        {"channelBinding": "biws"},
        {},
    ]
    assert [sorted(hidden(token)) for token in tokens] == [
        ["nonce"],
        ["nonce", "salt"],
        ["nonce", "proof"],
        ["serverSignature"],
    ]


def test_a_name_is_unescaped_and_a_delegation_token_is_said() -> None:
    token = known(b"n,a=x=2Cy,n=a=3Db,r=abc,tokenauth=true")
    assert shown(token) == {"authzid": "x,y", "username": "a=b", "tokenauth": "true"}
    assert token.principal == "x,y"


def test_an_unknown_attribute_is_a_secret() -> None:
    assert hidden(known(b"n,,n=user,r=abc,x=whatever"))["attributes.x"] == b"whatever"


def test_scram_says_why_it_refuses() -> None:
    assert known(b"e=invalid-proof").refused == "invalid-proof"
    assert known(SCRAM_RFC[3]).refused is None


def test_oauthbearer() -> None:
    token = known(OAUTH_RFC)
    assert (token.mechanism, token.principal, token.claims) == (OAUTHBEARER, "user@example.com", None)
    assert shown(token) == {
        "authzid": "user@example.com",
        "extensions.host": "server.example.com",
        "extensions.port": "143",
    }
    assert hidden(token) == {"token": b"vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="}


def test_the_claims_of_a_jwt_are_shown() -> None:
    token = known(f"n,,\1auth=Bearer {sasl.token('bob')}\1\1".encode())
    assert token.claims is not None
    assert token.principal == "bob"
    assert set(token.claims) == {"sub", "iat", "exp", "scope"}


def test_a_broker_that_refuses_a_token() -> None:
    token = known(REFUSED_RFC)
    assert (token.step, token.refused) == ("error", "invalid_token")
    assert shown(token)["scope"] == "example_scope"
    assert known(b"\1").step == "client-final"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0\0password",
        b"a\0b\0c\0d",
        b"n,,",
        b"n,,n=user",
        b"n=user,r=abc",
        b"r=abc,s=abc",
        b"n,,r=abc,s=abc,i=1",
        b"c=biws,r=abc",
        b"{}",
        b'{"status": 1}',
        b"[" * 100_000,
        b'{"status":' * 50_000,
        b"\xff\xfe",
        b"\0alice\0" + bytes([0xFF]),
        b"\0alice\0" + b"x" * LONGEST,
    ],
)
def test_what_has_no_form_is_not_read(data: bytes) -> None:
    assert read(data) is None
    assert masked(data) == b"*" * len(data)


def jwt(claims: bytes) -> bytes:
    return b"n,,\1auth=Bearer x." + urlsafe_b64encode(claims).rstrip(b"=") + b".y\1\1"


claims = st.dictionaries(
    st.sampled_from(("sub", "exp", "scope", "other")),
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5),
)
pieces = st.sampled_from(
    (b"n,,", b"n,a=", b"n=", b"r=", b",", b"s=", b"i=", b"9" * 5000, b"p=", b"\0", b"\1", b"auth=")
)
likely = (
    st.lists(pieces | st.binary(max_size=4), max_size=20).map(b"".join)
    | claims.map(lambda found: jwt(json.dumps(found).encode()))
    | st.binary(max_size=30).map(jwt)
    | claims.map(lambda found: json.dumps({"status": "no", **found}).encode())
)


@given(st.binary(max_size=200) | likely)
def test_any_bytes(data: bytes) -> None:
    token = read(data)
    out = masked(data)
    assert len(out) == len(data)
    json.dumps(None if token is None else [token.claims, token.principal, shown(token)], allow_nan=False)
    for part in token.parts if token is not None else ():
        assert 0 <= part.start <= part.end <= len(data)
        if part.secret:
            assert bytes(data[part.start : part.end]) == part.value
            assert set(out[part.start : part.end]) <= {ord("*")}


names = st.text(st.characters(exclude_characters="\0\1", exclude_categories=("C", "Z")), min_size=1, max_size=20)
secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=30)


@given(names, secrets)
def test_a_password_of_plain_is_found_whole(name: str, password: str) -> None:
    data = f"\0{name}\0{password}".encode()
    assert shown(known(data)) == {"username": name}
    assert masked(data) == f"\0{name}\0".encode() + b"*" * len(password)


@given(st.sampled_from(sasl.SCRAM), st.text("abcxyz=,é ", min_size=1, max_size=20), secrets)
def test_what_the_library_says_is_read_as_it_meant(mechanism: str, name: str, password: str) -> None:
    judge = ScramMechanism(mechanism)
    info = judge.make_auth_info("another")
    client, server = ScramClient([mechanism], name, password), judge.make_server(lambda _: info)
    first = client.get_client_first()
    server.set_client_first(first)
    answer = server.get_server_first()
    client.set_server_first(answer)
    final = client.get_client_final()
    tokens = [known(text.encode()) for text in (first, answer, final)]
    assert [token.step for token in tokens] == ["client-first", "server-first", "client-final"]
    assert tokens[0].principal == str(client.username)
    assert tokens[1].get("iterations") == 4096
    nonce = tokens[1].get("nonce")
    assert nonce == tokens[2].get("nonce")
    for text in (first, answer, final):
        assert not any(value in masked(text.encode()) for value in hidden(known(text.encode())).values())
    assert known(masked(first.encode())).principal == tokens[0].principal
