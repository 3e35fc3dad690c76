"""The authentication that exports show for a connection with SASL."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.sasl.session import Session, State
from kproxy.decoders.view import View
from tests.decoders.sasl.test_tokens import OAUTH_RFC, REFUSED_RFC, SCRAM_RFC
from tests.support.scripts import Cut, Script, bytewise, eyes, framed, packets, play, request, response, whole

MECHANISMS = ["PLAIN", "SCRAM-SHA-256"]
SECRETS = [b"fyko+d2lbbFgONRv9qkxdawL", b"v0X8v3Bz2T0CJGbJQyF0X", b"QSXCR", b"rmF9pqV8", b"secret", b"vF9dft4qm"]


def handshake(script: Script, number: int, mechanism: str, version: int = 1, error: int = 0) -> Script:
    asked = request(17, version, number, mechanism=mechanism)
    return script.client(asked).broker(response(17, version, number, errorCode=error, mechanisms=MECHANISMS))


def token(script: Script, number: int, asked: bytes, answered: bytes, **more: Any) -> Script:
    script.client(request(36, 2, number, authBytes=asked))
    return script.broker(response(36, 2, number, authBytes=answered, **more))


def lines(script: Script, cut: Cut = whole, *, show_secrets: bool = False) -> list[dict[str, Any]]:
    played = play(script.end(), cut)
    view = View(show_secrets=show_secrets)
    found = [exchange_json(item, played.tape, eyes(), view=view) for item in played.exchanges]
    if not show_secrets:
        assert not any(secret.decode() in str(found) for secret in SECRETS)
    return found


def states(found: list[dict[str, Any]]) -> list[str | None]:
    return [line["sasl"]["state"] if "sasl" in line else None for line in found]


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
def test_scram(cut: Cut) -> None:
    script = handshake(Script(), 1, "SCRAM-SHA-256")
    token(script, 2, SCRAM_RFC[0], SCRAM_RFC[1])
    token(script, 3, SCRAM_RFC[2], SCRAM_RFC[3], sessionLifetimeMs=60_000)
    script.client(request(3, 12, 4)).broker(response(3, 12, 4))
    found = lines(script, cut)
    assert states(found) == ["authenticating", "authenticating", "authenticated", None]
    last = found[2]["sasl"]
    assert last["since"] == found[2]["response"]["timestamp"]
    assert last.pop("ends") > last.pop("since")
    assert last == {
        "state": "authenticated",
        "mechanism": "SCRAM-SHA-256",
        "offered": MECHANISMS,
        "principal": "user",
        "authentications": 1,
        "lifetime_ms": 60_000,
    }
    decoded = found[1]["request"]["body"]["authBytes"]
    assert (decoded["redacted"], decoded["decoded"]["step"], decoded["decoded"]["username"]) == (
        True,
        "client-first",
        "user",
    )


def test_secrets_are_shown_to_who_asks() -> None:
    script = handshake(Script(), 1, "PLAIN")
    token(script, 2, b"\0alice\0secret", b"")
    shown = lines(script, show_secrets=True)[1]["request"]["body"]["authBytes"]
    assert shown["decoded"]["password"] == "secret"


def test_a_session_is_renewed() -> None:
    script = Script()
    for number in (1, 3):
        handshake(script, number, "PLAIN")
        token(script, number + 1, b"\0alice\0secret", b"", sessionLifetimeMs=1000)
    found = lines(script)
    assert [line["sasl"]["authentications"] for line in found] == [0, 1, 1, 2]
    assert states(found) == ["authenticating", "authenticated"] * 2


def test_a_wrong_password() -> None:
    script = handshake(Script(), 1, "PLAIN")
    token(script, 2, b"\0alice\0secret", b"", errorCode=58, errorMessage="Authentication failed: who?")
    last = lines(script)[-1]["sasl"]
    assert (last["state"], last["error"], last["message"]) == (
        "failed",
        "SASL_AUTHENTICATION_FAILED",
        "Authentication failed: who?",
    )
    assert last["principal"] == "alice"


def test_a_mechanism_that_is_not_offered() -> None:
    last = lines(handshake(Script(), 1, "GSSAPI", error=33))[-1]["sasl"]
    assert (last["state"], last["error"]) == ("refused", "UNSUPPORTED_SASL_MECHANISM")


def test_a_token_that_is_refused() -> None:
    script = handshake(Script(), 1, "OAUTHBEARER")
    token(script, 2, OAUTH_RFC, REFUSED_RFC)
    token(script, 3, b"\1", b"", errorCode=58, errorMessage="no")
    found = lines(script)
    assert states(found) == ["authenticating", "failed", "failed"]
    assert [found[at]["sasl"]["error"] for at in (1, 2)] == ["invalid_token", "SASL_AUTHENTICATION_FAILED"]


@pytest.mark.parametrize("cut", [whole, bytewise])
def test_bare_tokens(cut: Cut) -> None:
    script = handshake(Script(), 1, "SCRAM-SHA-256", version=0)
    for at in (0, 2):
        script.client(framed(SCRAM_RFC[at])).broker(framed(SCRAM_RFC[at + 1]))
    script.client(request(3, 12, 2)).broker(response(3, 12, 2))
    found = lines(script, cut)
    assert states(found) == ["authenticating", "authenticating", "authenticated", None]
    assert found[1]["request"]["body"]["token"]["decoded"]["username"] == "user"
    assert "lifetime_ms" not in found[2]["sasl"]


def test_a_mechanism_that_nobody_reads() -> None:
    script = handshake(Script(), 1, "GSSAPI")
    for number in (2, 3, 4):
        token(script, number, b"\x60\x05what", b"\5\4more")
    found = lines(script)
    assert found[1]["request"]["body"]["authBytes"]["decoded"] == {"mechanism": "GSSAPI", "step": "token"}
    assert found[-1]["sasl"]["authentications"] == 1


def test_a_capture_that_begins_within() -> None:
    script = token(Script(), 7, SCRAM_RFC[2], SCRAM_RFC[3])
    last = lines(script)[-1]["sasl"]
    assert (last["state"], last["mechanism"]) == ("authenticated", "SCRAM")


def test_a_session_survives_its_json() -> None:
    session = Session(State.AUTHENTICATED, "PLAIN", ("PLAIN",), "alice", 2, 5, 1000)
    assert Session.from_json(session.to_json()) == session
    assert Session.from_json(Session().to_json()) == Session()
    assert session.in_words() == "alice by PLAIN, authenticated 2 times, for 1 s"
