"""The relay's process between peers that speak TLS, or should."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.runs.launcher import RelayProcess, StartError, wait_until
from kproxy.runs.settings import TlsSettings
from kproxy.tls.authority import Authority, default_directory
from tests.kproxy.core.frames import decoded, naming, request, response
from tests.kproxy.support import FakeBroker, connect, exactly, places, relay, reset, to_the_end
from tests.support.certificates import TestCa
from tests.support.patience import SECONDS
from tests.support.tlspeer import TlsPeer, client_context, server_context

pytestmark = pytest.mark.timeout(120)

ASKED, ANSWERED = request(12, 0, 7), response(12, 0, 7, {})
CA_PEM = "ca.pem"


@dataclass
class World:
    """A CA of the brokers', a certificate of theirs, a broker, and where kproxy's own CA is."""

    directory: Path
    ca: TestCa
    certificate: tuple[Path, Path]
    broker: FakeBroker
    peers: list[TlsPeer] = field(default_factory=list)

    @property
    def own_ca(self) -> Path:
        return Authority.open(default_directory()).path

    def tls(self, *, inside: bool = True, out: bool = True, **more: Any) -> TlsSettings:
        settings: dict[str, Any] = {"in_certificate": "auto" if inside else "", "out": out}
        if out:
            settings["out_ca"] = str(self.ca.path)
        return TlsSettings(**{**settings, **more})

    def client(self, process: RelayProcess, *, name: str | None = "localhost", **more: Any) -> TlsPeer:
        return self.keep(TlsPeer(connect(process.bootstrap), client_context(self.own_ca), name=name, **more))

    def server(self, clients: Path | None = None, **more: Any) -> TlsPeer:
        return self.keep(TlsPeer(self.broker.accept(), server_context(self.certificate, clients), server=True, **more))

    def keep(self, peer: TlsPeer) -> TlsPeer:
        """Closes it at the end of the test."""
        self.peers.append(peer)
        return peer


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    places(monkeypatch, tmp_path)
    ca = TestCa(tmp_path)
    fake = FakeBroker()
    made = World(tmp_path, ca, ca.leaf("broker", "localhost", "127.0.0.1"), fake)
    yield made
    for peer in made.peers:
        peer.socket.close()
    fake.close()


def said(process: RelayProcess) -> list[str]:
    messages: list[str] = process.command("status")["messages"]
    return messages


def hears(process: RelayProcess, *parts: str) -> None:
    """Waits for a warning with all parts in it."""
    found = wait_until(lambda: any(all(part in message for part in parts) for message in said(process)), SECONDS)
    assert found, f"{parts} not in {said(process)}"


def failed(process: RelayProcess) -> dict[str, int]:
    counters: dict[str, int] = process.command("status")["tls"]
    return counters


# --- what works ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytewise", [False, True])
@pytest.mark.parametrize(("inside", "out"), [(True, True), (True, False), (False, True)])
def test_bytes_pass_and_the_recording_is_plain(world: World, inside: bool, out: bool, bytewise: bool) -> None:
    recording = world.directory / "r.pcapng"
    with relay(world.broker.address, record_to=recording, tls=world.tls(inside=inside, out=out)) as process:
        if inside:
            client = world.client(process, bytewise=bytewise)
            client.send(ASKED)
        else:
            plain_client = connect(process.bootstrap)
            plain_client.sendall(ASKED)
        if out:
            broker = world.server(bytewise=bytewise)
            assert broker.exactly(len(ASKED)) == ASKED
            broker.send(ANSWERED)
            broker_socket = broker.socket
        else:
            broker_socket = world.broker.accept()
            assert exactly(broker_socket, len(ASKED)) == ASKED
            broker_socket.sendall(ANSWERED)
        if inside:
            assert client.exactly(len(ANSWERED)) == ANSWERED
            client.socket.close()
        else:
            assert exactly(plain_client, len(ANSWERED)) == ANSWERED
            plain_client.close()
        broker_socket.close()
        process.stop()
    reader = read(recording)
    found = [one for one in reader if isinstance(one, Exchange)]
    assert [(one.correlation_id, one.status) for one in found] == [(7, "ok")]
    assert found[0].connection.broker == world.broker.address
    reader.close()
    data = recording.read_bytes()
    sides = (
        "TLSv1.3, TLS_AES_256_GCM_SHA384, server name localhost" if inside else "plaintext",
        "TLSv1.3, TLS_AES_256_GCM_SHA384, server name 127.0.0.1, server certificate commonName=broker"
        if out
        else "plaintext",
    )
    assert f"TLS terminated here by kproxy: client side {sides[0]}; upstream {sides[1]}".encode() in data


def test_a_plain_connection_has_no_comment(world: World) -> None:
    recording = world.directory / "r.pcapng"
    with relay(world.broker.address, record_to=recording) as process:
        with connect(process.bootstrap) as client, world.broker.accept():
            client.sendall(ASKED)
        process.stop()
    assert b"TLS terminated" not in recording.read_bytes()


def test_much_passes_unchanged(world: World) -> None:
    size = 24 << 20
    sent = size.to_bytes(4, "big") + os.urandom(size)
    with relay(world.broker.address, tls=world.tls()) as process:
        client = world.client(process)
        broker = world.server()
        for writing, reading in ((client, broker), (broker, client)):
            writer = threading.Thread(target=writing.send, args=(sent,))
            writer.start()
            got = reading.exactly(len(sent))
            writer.join()
            assert hashlib.sha256(got).digest() == hashlib.sha256(sent).digest()


def test_addresses_are_replaced_under_a_certificate_of_the_advertised_host(world: World) -> None:
    with relay(world.broker.address, tls=world.tls(), advertise="{broker}.kafka.example") as process:
        client = world.client(process, name="1.kafka.example")
        client.send(request(3, 9, 1))
        broker = world.server()
        broker.exactly(len(request(3, 9, 1)))
        broker.send(naming(3, 9, 1, [(5, "127.0.0.1", world.broker.port)]))
        length = client.exactly(4)
        body = decoded(length + client.exactly(int.from_bytes(length, "big")), 3, 9)
        address = body["brokers"][0]
        assert address["host"] == "5.kafka.example"
        second = world.keep(
            TlsPeer(
                socket.create_connection(("127.0.0.1", address["port"]), SECONDS),
                client_context(world.own_ca),
                name="5.kafka.example",
            )
        )
        second.send(ASKED)
        assert world.server().exactly(len(ASKED)) == ASKED


@pytest.mark.parametrize("name", ["broker-7.kafka.example", "localhost", "127.0.0.1", "xn--bcher-kva.example"])
def test_the_certificate_is_of_the_name_that_was_asked_for(world: World, name: str) -> None:
    with relay(world.broker.address, tls=world.tls(out=False)) as process:
        client = world.client(process, name=name)
        certificate = client.session.getpeercert()
        assert certificate is not None
        names = [pair[1] for pair in certificate["subjectAltName"]]
        assert {name, "localhost", "127.0.0.1"} <= set(names)
        client.socket.close()


def test_a_name_that_none_is_gets_the_address_s_certificate(world: World) -> None:
    with relay(world.broker.address, tls=world.tls(out=False)) as process:
        context = client_context(world.own_ca)
        context.check_hostname = False
        client = world.keep(TlsPeer(connect(process.bootstrap), context, name="a" * 63 + ".b_c.example-"))
        assert client.session.getpeercert()
        client.socket.close()


def test_a_certificate_from_files_is_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_PASSWORD", "let me in")
    files = world.ca.leaf("front", "localhost", password=b"let me in")
    tls = world.tls(in_certificate=",".join(map(str, files)), password_env="KEY_PASSWORD")
    with relay(world.broker.address, tls=tls) as process:
        client = world.keep(TlsPeer(connect(process.bootstrap), client_context(world.ca.path), name="localhost"))
        client.send(ASKED)
        assert world.server().exactly(len(ASKED)) == ASKED
        client.socket.close()


def test_mutual_tls_on_both_sides(world: World) -> None:
    recording = world.directory / "r.pcapng"
    people = TestCa(world.directory, "people")
    person, machine = people.leaf("ann"), people.leaf("kproxy")
    tls = world.tls(in_ca=str(people.path), out_certificate=",".join(map(str, machine)))
    with relay(world.broker.address, tls=tls, record_to=recording) as process:
        client = world.keep(TlsPeer(connect(process.bootstrap), client_context(world.own_ca, person), name="localhost"))
        client.send(ASKED)
        broker = world.server(clients=people.path)
        assert broker.exactly(len(ASKED)) == ASKED
        shown = broker.session.getpeercert()
        assert shown is not None
        assert shown["subject"] == ((("commonName", "kproxy"),),)
        client.socket.close()
        broker.socket.close()
        process.stop()
    assert b"client certificate commonName=ann" in recording.read_bytes()


def test_the_asked_name_is_expected_of_the_broker(world: World) -> None:
    world.certificate = world.ca.leaf("inner", "inner.example")
    asked: list[str | None] = []
    context = server_context(world.certificate)
    context.sni_callback = lambda _session, name, _context: asked.append(name)
    with (
        relay(world.broker.address, tls=world.tls(inside=False, out_name="inner.example")) as process,
        connect(process.bootstrap) as client,
    ):
        client.sendall(ASKED)
        broker = world.keep(TlsPeer(world.broker.accept(), context, server=True))
        assert broker.exactly(len(ASKED)) == ASKED
        broker.socket.close()
    assert asked == ["inner.example"]


def test_secrets_of_both_sides_are_logged_for_the_owner_alone(world: World) -> None:
    log = world.directory / "keys.log"
    log.touch(0o644)
    with relay(world.broker.address, tls=world.tls(keylog=str(log))) as process:
        client = world.client(process)
        client.send(ASKED)
        broker = world.server()
        broker.exactly(len(ASKED))
        client.socket.close()
        broker.socket.close()
    lines = [line.split() for line in log.read_text().splitlines() if not line.startswith("#")]
    labels = {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0", "CLIENT_TRAFFIC_SECRET_0"}
    assert labels <= {line[0] for line in lines}
    assert len({line[1] for line in lines}) == 2  # the random numbers of two connections
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


# --- ends ------------------------------------------------------------------------------------------------------------


def test_a_direction_ends_and_the_other_goes_on(world: World) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        client = world.client(process)
        client.send(ASKED)
        client.end()
        broker = world.server()
        assert broker.exactly(len(ASKED)) == ASKED
        assert broker.receive() == b""
        broker.send(ANSWERED)
        assert client.exactly(len(ANSWERED)) == ANSWERED
        broker.send(ANSWERED)
        assert client.exactly(len(ANSWERED)) == ANSWERED
        broker.end()
        assert client.receive() == b""
        assert client.socket.recv(1) == b""
        assert broker.socket.recv(1) == b""


def test_the_broker_may_end_first(world: World) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        client = world.client(process)
        broker = world.server()
        broker.end()
        assert client.receive() == b""
        client.send(ASKED)
        assert broker.exactly(len(ASKED)) == ASKED
        client.end()
        assert broker.receive() == b""


def test_an_end_without_notice_is_an_end(world: World) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        client = world.client(process)
        client.send(ASKED)
        broker = world.server()
        client.socket.shutdown(socket.SHUT_WR)
        assert broker.exactly(len(ASKED)) == ASKED
        assert broker.receive() == b""
        broker.send(ANSWERED)
        assert client.exactly(len(ANSWERED)) == ANSWERED


@pytest.mark.parametrize("by_client", [True, False])
def test_a_reset_is_one_on_the_other_side(world: World, by_client: bool) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        client = world.client(process)
        client.send(ASKED)
        broker = world.server()
        broker.exactly(len(ASKED))
        broker.send(ANSWERED)
        client.exactly(len(ANSWERED))
        left, stays = (client, broker) if by_client else (broker, client)
        left.reset()
        with pytest.raises(ConnectionResetError):
            stays.receive()


def test_garbage_after_the_handshake_is_a_reset_and_named(world: World) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        client = world.client(process)
        client.send(ASKED)
        broker = world.server()
        assert broker.exactly(len(ASKED)) == ASKED
        client.socket.sendall(b"what is no record")
        with pytest.raises(ConnectionResetError):
            broker.receive()
        hears(process, "client 127.0.0.1 has a TLS error")


def test_what_follows_the_end_is_not_kept(world: World) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        client = world.client(process)
        broker = world.server()
        client.send(ASKED)
        with contextlib.suppress(ssl.SSLWantReadError):
            client.session.unwrap()
        client.flush()
        assert broker.exactly(len(ASKED)) == ASKED
        assert broker.receive() == b""
        client.socket.sendall(bytes(1 << 20))
        broker.send(ANSWERED)
        assert client.exactly(len(ANSWERED)) == ANSWERED


def test_stopping_ends_connections_that_have_not_shaken_hands(world: World) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        client = connect(process.bootstrap)
        process.stop()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        client.close()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_client_that_does_not_trust_us_is_told_what_to_do(world: World) -> None:
    recording = world.directory / "r.pcapng"
    with relay(world.broker.address, tls=world.tls(out=False), record_to=recording) as process:
        stranger = client_context(world.ca.path)
        with pytest.raises(ssl.SSLCertVerificationError):
            TlsPeer(connect(process.bootstrap), stranger, name="localhost")
        hears(process, "client 127.0.0.1 refuses kproxy's certificate", "alert unknown ca", "kproxy ca")
        assert failed(process) == {"clients_failed": 1, "brokers_failed": 0}
        process.stop()
    assert b"TLS with the client failed: it refuses kproxy's certificate" in recording.read_bytes()
    reader = read(recording)
    assert not [one for one in reader if isinstance(one, Exchange)]
    reader.close()


@pytest.mark.parametrize("shows", ["nothing", "another CA's"])
def test_a_client_must_show_the_certificate_that_is_asked_for(world: World, shows: str) -> None:
    people = TestCa(world.directory, "people")
    strangers = TestCa(world.directory, "strangers")
    certificate = None if shows == "nothing" else strangers.leaf("eve")
    words = "presents no certificate, but --tls-in-ca requires one" if shows == "nothing" else "that does not verify"
    with relay(world.broker.address, tls=world.tls(in_ca=str(people.path))) as process:
        client = world.keep(
            TlsPeer(connect(process.bootstrap), client_context(world.own_ca, certificate), name="localhost")
        )
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            client.receive()
        hears(process, "client 127.0.0.1", words)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (ASKED, "sends plaintext Kafka to a TLS port"),
        (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "sends HTTP to a TLS port"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "sends bytes that are neither TLS nor Kafka"),
    ],
)
def test_what_is_no_tls_is_named_by_its_first_bytes(world: World, sent: bytes, words: str) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        with connect(process.bootstrap) as client, contextlib.suppress(ConnectionError):
            for byte in sent:
                client.sendall(bytes([byte]))
            to_the_end(client)
        hears(process, f"client 127.0.0.1 {words}")


def test_somebody_who_only_knocks_is_no_warning(world: World) -> None:
    with relay(world.broker.address, tls=world.tls()) as process:
        connect(process.bootstrap).close()
        reset(connect(process.bootstrap))
        client = world.client(process)
        client.send(ASKED)
        assert world.server().exactly(len(ASKED)) == ASKED
        assert said(process) == []
        assert failed(process)["clients_failed"] == 0
        client.socket.close()


def test_tls_on_a_plain_port_is_named(world: World) -> None:
    with relay(world.broker.address, tls=TlsSettings()) as process:
        client = connect(process.bootstrap)
        broker = world.broker.accept()
        hello = b"\x16\x03\x01\x00\x05hello"
        client.sendall(hello)
        assert exactly(broker, len(hello)) == hello
        hears(process, "client 127.0.0.1 sends TLS", "--tls-in auto")
        broker.sendall(b"\x15\x03\x03\x00\x02\x02\x50")
        hears(process, f"upstream {world.broker.address} sends TLS", "--tls-out")
        client.close()
        broker.close()


def refuse(world: World, process: RelayProcess, serve: Callable[[socket.socket], None]) -> None:
    """A client comes, the broker does as told, and the client is reset."""
    with connect(process.bootstrap) as client:
        client.sendall(ASKED)
        with world.broker.accept() as side, contextlib.suppress(ssl.SSLError, EOFError, ConnectionError):
            serve(side)
        with pytest.raises(ConnectionResetError):
            to_the_end(client)


@pytest.mark.parametrize(
    ("hosts", "expired", "trusted", "words"),
    [
        (["127.0.0.1"], False, False, "--tls-out-ca takes the CA to trust"),
        (["127.0.0.1"], True, True, "certificate has expired"),
        (["elsewhere.example"], False, True, "--tls-out-name says which name to expect"),
    ],
)
def test_a_broker_is_verified(world: World, hosts: list[str], expired: bool, trusted: bool, words: str) -> None:
    recording = world.directory / "r.pcapng"
    ca = world.ca if trusted else TestCa(world.directory, "others")
    context = server_context(ca.leaf("bad", *hosts, expired=expired))
    tls = world.tls(inside=False)
    with relay(world.broker.address, tls=tls, record_to=recording) as process:
        refuse(world, process, lambda side: _greet(side, context))
        hears(process, f"upstream {world.broker.address} has a certificate", words)
        assert failed(process) == {"clients_failed": 0, "brokers_failed": 1}
        process.stop()
    assert b", which has a certificate" in recording.read_bytes()
    with (
        relay(world.broker.address, tls=world.tls(inside=False, out_ca=None, out_insecure=True)) as process,
        connect(process.bootstrap) as client,
    ):
        client.sendall(ASKED)
        broker = world.keep(TlsPeer(world.broker.accept(), context, server=True))
        assert broker.exactly(len(ASKED)) == ASKED
        broker.socket.close()


def _greet(side: socket.socket, context: ssl.SSLContext) -> None:
    TlsPeer(side, context, server=True).receive()


def _answer_http(side: socket.socket) -> None:
    side.recv(4096)
    side.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def _ask_and_reset(side: socket.socket) -> None:
    side.recv(4096)
    reset(side)


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (_answer_http, "speaks HTTP, neither TLS nor Kafka"),
        (lambda side: side.recv(4096), "leave out --tls-out"),
        (_ask_and_reset, "leave out --tls-out"),
        (lambda side: side.sendall(b"220 smtp.example\r\n"), "does not speak TLS"),
    ],
    ids=["http", "closes", "resets", "greets"],
)
def test_an_upstream_without_tls_is_named(world: World, serve: Callable[[socket.socket], None], words: str) -> None:
    with relay(world.broker.address, tls=world.tls(inside=False)) as process:
        refuse(world, process, serve)
        hears(process, f"upstream {world.broker.address}", words)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_wants_a_certificate_is_named(world: World, version: ssl.TLSVersion) -> None:
    context = server_context(world.certificate, clients=world.ca.path)
    context.maximum_version = version
    with relay(world.broker.address, tls=world.tls(inside=False)) as process:
        with connect(process.bootstrap) as client:
            client.sendall(ASKED)
            with world.broker.accept() as side, pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN"):
                _greet(side, context)
            with contextlib.suppress(ConnectionResetError):
                to_the_end(client)
        hears(process, f"upstream {world.broker.address}", "certificate", "--tls-out-cert")


def test_the_next_upstream_is_tried(world: World) -> None:
    second = FakeBroker()
    with (
        relay(f"{world.broker.address},{second.address}", tls=world.tls(inside=False)) as process,
        connect(process.bootstrap) as client,
    ):
        client.sendall(ASKED)
        world.broker.accept().close()
        broker = world.keep(TlsPeer(second.accept(), server_context(world.certificate), server=True))
        assert broker.exactly(len(ASKED)) == ASKED
        broker.send(ANSWERED)
        assert exactly(client, len(ANSWERED)) == ANSWERED
        broker.socket.close()
    second.close()


def test_clients_that_do_not_finish_the_handshake_count_as_connections(world: World) -> None:
    with relay(world.broker.address, tls=world.tls(), max_connections=3) as process, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(process.bootstrap)) for _ in range(6)]
        for one in silent[3:]:
            with pytest.raises(ConnectionResetError):
                one.recv(1)
        hears(process, "clients are refused: 3 connections are open (--max-connections 3)")
        assert process.command("status")["connections_refused"] == 3
        silent[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert wait_until(lambda: failed(process)["clients_failed"] == 1, SECONDS)
        client = world.client(process)  # it gets the room of the one that has gone
        client.send(ASKED)
        broker = world.server()
        assert broker.exactly(len(ASKED)) == ASKED
        client.socket.close()


# --- what does not start ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"in_certificate": "/nowhere.pem"}, "cannot read /nowhere.pem: No such file"),
        ({"in_certificate": "{ca}"}, "no certificate and key as PEM"),
        ({"in_certificate": "{cert},{other}"}, "the key belongs to another certificate"),
        ({"in_certificate": "{cert},{locked}"}, "is encrypted: give --tls-password-env"),
        ({"in_certificate": "{cert},{locked}", "password_env": "UNSET"}, "no variable UNSET"),
        ({"in_certificate": "{locked_cert},{locked}", "password_env": "WRONG"}, "the key's password is wrong"),
        ({"out": True, "out_ca": "{key}"}, "no CA certificates as PEM"),
        ({"out": True, "out_name": ".example"}, "--tls-out-name '.example' cannot be a server name"),
        ({"in_certificate": "auto", "keylog": "/nowhere/keys"}, "cannot write the key log /nowhere/keys"),
        ({"in_certificate": "auto", "keylog": "{key}"}, "exists and is not a key log: name another file"),
    ],
)
def test_what_cannot_work_is_said_at_the_start(
    world: World, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv("WRONG", "wrong")
    locked = world.ca.leaf("locked", password=b"secret")
    names = {
        "ca": world.ca.path, "cert": world.certificate[0], "key": world.certificate[1],
        "other": world.ca.leaf("other")[1], "locked": locked[1], "locked_cert": locked[0],
    }  # fmt: skip
    filled: dict[str, Any] = {
        key: value.format(**names) if isinstance(value, str) else value for key, value in settings.items()
    }  # fmt: skip
    with pytest.raises(StartError) as raised, relay(world.broker.address, tls=TlsSettings(**filled)):
        pass
    assert words in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_broken_ca_is_said_at_the_start(world: World) -> None:
    path = world.own_ca.with_name("ca-key.pem")
    path.write_text("nothing")
    with pytest.raises(StartError, match="kproxy ca --renew"), relay(world.broker.address, tls=world.tls()):
        pass


def test_probing_says_what_is_wrong_with_the_upstream(world: World) -> None:
    """The relay asks by itself whether its upstream speaks what it was told to."""

    def plain(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            asked = connection.recv(4096)
            if asked[4:6] == b"\0\x12":
                connection.sendall(b"\0\0\0\x0a" + asked[8:12] + bytes(6))

    stopped = threading.Event()

    def serve() -> None:
        while True:
            connection = world.broker.accept()
            if stopped.is_set():
                connection.close()
                return
            plain(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    with relay(world.broker.address, tls=world.tls(inside=False), probe=True) as process:
        hears(process, "speaks plaintext Kafka, not TLS: leave out --tls-out")
    stopped.set()
    connect(world.broker.address).close()
    thread.join()


def test_the_certificate_names_are_those_of_x509(world: World) -> None:
    pem = Authority.open(default_directory()).mint(["broker.example", "10.0.0.7", "::1", "bücher.example", ""])
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["broker.example", "xn--bcher-kva.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7", "::1"]
    assert world.own_ca.name == CA_PEM
