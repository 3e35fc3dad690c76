"""SASL before real brokers: clients that authenticate through kproxy, and clients for which kproxy does it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kproxy.core.login import Credentials, login
from tests.support import sasl
from tests.support.judge import judge_bearer
from tests.support.proxy import Proxy, export
from tests.support.sasl import BRIEF, ENCRYPTED, EXTENSIONS, MECHANISMS, OPEN, PASSWORD, USER, SaslCluster
from tests.system.test_run_real_brokers import CLIENT_SECONDS, Client, command
from tests.system.test_tls import java

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

SECONDS = 60.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    with SaslCluster(2, tmp_path_factory.mktemp("sasl")) as running:
        running.add_users()
        yield running


def on_behalf(brokers: SaslCluster, listener: str, mechanism: str, directory: Path, password: str = PASSWORD) -> Proxy:
    directory.mkdir()
    file = sasl.credentials(directory, mechanism, password)
    options = ["--sasl", mechanism.lower(), "--sasl-credentials", str(file)]
    if listener == ENCRYPTED:
        options += ["--tls-out", "--tls-out-ca", str(brokers.own_ca.path)]
    return Proxy(brokers.bootstrap_of(listener), directory, *options)


def sessions(lines: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """What the last exchange of SASL says of each connection."""
    return {line["connection"]: line["sasl"] for line in lines if "sasl" in line}


def unread(lines: list[dict[str, Any]]) -> None:
    """Nothing was left unread, and nothing unpaired that was asked on our own."""
    assert not [line for line in lines if line["schema"] == "kproxy.problem/1"]
    own = [line for line in lines if "sasl" in line or line.get("client_id") == "kproxy"]
    assert own
    assert not [line for line in own if line["problems"] or line["status"] != "ok"]


def no_secrets(recording: Path) -> None:
    data = recording.read_bytes()
    assert PASSWORD.encode() not in data
    assert b"Bearer ey" not in data


@pytest.mark.parametrize(
    ("client", "listener", "mechanism"),
    [
        ("librdkafka", OPEN, "PLAIN"),
        ("pure", ENCRYPTED, "SCRAM-SHA-256"),
        ("aio", BRIEF, "SCRAM-SHA-512"),
        ("Client", BRIEF, "SCRAM-SHA-256"),
        ("librdkafka", ENCRYPTED, "OAUTHBEARER"),
    ],
)
def test_clients_that_know_no_sasl(
    brokers: SaslCluster, client: str, listener: str, mechanism: str, tmp_path: Path
) -> None:
    with on_behalf(brokers, listener, mechanism, tmp_path / "proxy") as proxy:
        program = Client(command(client, brokers, proxy.bootstrap, f"{client}-{mechanism}"), tmp_path)
        program.run(CLIENT_SECONDS)
        assert program.remote <= {("127.0.0.1", port) for port in proxy.listeners()}
        assert proxy.stop() in {0, 130}, proxy.said()
        assert "sasl" not in proxy.err.read_text().lower().replace("--sasl", "")
    lines = export(proxy.recording, tmp_path)
    found = sessions(lines)
    assert {session["mechanism"] for session in found.values()} == {mechanism}
    carried = {line["connection"] for line in lines if line.get("api") == "Produce"}
    assert carried
    assert carried <= found.keys()
    assert all(found[one]["state"] == "authenticated" for one in carried)
    unread(lines)
    if mechanism == "OAUTHBEARER":
        said = [
            line["request"]["body"]["authBytes"]["decoded"] for line in lines if line.get("api") == "SaslAuthenticate"
        ]
        expected = {f"extensions.{name}": value for name, value in EXTENSIONS.items()}
        assert said
        assert all(expected.items() <= one.items() for one in said), said[0]
    else:
        assert {session["principal"] for session in found.values()} == {USER}
    no_secrets(proxy.recording)


def test_kafka_reads_the_extensions_that_are_sent() -> None:
    """Kafka's class for what a client says first, for all that may stand in a credentials file."""
    values = ["x", " ", "=", "a=b,c;d", "".join(map(chr, range(0x20, 0x7F))), "\t" * 1000]
    given = [{}, EXTENSIONS, *({"name": value, "Second": "2"} for value in values)]
    steps = [login("OAUTHBEARER", Credentials(token="a.b.c", extensions=one), version=2) for one in given]
    sent = []
    for one in steps:
        next(one)
        sent.append(one.send({"errorCode": 0}).auth)
    assert judge_bearer("4.4.0", sent) == [
        {"token": "a.b.c", "authorizationId": "", "extensions": one} for one in given
    ]
    assert "a.b.c" not in str(judge_bearer("4.4.0", [sent[1].replace(b"traceId", b"trace-Id")]))


def test_a_session_is_renewed_before_it_ends(brokers: SaslCluster, tmp_path: Path) -> None:
    with on_behalf(brokers, BRIEF, "SCRAM-SHA-512", tmp_path / "proxy") as proxy:
        keep_producing(proxy, {"bootstrap.servers": proxy.bootstrap}, tmp_path)
    lines = export(proxy.recording, tmp_path)
    unread(lines)
    produced = [line for line in lines if line.get("api") == "Produce"]
    assert len({line["connection"] for line in produced}) <= brokers.nodes
    assert {line["status"] for line in produced} == {"ok"}
    own = [line for line in lines if line.get("sasl", {}).get("authentications", 0) >= 2][-1]
    assert own["client_id"] == "kproxy"
    assert any("sent by kproxy itself" in comment for comment in own["request"]["comments"])
    assert own["sasl"]["lifetime_ms"] <= sasl.REAUTHENTICATION_MS
    assert own["sasl"]["ends"] > own["sasl"]["since"]
    no_secrets(proxy.recording)


def test_clients_renew_their_sessions_themselves(brokers: SaslCluster, tmp_path: Path) -> None:
    with Proxy(brokers.bootstrap_of(BRIEF), tmp_path / "proxy") as proxy:
        keep_producing(proxy, client_settings(proxy.bootstrap, "SCRAM-SHA-256"), tmp_path)
    unread(export(proxy.recording, tmp_path))


def keep_producing(proxy: Proxy, settings: dict[str, Any], directory: Path) -> None:
    """Produces all along until a connection has authenticated three times; nothing fails meanwhile."""
    lost: list[object] = []
    delivered: list[object] = []
    producer = Producer({**settings, "linger.ms": 0, "acks": 1, "log_level": 0, "error_cb": lost.append})
    sent, most, deadline = 0, 0, time.monotonic() + SECONDS
    while most < 3:
        assert time.monotonic() < deadline, (most, proxy.said())
        for _ in range(20):
            producer.produce("renewed", b"x" * 1000, on_delivery=lambda error, _: delivered.append(error))
            sent += 1
            producer.poll(0.02)
        assert not producer.flush(30)
        found = sessions(export(proxy.recording, directory)).values()
        most = max((one["authentications"] for one in found), default=0)
    assert delivered == [None] * sent
    assert lost == []
    assert proxy.stop() in {0, 130}, proxy.said()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_told(brokers: SaslCluster, mechanism: str, tmp_path: Path) -> None:
    with on_behalf(brokers, OPEN, mechanism, tmp_path / "proxy", "another") as proxy:
        admin = AdminClient({"bootstrap.servers": proxy.bootstrap, "log_level": 0})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=5)
        assert proxy.stop() in {0, 130}, proxy.said()
        said = proxy.err.read_text()
    assert "refuses kproxy's credentials: SASL_AUTHENTICATION_FAILED: Authentication failed" in said
    assert "another" not in said
    found = sessions(export(proxy.recording, tmp_path))
    assert {session["state"] for session in found.values()} == {"failed"}
    assert b"another" not in proxy.recording.read_bytes()


def test_a_client_that_wants_to_authenticate_itself_is_told(brokers: SaslCluster, tmp_path: Path) -> None:
    with on_behalf(brokers, OPEN, "SCRAM-SHA-256", tmp_path / "proxy") as proxy:
        with pytest.raises(KafkaException):
            AdminClient(client_settings(proxy.bootstrap, "PLAIN")).list_topics(timeout=5)
        assert proxy.stop() in {0, 130}, proxy.said()
        assert "configure the client without SASL" in proxy.err.read_text()
    assert PASSWORD.encode() not in proxy.recording.read_bytes()


def client_settings(bootstrap: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER":
        return {**settings, "oauth_cb": lambda _: (sasl.token(), time.time() + 3600)}
    return {**settings, "sasl.username": USER, "sasl.password": password}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_clients_show_passes_and_is_decoded(brokers: SaslCluster, mechanism: str, tmp_path: Path) -> None:
    with Proxy(brokers.bootstrap_of(OPEN), tmp_path / "proxy") as proxy:
        admin = AdminClient(client_settings(proxy.bootstrap, mechanism))
        admin.poll(1)
        assert len(admin.list_topics(timeout=30).brokers) == brokers.nodes
        if mechanism != "OAUTHBEARER":
            with pytest.raises(KafkaException):
                AdminClient(client_settings(proxy.bootstrap, mechanism, "another")).list_topics(timeout=5)
        assert proxy.stop() in {0, 130}, proxy.said()
    lines = export(proxy.recording, tmp_path)
    found = list(sessions(lines).values())
    assert {session["principal"] for session in found} == {USER}
    assert {session["mechanism"] for session in found} == {mechanism}
    assert all(set(session["offered"]) == set(MECHANISMS) for session in found if "offered" in session)
    states = [session["state"] for session in found]
    assert "authenticated" in states
    if mechanism != "OAUTHBEARER":
        failed = next(session for session in found if session["state"] == "failed")
        assert failed["error"] == "SASL_AUTHENTICATION_FAILED"
        assert failed["message"].startswith("Authentication failed")
    asked = [line["request"]["body"]["authBytes"] for line in lines if line.get("api") == "SaslAuthenticate"]
    assert all(one["redacted"] and one["decoded"]["mechanism"] == mechanism.partition("-")[0] for one in asked)


def java_properties(proxy: Proxy, directory: Path) -> list[str]:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER}" password="{PASSWORD}";',
    }
    return java(dict(settings), proxy.bootstrap, "sasl-java", directory)


def pure(proxy: Proxy) -> None:
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(
        bootstrap_servers=[proxy.bootstrap],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    )
    assert "brokers" in admin.describe_cluster()
    admin.close()


def aio(proxy: Proxy) -> None:
    import asyncio

    from aiokafka.admin import AIOKafkaAdminClient

    async def ask() -> None:
        admin = AIOKafkaAdminClient(
            bootstrap_servers=proxy.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username=USER,
            sasl_plain_password=PASSWORD,
        )
        await admin.start()
        assert (await admin.describe_cluster())["brokers"]
        await admin.close()

    asyncio.run(ask())


# kafka-python's own business
@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize("client", ["java", "pure", "aio"])
def test_other_clients_authenticate_through_kproxy(brokers: SaslCluster, client: str, tmp_path: Path) -> None:
    with Proxy(brokers.bootstrap_of(OPEN), tmp_path / "proxy") as proxy:
        if client == "java":
            Client(java_properties(proxy, tmp_path), tmp_path).run(CLIENT_SECONDS)
        else:
            {"pure": pure, "aio": aio}[client](proxy)
        assert proxy.stop() in {0, 130}, proxy.said()
    lines = export(proxy.recording, tmp_path)
    unread(lines)
    found = sessions(lines).values()
    assert {(one["state"], one["mechanism"], one["principal"]) for one in found} == {
        ("authenticated", "SCRAM-SHA-512", USER)
    }
