"""SASL on behalf of clients whose connections to a real broker are taken: they are told nothing and know no SASL."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support import sasl
from tests.support.namespaces import Machine, require_namespaces, routed
from tests.support.proxy import export, kproxy
from tests.support.relay import Relay
from tests.support.require import require
from tests.support.sasl import BRIEF, ENCRYPTED, OPEN, SaslCluster
from tests.support.workload import Watch
from tests.system.test_run_real_brokers import CLIENT_SECONDS, Client, command
from tests.system.test_sasl import client_settings, no_secrets, sessions, unread

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

CLIENT, GATEWAY, HOST = "10.9.1.1", "10.9.2.1", "10.9.2.2"


@dataclass
class Net:
    """kproxy runs on the gateway between the clients and the host of the brokers."""

    clients: Machine
    gateway: Machine
    host: Machine
    brokers: SaslCluster


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    require_namespaces()
    require("iptables", "ip6tables")
    with contextlib.ExitStack() as until:
        clients, gateway, host = until.enter_context(routed())
        with host.inside():
            brokers = until.enter_context(SaslCluster(1, tmp_path_factory.mktemp("sasl"), HOST))
            brokers.add_users()
        yield Net(clients, gateway, host, brokers)


def taking(net: Net, mode: str, listener: str, mechanism: str, directory: Path, *options: str) -> Relay:
    """A relay on the gateway that takes connections to a listener and authenticates."""
    directory.mkdir()
    login = sasl.credentials(directory, mechanism)
    port = net.brokers.bootstrap_of(listener).rpartition(":")[2]
    by = ("--sasl", mechanism.lower(), "--sasl-credentials", str(login))
    return Relay(net.gateway, directory, "--transparent", mode, "--ports", port, "--setup", *by, *options)


def check_recording(relay: Relay, broker: str, mechanism: str) -> None:
    """The client's own addresses, the broker's, and on each connection an authentication before anything else."""
    lines = export(relay.recording, relay.directory)
    unread(lines)
    exchanges = [line for line in lines if "broker" in line]
    assert {line["broker"] for line in exchanges} == {broker}
    assert {line["client"].partition(":")[0] for line in exchanges} == {CLIENT}
    found = sessions(lines)
    assert {session["mechanism"] for session in found.values()} == {mechanism}
    carried = {line["connection"] for line in lines if line.get("api") in {"Produce", "Fetch"}}
    assert carried
    assert {found[one]["state"] for one in carried} == {"authenticated"}
    for one in carried:
        first = next(line for line in exchanges if line["connection"] == one)
        assert (first["api"], first["client_id"]) == ("ApiVersions", "kproxy")
    no_secrets(relay.recording)


@pytest.mark.parametrize(
    ("mode", "client", "listener", "mechanism"),
    [
        ("redirect", "librdkafka", BRIEF, "SCRAM-SHA-512"),
        ("tproxy", "aio", OPEN, "PLAIN"),
        ("tproxy", "Client", OPEN, "OAUTHBEARER"),
    ],
)
def test_clients_that_know_no_sasl(
    net: Net, mode: str, client: str, listener: str, mechanism: str, tmp_path: Path
) -> None:
    address = net.brokers.bootstrap_of(listener)
    with taking(net, mode, listener, mechanism, tmp_path / "relay") as relay, Watch([net.host]) as watch:
        arguments = command(client, net.brokers, address, f"{client}-{mode}")
        Client([*net.clients.enter, *arguments], tmp_path).run(CLIENT_SECONDS)
        relay.stop()
    assert watch.peers(net.host, [address]) == {GATEWAY}
    assert "every client whose connections are redirected acts on the cluster as kproxy's user" in relay.text
    check_recording(relay, address, mechanism)


@pytest.mark.parametrize(
    ("mode", "client"), [("redirect", "librdkafka"), ("redirect", "pure"), ("tproxy", "librdkafka")]
)
def test_clients_in_tls_that_know_no_sasl(net: Net, mode: str, client: str, tmp_path: Path) -> None:
    """They verify that kproxy's certificate is of the broker's address, as which they know it."""
    directory = tmp_path / "relay"
    address = net.brokers.bootstrap_of(ENCRYPTED)
    tls = ("--tls-in", "auto", "--tls-out", "--tls-out-ca", str(net.brokers.own_ca.path))
    with taking(net, mode, ENCRYPTED, "SCRAM-SHA-256", directory, *tls) as relay:
        ca = directory / "exported.pem"
        assert kproxy(directory, "ca", "--export", ca).returncode == 0
        secure = [sys.executable, "-m", "tests.system.clients.secure", client, address, f"tls-{client}-{mode}", str(ca)]
        Client([*net.clients.enter, *secure], tmp_path).run(CLIENT_SECONDS)
        relay.stop()
    check_recording(relay, address, "SCRAM-SHA-256")


def refused(net: Net, settings: dict[str, Any]) -> None:
    """A client with these settings gets no answer."""
    with net.clients.inside():
        admin = AdminClient({"log_level": 0, **settings})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)


def test_a_client_that_authenticates_itself_is_told(net: Net, tmp_path: Path) -> None:
    address = net.brokers.bootstrap_of(OPEN)
    with taking(net, "redirect", OPEN, "SCRAM-SHA-256", tmp_path / "relay") as relay:
        refused(net, client_settings(address, "PLAIN"))
        relay.await_word(f"client {CLIENT} wants to authenticate by SASL, which kproxy does for it")
        relay.stop()
    assert sessions(export(relay.recording, tmp_path))
    no_secrets(relay.recording)


def test_tls_that_nobody_ends_is_named(net: Net, tmp_path: Path) -> None:
    """kproxy can say nothing within a client's own TLS."""
    address = net.brokers.bootstrap_of(ENCRYPTED)
    with taking(net, "redirect", ENCRYPTED, "SCRAM-SHA-256", tmp_path / "relay") as relay:
        refused(net, {"bootstrap.servers": address, "security.protocol": "ssl"})
        relay.await_word(f"upstream {address} speaks TLS, not Kafka's plain protocol")
        relay.stop()
