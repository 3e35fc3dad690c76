"""Secrets in clear: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from tests.support.facts import Story
from tests.support.scripts import Script, eyes, play, request, response

LOGIN = b"\0alice\0wonderland"


def test_a_password_without_tls() -> None:
    (finding,) = Story().secret("c", peer="10.0.0.7").tells("NOTE sec.cleartext c@10.0.0.7")
    assert finding.summary == "c@10.0.0.7 and 10.0.0.1:9092 passed the password of SASL/PLAIN without TLS, 1 time"


def test_on_one_host_it_is_an_info() -> None:
    Story().secret("c", peer="10.0.0.1").tells("INFO sec.cleartext c@10.0.0.1", at_least="INFO")
    Story(broker="127.0.0.1:9092").secret("c", peer="127.0.0.1").is_quiet()
    Story(broker="[::1]:9092").secret("c", peer="[::1]").is_quiet()


def made(mechanism: str, *, decrypted: bool = False) -> list[str]:
    script = Script().client(request(17, 1, 1, "app", mechanism=mechanism))
    script.broker(response(17, 1, 1, mechanisms=[mechanism])).client(request(36, 2, 2, "app", authBytes=LOGIN))
    played = play(script.broker(response(36, 2, 2)).end())
    if decrypted:
        played.tape.__dict__["decrypted"] = True
    found = FactMaker(played.tape, eyes(), (facts.Secret,)).make(played.exchanges)
    return [one.what for one in found if isinstance(one, facts.Secret)]


@pytest.mark.parametrize(
    ("mechanism", "expected"), [("PLAIN", ["the password of SASL/PLAIN"]), ("SCRAM-SHA-256", []), ("GSSAPI", [])]
)
def test_secrets_of_a_login_are_facts(mechanism: str, expected: list[str]) -> None:
    assert made(mechanism) == expected
    assert made(mechanism, decrypted=True) == []


def test_other_requests_with_secrets() -> None:
    change = [{"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"s", "saltedPassword": b"p"}]
    script = Script().client(request(51, 0, 1, "app", deletions=[], upsertions=change)).broker(response(51, 0, 1))
    script.client(request(38, 2, 2, "app")).broker(response(38, 2, 2, hmac=b"secret"))
    played = play(script.end())
    maker = FactMaker(played.tape, eyes(), (facts.Secret,))
    found = [one.what for one in maker.make(played.exchanges) if isinstance(one, facts.Secret)]
    assert found == ["a salted SCRAM password", "the HMAC of a delegation token"]
