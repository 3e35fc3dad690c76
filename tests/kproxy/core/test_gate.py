"""Authentication on a client's behalf without sockets, against a broker that follows the protocol; SCRAM's library
judges what we say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramMechanism
from scramp.core import ScramException

from kproxy.core.connection import ToBroker
from kproxy.core.gate import Act, Began, ClientEnded, FromBroker, Gate, Opened, Own, Refused
from kproxy.core.login import MECHANISMS, SCRAM, Credentials, LoginError, login
from kproxy.decoders.message import decode_request
from kproxy.decoders.schema import definitions
from tests.support.sasl import PASSWORD, USER, token
from tests.support.scripts import request, response

TOKEN = token()
FRAMES = [request(3, 12, 5), request(1, 12, 6), request(0, 9, -7), request(18, 3, 0x6B707201)]


class Broker:
    """Answers one request at a time, in order, and lets in who shows USER and PASSWORD or TOKEN."""

    def __init__(self, mechanism: str, *, lifetime_ms: int = 0, most: int = 2, holds: int = 0) -> None:
        """`holds` answers to clients are kept until one more comes, as long polls are."""
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


class Bench:
    """A gate between a client and a broker; `piece` bytes pass at a time."""

    def __init__(self, broker: Broker, who: Credentials, *, piece: int = 1 << 20, asked: str | None = None) -> None:
        self.broker = broker
        self.piece = piece
        self.gate = Gate(definitions(), lambda version: login(asked or broker.mechanism, who, version))
        self.now = 0.0
        self.to_client = b""
        self.acts: list[Act] = []
        self.do(self.gate.begin(self.now))

    def do(self, acts: list[Act]) -> None:
        """Carries them out. What the broker answers comes after all of them."""
        answer = b""
        for act in acts:
            self.acts.append(act)
            if isinstance(act, ToBroker) or (isinstance(act, Own) and act.side == 0):
                answer += self.broker.take(act.data)
            elif isinstance(act, FromBroker):
                self.to_client += act.data
        for at in range(0, len(answer), self.piece):
            self.do(self.gate.from_broker(answer[at : at + self.piece], self.now))

    def send(self, data: bytes) -> None:
        for at in range(0, len(data), self.piece):
            self.do(self.gate.to_broker(ToBroker(data[at : at + self.piece]), self.now))

    def kinds(self) -> list[type]:
        return [type(act) for act in self.acts]

    @property
    def refused(self) -> Refused:
        return next(act for act in self.acts if isinstance(act, Refused))

    @property
    def clients(self) -> list[tuple[int, int]]:
        return [(key, number) for key, number, client in self.broker.seen if client != "kproxy"]


GOOD = Credentials(USER, PASSWORD, TOKEN)
BAD = Credentials(USER, "another", "another")
PIECES = pytest.mark.parametrize("piece", [1, 3, 1 << 20])


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


@PIECES
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_broker_lets_us_in_and_the_client_sees_nothing(mechanism: str, piece: int, most: int) -> None:
    bench = Bench(Broker(mechanism, most=most), GOOD, piece=piece)
    assert not bench.gate.busy
    assert bench.broker.logins == 1
    assert bench.to_client == b""
    bench.send(b"".join(FRAMES))
    assert bench.to_client == answers(FRAMES)
    assert [number for _, number in bench.clients] == [5, 6, -7, 0x6B707201]
    assert bench.kinds()[0] is Began
    assert bench.kinds().count(Opened) == 1


@PIECES
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_credentials(mechanism: str, piece: int) -> None:
    bench = Bench(Broker(mechanism), BAD, piece=piece)
    assert bench.refused.why.startswith("refuses")
    assert "another" not in bench.refused.why
    bench.send(FRAMES[0])
    assert bench.clients == []


def test_a_mechanism_that_the_broker_does_not_offer() -> None:
    bench = Bench(Broker("PLAIN"), GOOD, asked="SCRAM-SHA-256")
    assert bench.refused.why == "does not offer SCRAM-SHA-256, but PLAIN"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_secrets_are_masked_for_the_recording(mechanism: str) -> None:
    bench = Bench(Broker(mechanism), GOOD)
    own = [act for act in bench.acts if isinstance(act, Own)]
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
    bench = Bench(Broker("SCRAM-SHA-512", lifetime_ms=1000, holds=holds), GOOD, piece=piece)
    bench.send(FRAMES[0])
    bench.now = 0.84
    bench.send(FRAMES[1])
    assert bench.broker.logins == 1
    bench.now = 0.86
    bench.send(FRAMES[2] + FRAMES[3])
    assert bench.broker.logins == 2
    keys = [key for key, _, client in bench.broker.seen if client == "kproxy"]
    assert keys == [18, 17, 36, 36, 17, 36, 36]
    bench.now = 2.0
    bench.send(FRAMES[0])
    assert bench.broker.logins == 3
    for at, (_, number, client) in enumerate(bench.broker.seen):
        assert client != "kproxy" or number not in {
            other for _, other, whose in bench.broker.seen[:at] if whose != client
        }
    assert bench.broker.seen[-1][2] != "kproxy"
    assert answers([*FRAMES, FRAMES[0]]).startswith(bench.to_client)
    assert len(bench.clients) == 5


@PIECES
def test_no_renewal_within_a_request(piece: int) -> None:
    bench = Bench(Broker("PLAIN", lifetime_ms=1000), GOOD, piece=piece)
    long = request(0, 9, 1, transactionalId="x" * 3000)
    bench.send(long[:100])
    bench.now = 5.0
    bench.send(long[100:2000])
    assert bench.broker.logins == 1
    bench.send(long[2000:] + FRAMES[0])
    assert bench.broker.logins == 2
    assert [number for _, number in bench.clients] == [1, 5]
    assert bench.to_client == response(0, 9, 1) + answers(FRAMES[:1])


def test_a_client_that_ends_meanwhile_is_heard_last() -> None:
    gate = Gate(definitions(), lambda version: login("PLAIN", GOOD, version))
    broker = Broker("PLAIN")
    acts = gate.begin(0)
    assert gate.to_broker(ToBroker(FRAMES[0]), 0) == []
    assert gate.client_ended() == []
    while gate.busy:
        own = acts[-1]
        assert isinstance(own, Own)
        acts = gate.from_broker(broker.take(own.data), 0)
    assert acts[-3:] == [Opened(), ToBroker(FRAMES[0]), ClientEnded()]


@pytest.mark.parametrize("before", [b"", FRAMES[0]])
def test_a_client_that_authenticates_itself_is_told_that_it_need_not(before: bytes) -> None:
    bench = Bench(Broker("PLAIN"), GOOD)
    bench.send(before + request(17, 1, 9, mechanism="PLAIN") + request(36, 2, 10, authBytes=b"\0bob\0secret"))
    assert bench.refused.client
    assert bench.refused.answer == response(17, 1, 9, errorCode=34, mechanisms=[])
    assert len(bench.clients) == bool(before)
    assert bench.gate.from_broker(b"whatever", 0) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x28", "speaks TLS"),
        (b"HTTP/1.1 400 Bad Request", "speaks HTTP"),
        (b"\xff\xff\xff\xff\0\0\0\0", "no frame"),
        (b"\x7f\xff\xff\xff\x6b\x70\x72\x01", "answers with 2147483647 bytes"),
        (b"\0\0\0\5\x6b\x70\x72\x01\0", "cannot be decoded"),
    ],
)
def test_what_is_no_answer(said: bytes, why: str) -> None:
    gate = Gate(definitions(), lambda version: login("PLAIN", GOOD, version))
    gate.begin(0)
    last = gate.from_broker(said, 0)[-1]
    assert isinstance(last, Refused)
    assert why in last.why


@pytest.mark.parametrize("busy", [True, False])
@pytest.mark.parametrize("hello", [b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", b"GET / HTTP/1.1"])
@pytest.mark.parametrize("piece", [1, 100])
def test_who_speaks_another_protocol_gets_no_session(busy: bool, hello: bytes, piece: int) -> None:
    gate = Gate(definitions(), lambda version: login("PLAIN", GOOD, version))
    if busy:
        gate.begin(0)
    acts = [act for i in range(0, len(hello), piece) for act in gate.to_broker(ToBroker(hello[i : i + piece]), 0)]
    (refused,) = (act for act in acts if isinstance(act, Refused))
    assert refused.client
    assert (gate.over, gate.busy) == (True, False)
    assert sum(len(act.data) for act in acts if isinstance(act, ToBroker)) < 4


def scripted(*bodies: Callable[[int], bytes], mechanism: str = "SCRAM-SHA-256") -> Refused:
    gate = Gate(definitions(), lambda version: login(mechanism, GOOD, version))
    acts = gate.begin(0)
    for body in bodies:
        own = acts[-1]
        assert isinstance(own, Own)
        acts = gate.from_broker(body(int.from_bytes(own.data[8:12], "big")), 0)
    last = acts[-1]
    assert isinstance(last, Refused)
    return last


def versions(number: int) -> bytes:
    apis = [{"apiKey": key, "minVersion": 0, "maxVersion": 1} for key in (17, 36)]
    return response(18, 0, number, apiKeys=apis)


def granted(number: int) -> bytes:
    return response(17, 1, number)


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
    why = scripted(versions, granted, lambda number: response(36, 1, number, authBytes=said)).why
    assert "SCRAM-SHA-256" in why


class Impostor(Broker):
    """Lets everybody in without knowing the password."""

    def _say(self, auth: bytes) -> tuple[bytes, bool]:
        said, last = super()._say(auth)
        return (b"v=" + b"A" * 43 + b"=", True) if last else (said, last)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_broker_that_does_not_know_the_password(mechanism: str) -> None:
    bench = Bench(Impostor(mechanism), GOOD)
    assert "signature" in bench.refused.why
    bench.send(FRAMES[0])
    assert bench.clients == []


def test_brokers_of_before_kafka_1() -> None:
    old = [{"apiKey": 17, "minVersion": 0, "maxVersion": 0}]
    assert "since 1.0" in scripted(lambda number: response(18, 0, number, apiKeys=old)).why


def test_a_listener_that_authenticates_nobody() -> None:
    why = scripted(versions, lambda number: response(17, 1, number, errorCode=34)).why
    assert why == "authenticates nobody by SASL on this listener"


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_of_a_broker(pieces: list[bytes]) -> None:
    gate = Gate(definitions(), lambda version: login("SCRAM-SHA-256", GOOD, version))
    gate.begin(0)
    passed = b"".join(act.data for piece in pieces for act in gate.from_broker(piece, 0) if isinstance(act, FromBroker))
    assert b"".join(pieces).startswith(passed) or passed in b"".join(pieces)


@settings(max_examples=25)
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_of_a_client_pass(pieces: list[bytes]) -> None:
    """They are not counted as somebody's requests, but what passes is what came."""
    gate = Gate(definitions(), lambda version: login("PLAIN", GOOD, version))
    acts = gate.begin(0)
    broker = Broker("PLAIN", lifetime_ms=1000)
    while gate.busy:
        own = acts[-1]
        assert isinstance(own, Own)
        acts = gate.from_broker(broker.take(own.data), 0)
    passed = b"".join(
        bytes(act.data) for data in pieces for act in gate.to_broker(ToBroker(data), 0.5) if isinstance(act, ToBroker)
    )
    assert b"".join(pieces).startswith(passed)
    assert gate.over or passed == b"".join(pieces)


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
def test_our_requests_have_correlation_ids_that_the_client_has_not_used(used: list[int], own: int) -> None:
    """But for a client that has used both ends of all that there are."""
    gate = Gate(definitions(), lambda version: login("PLAIN", GOOD, version))
    for number in used:
        gate.to_broker(ToBroker(request(3, 12, number)), 0.0)
    _, asked = gate.begin(0.0)
    assert isinstance(asked, Own)
    assert decode_request(asked.data, definitions()).header["correlationId"] == own


@pytest.mark.parametrize(
    ("code", "offered", "why"),
    [
        (33, ["A", "B"], "does not offer PLAIN, but A, B"),
        (33, [], "does not offer PLAIN, but nothing"),
        (34, [], "authenticates nobody by SASL on this listener"),
        (58, ["A"], "refuses PLAIN: SASL_AUTHENTICATION_FAILED"),
        (1, ["A"], "refuses PLAIN: OFFSET_OUT_OF_RANGE"),
    ],
)
def test_why_a_handshake_was_refused(code: int, offered: list[str], why: str) -> None:
    steps = login("PLAIN", GOOD, 2)
    next(steps)
    with pytest.raises(LoginError, match=f"^{why}$"):
        steps.send({"errorCode": code, "mechanisms": offered})
