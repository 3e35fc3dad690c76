"""Authentication on a client's behalf, without sockets.

The broker here follows the protocol; the server side of a SCRAM library checks SCRAM's messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramMechanism
from scramp.core import ScramException

from kproxy.core.gate import FIRST_ID
from kproxy.core.login import MECHANISMS, SCRAM, Credentials, LoginError, login
from kproxy.decoders.message import decode_request
from kproxy.decoders.schema import definitions
from tests.support.playbook import (
    ANSWERED,
    ANYTHING,
    BEGAN,
    CLIENT_ENDED,
    OPENED,
    PASSES,
    GatePlaybook,
    Outcome,
    asks,
    broker_refused,
    client_refused,
    to_broker,
)
from tests.support.sasl import PASSWORD, USER, token
from tests.support.scripts import request, response

TOKEN = token()
FRAMES = [request(3, 12, 5), request(1, 12, 6), request(0, 9, -7), request(18, 3, 0x6B707201)]


class Broker:
    """Answers requests in order and accepts USER with PASSWORD, or TOKEN."""

    def __init__(self, mechanism: str, *, lifetime_ms: int = 0, most: int = 2, holds: int = 0) -> None:
        """The broker delays up to `holds` responses to clients until the next request comes, as with long polls."""
        self.mechanism = mechanism
        self.lifetime_ms = lifetime_ms
        self.most = most
        self.received = b""
        self.seen: list[tuple[int, int, str | None]] = []
        """(API key, correlation id, client id) of all requests."""
        self.logins = 0
        self._server: Any = None
        self._holds = holds
        self._held: list[bytes] = []

    @property
    def clients(self) -> list[tuple[int, int]]:
        """(API key, correlation id) of the client's requests."""
        return [(key, number) for key, number, client in self.seen if client != "kproxy"]

    def take(self, data: bytes | memoryview) -> bytes:
        self.received += data
        out = b""
        while len(self.received) >= 4 and len(self.received) >= (size := 4 + int.from_bytes(self.received[:4], "big")):
            frame, self.received = self.received[:size], self.received[size:]
            out += self._answer(frame)
        return out

    def _answer(self, frame: bytes) -> bytes:
        decoded = decode_request(frame, definitions())
        assert decoded.body is not None
        assert not decoded.problems
        header = decoded.header
        key, number = header["requestApiKey"], header["correlationId"]
        self.seen.append((key, number, header["clientId"]))
        if header["clientId"] != "kproxy":
            self._held.append(response(key, header["requestApiVersion"], number))
            if len(self._held) <= self._holds:
                return b""
            return self._let_go()
        return self._let_go() + self._own(key, header["requestApiVersion"], number, decoded.body)

    def _let_go(self) -> bytes:
        out, self._held = b"".join(self._held), []
        return out

    def _own(self, key: int, version: int, number: int, body: dict[str, Any]) -> bytes:
        if key == 18:
            apis = [{"apiKey": api, "minVersion": 0, "maxVersion": most} for api, most in ((17, 1), (36, self.most))]
            return response(18, 0, number, apiKeys=apis)
        if key == 17:
            error = 0 if body["mechanism"] == self.mechanism else 33
            self._server = None
            return response(17, 1, number, errorCode=error, mechanisms=[self.mechanism])
        try:
            said, last = self._say(bytes(body["authBytes"]))
        except (ScramException, ValueError) as error:
            return response(36, version, number, errorCode=58, errorMessage=f"who? {error}", authBytes=b"")
        self.logins += last
        lifetime: dict[str, Any] = {"sessionLifetimeMs": self.lifetime_ms} if version and last else {}
        return response(36, version, number, authBytes=said, **lifetime)

    def _say(self, auth: bytes) -> tuple[bytes, bool]:
        if self.mechanism == "PLAIN":
            if auth != f"\0{USER}\0{PASSWORD}".encode():
                raise ValueError("PLAIN")
            return b"", True
        if self.mechanism == "OAUTHBEARER":
            if auth == b"\1":
                raise ValueError("OAUTHBEARER")
            good = auth == f"n,,\1auth=Bearer {TOKEN}\1\1".encode()
            return (b"", True) if good else (b'{"status":"invalid_token"}', False)
        if self._server is None:
            judge = ScramMechanism(self.mechanism)
            info = judge.make_auth_info(PASSWORD)
            self._server = judge.make_server(lambda name: info if name == USER else None)
            self._server.set_client_first(auth.decode())
            return self._server.get_server_first().encode(), False
        self._server.set_client_final(auth.decode())
        return self._server.get_server_final().encode(), True


GOOD = Credentials(USER, PASSWORD, TOKEN)
BAD = Credentials(USER, "another", "another")
PIECES = pytest.mark.parametrize("piece", [1, 3, 0])


def gate(mechanism: str = "PLAIN", *, piece: int = 0) -> GatePlaybook:
    return GatePlaybook(lambda version: login(mechanism, GOOD, version), cut=piece)


def gate_before(broker: Broker, who: Credentials = GOOD, *, piece: int = 0) -> GatePlaybook:
    """A gate whose requests and clients' requests the broker answers."""
    return GatePlaybook(lambda version: login(broker.mechanism, who, version), broker.take, cut=piece)


def answers(frames: list[bytes]) -> bytes:
    return b"".join(
        response(key, version, number)
        for frame in frames
        for key, version, number in [
            (
                int.from_bytes(frame[4:6], "big"),
                int.from_bytes(frame[6:8], "big"),
                int.from_bytes(frame[8:12], "big", signed=True),
            )
        ]
    )


def authenticated(mechanism: str) -> list[Outcome]:
    """All outcomes of an authentication that succeeds."""
    messages = 2 if mechanism in SCRAM else 1
    own = [outcome for key in (18, 17, *[36] * messages) for outcome in (asks(key), ANSWERED)]
    return [BEGAN, *own, OPENED]


@PIECES
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_gate_authenticates_and_the_client_sees_nothing(mechanism: str, piece: int, most: int) -> None:
    broker = Broker(mechanism, most=most)
    story = gate_before(broker, piece=piece).begin(*authenticated(mechanism))
    assert not story.gate.busy
    story.client(b"".join(FRAMES), ANYTHING)
    assert (story.to_broker, story.to_client) == (b"".join(FRAMES), answers(FRAMES))
    assert broker.logins == 1
    assert [number for _, number in broker.clients] == [5, 6, -7, 0x6B707201]


@PIECES
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_credentials(mechanism: str, piece: int) -> None:
    broker = Broker(mechanism)
    story = gate_before(broker, BAD, piece=piece).begin(ANYTHING)
    assert story.refused.startswith("refuses")
    assert "another" not in story.refused
    story.client(FRAMES[0])
    assert broker.clients == []


def test_a_mechanism_that_the_broker_does_not_offer() -> None:
    story = gate("SCRAM-SHA-256")
    story.answer = Broker("PLAIN").take
    refused = broker_refused("does not offer SCRAM-SHA-256 (it offers: PLAIN)")
    story.begin(BEGAN, asks(18), ANSWERED, asks(17), ANSWERED, refused)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_secrets_are_masked_for_the_recording(mechanism: str) -> None:
    own = gate_before(Broker(mechanism)).begin(ANYTHING).own
    assert all(len(one.data) == len(one.recorded) for one in own)
    recorded = b"".join(one.recorded for one in own)
    for secret in (PASSWORD.encode(), TOKEN.encode()):
        assert secret not in recorded
    changed = [one for one in own if one.data != one.recorded]
    assert len(changed) == (4 if mechanism in SCRAM else 1)
    for one in changed:
        assert b"*" in one.recorded
    if mechanism != "OAUTHBEARER":
        assert USER.encode() in recorded


@PIECES
@pytest.mark.parametrize("holds", [0, 2])
def test_a_session_is_renewed_between_two_requests(piece: int, holds: int) -> None:
    broker = Broker("SCRAM-SHA-512", lifetime_ms=1000, holds=holds)
    story = gate_before(broker, piece=piece).begin(*authenticated("SCRAM-SHA-512"))
    for now, frames, logins in (
        (0, FRAMES[:1], 1),
        (0.84, FRAMES[1:2], 1),
        (0.86, FRAMES[2:], 2),
        (2.0, FRAMES[:1], 3),
    ):
        story.now = now
        story.client(b"".join(frames), ANYTHING)
        assert broker.logins == logins
    keys = [key for key, _, client in broker.seen if client == "kproxy"]
    assert keys == [18, *[17, 36, 36] * 3]
    for at, (_, number, client) in enumerate(broker.seen):
        assert client != "kproxy" or number not in {other for _, other, whose in broker.seen[:at] if whose != client}
    assert broker.seen[-1][2] != "kproxy"
    assert answers([*FRAMES, FRAMES[0]]).startswith(story.to_client)
    assert len(broker.clients) == 5


@PIECES
def test_no_renewal_within_a_request(piece: int) -> None:
    broker = Broker("PLAIN", lifetime_ms=1000)
    story = gate_before(broker, piece=piece).begin(*authenticated("PLAIN"))
    long = request(0, 9, 1, transactionalId="x" * 3000)
    story.client(long[:100], PASSES)
    story.now = 5.0
    story.client(long[100:2000], PASSES).client(long[2000:] + FRAMES[0], ANYTHING)
    assert broker.logins == 2
    assert [number for _, number in broker.clients] == [1, 5]
    assert story.to_client == response(0, 9, 1) + answers(FRAMES[:1])


def versions(number: int) -> bytes:
    apis = [{"apiKey": key, "minVersion": 0, "maxVersion": 1} for key in (17, 36)]
    return response(18, 0, number, apiKeys=apis)


def granted(number: int) -> bytes:
    return response(17, 1, number)


def test_a_client_that_ends_during_authentication_is_heard_last() -> None:
    story = gate().begin(BEGAN, asks(18)).client(FRAMES[0]).client_ended()
    story.broker(versions(FIRST_ID + 1), ANSWERED, asks(17)).broker(granted(FIRST_ID + 1), ANSWERED, asks(36))
    welcome = response(36, 1, FIRST_ID + 1)
    story.broker(welcome, ANSWERED, OPENED, to_broker(FRAMES[0]), CLIENT_ENDED)


@pytest.mark.parametrize("before", [b"", FRAMES[0]])
def test_a_client_that_authenticates_itself_learns_that_it_need_not(before: bytes) -> None:
    broker = Broker("PLAIN")
    refused = client_refused(ANY, response(17, 1, 9, errorCode=34, mechanisms=[]))
    passed = [to_broker(before)] if before else []
    story = gate_before(broker).begin(*authenticated("PLAIN"))
    own = request(17, 1, 9, mechanism="PLAIN") + request(36, 2, 10, authBytes=b"\0bob\0secret")
    story.client(before + own, *passed, refused).broker(b"whatever")
    assert len(broker.clients) == bool(before)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x28", "speaks TLS"),
        (b"HTTP/1.1 400 Bad Request", "speaks HTTP"),
        (b"\xff\xff\xff\xff\0\0\0\0", "do not begin a frame"),
        (b"\x7f\xff\xff\xff\x6b\x70\x72\x01", "sends too long a response (2147483647 bytes)"),
        (b"\0\0\0\5\x6b\x70\x72\x01\0", "cannot be decoded"),
    ],
)
def test_bytes_that_are_no_answer(said: bytes, why: str) -> None:
    story = gate().begin(BEGAN, asks(18)).broker(said, *([ANSWERED] if "decoded" in why else []), broker_refused(ANY))
    assert why in story.refused


@pytest.mark.parametrize("busy", [True, False])
@pytest.mark.parametrize("hello", [b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", b"GET / HTTP/1.1"])
@pytest.mark.parametrize("piece", [1, 100])
def test_a_client_of_another_protocol_gets_no_session(busy: bool, hello: bytes, piece: int) -> None:
    story = gate(piece=piece)
    if busy:
        story.begin(BEGAN, asks(18))
    story.client(hello, ANYTHING)
    assert [one for one in story.outcomes if one[0] == "client refused"] == [client_refused(ANY)]
    assert (story.gate.over, story.gate.busy) == (True, False)
    assert len(story.to_broker) < 4


def refusal(*bodies: Callable[[int], bytes]) -> str:
    """Why the gate refuses a broker that gives these responses."""
    story = gate("SCRAM-SHA-256").begin(BEGAN, asks(18))
    for body in bodies:
        story.broker(body(FIRST_ID + 1), ANYTHING)
    assert story.outcomes[-1] == broker_refused(ANY)
    return story.refused


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"r=other,s=c2FsdA==,i=4096",
        b"r=other,s=c2FsdA==,i=999999999",
        b"r=,s=,i=1",
        b"e=no",
        b"\xff\xff",
        b"\0\0\0",
        b"v=abc",
    ],
)
def test_a_broker_that_does_not_know_scram(said: bytes) -> None:
    assert "SCRAM-SHA-256" in refusal(versions, granted, lambda number: response(36, 1, number, authBytes=said))


class Impostor(Broker):
    """Accepts everyone, without knowing the password."""

    def _say(self, auth: bytes) -> tuple[bytes, bool]:
        said, last = super()._say(auth)
        return (b"v=" + b"A" * 43 + b"=", True) if last else (said, last)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_broker_that_does_not_know_the_password(mechanism: str) -> None:
    broker = Impostor(mechanism)
    story = gate_before(broker).begin(ANYTHING)
    assert "signature" in story.refused
    story.client(FRAMES[0])
    assert broker.clients == []


def test_brokers_of_before_kafka_1() -> None:
    old = [{"apiKey": 17, "minVersion": 0, "maxVersion": 0}]
    assert "Kafka 1.0 and newer" in refusal(lambda number: response(18, 0, number, apiKeys=old))


def test_a_listener_that_authenticates_nobody() -> None:
    why = refusal(versions, lambda number: response(17, 1, number, errorCode=34))
    assert why == "does not support SASL on this listener"


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_of_a_broker(sent: list[bytes]) -> None:
    story = gate("SCRAM-SHA-256").begin(BEGAN, asks(18))
    for piece in sent:
        story.broker(piece, ANYTHING)
    assert story.to_client in b"".join(sent)


@settings(max_examples=25)
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_of_a_client_pass(sent: list[bytes]) -> None:
    story = gate_before(Broker("PLAIN", lifetime_ms=1000)).begin(*authenticated("PLAIN"))
    story.answer = lambda _: b""
    story.now = 0.5
    for piece in sent:
        story.client(piece, ANYTHING)
    assert b"".join(sent).startswith(story.to_broker)
    assert story.gate.over or story.to_broker == b"".join(sent)


@pytest.mark.parametrize(
    ("used", "own"),
    [
        ([], 0x6B707201),
        ([5, -7], 0x6B707201),
        ([0x6B707200], 0x6B707201),
        ([0x6B707201], 0x6B707202),
        ([(1 << 31) - 2], (1 << 31) - 1),
        ([(1 << 31) - 1], -1),
        ([(1 << 31) - 1, -9], -10),
        ([(1 << 31) - 1, -(1 << 31)], -(1 << 31)),
    ],
)
def test_the_gate_s_requests_have_correlation_ids_that_the_client_has_not_used(used: list[int], own: int) -> None:
    """Unless the client has used both ends of the range."""
    story = gate()
    for number in used:
        story.client(request(3, 12, number), PASSES)
    story.begin(BEGAN, asks(18))
    assert decode_request(story.own[0].data, definitions()).header["correlationId"] == own


@pytest.mark.parametrize(
    ("code", "offered", "why"),
    [
        (33, ["A", "B"], "does not offer PLAIN (it offers: A, B)"),
        (33, [], "does not offer PLAIN (it offers: nothing)"),
        (34, [], "does not support SASL on this listener"),
        (58, ["A"], "refuses PLAIN: SASL_AUTHENTICATION_FAILED"),
        (1, ["A"], "refuses PLAIN: OFFSET_OUT_OF_RANGE"),
    ],
)
def test_why_a_handshake_was_refused(code: int, offered: list[str], why: str) -> None:
    steps = login("PLAIN", GOOD, 2)
    next(steps)
    with pytest.raises(LoginError, match=f"^{re.escape(why)}$"):
        steps.send({"errorCode": code, "mechanisms": offered})
