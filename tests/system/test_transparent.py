"""Transparent mode between machines of the test's own: a client, a gateway and a broker, on IPv4 and IPv6."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from kproxy.decoders.writer import write
from tests.kproxy.core.frames import DEFINITIONS, request, response
from tests.kproxy.support import exactly
from tests.support.namespaces import Machine, require_namespaces, routed
from tests.support.patience import SECONDS
from tests.support.proxy import environment, export
from tests.support.relay import COMMAND, Relay, eventually
from tests.support.require import require

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
BROKER_PORT, RELAY_PORT = 9092, 19092
CLIENT = {4: "10.9.1.1", 6: "fd09:1::1"}
BROKER = {4: "10.9.2.2", 6: "fd09:2::2"}
METADATA, HEARTBEAT = 3, 12
FAMILIES = pytest.mark.parametrize("family", [4, 6])
UNPRIVILEGED = ("setpriv", "--bounding-set", "-net_admin,-net_raw", "--inh-caps", "-net_admin,-net_raw")


class Broker:
    """Answers Metadata with its own address, and everything else with the same bytes; remembers who came."""

    def __init__(self, machine: Machine, host: str) -> None:
        self.host = host
        self.peers: list[tuple[str, int]] = []
        self._listener = machine.listen(host, BROKER_PORT)
        self._sides: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def metadata(self, correlation_id: int) -> bytes:
        node = {"nodeId": 1, "host": self.host, "port": BROKER_PORT}
        return response(METADATA, 1, correlation_id, {"brokers": [node], "controllerId": 1, "topics": []})

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                side, peer = self._listener.accept()
                self.peers.append(peer[:2])
                self._sides.append(side)
                threading.Thread(target=self._serve, args=(side,), daemon=True).start()

    def _serve(self, side: socket.socket) -> None:
        with contextlib.suppress(OSError), side:
            while len(head := exactly(side, 4)) == 4:
                frame = exactly(side, int.from_bytes(head, "big"))
                if frame[:2] == METADATA.to_bytes(2, "big"):
                    side.sendall(self.metadata(int.from_bytes(frame[4:8], "big")))
                else:
                    side.sendall(head + frame)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._sides):
            one.close()


@dataclass
class Net:
    client: Machine
    gateway: Machine
    host: Machine
    brokers: dict[int, Broker]


@pytest.fixture
def net() -> Iterator[Net]:
    require_namespaces()
    require("iptables", "ip6tables")
    with routed() as (client, gateway, host):
        brokers = {family: Broker(host, address) for family, address in BROKER.items()}
        try:
            yield Net(client, gateway, host, brokers)
        finally:
            for broker in brokers.values():
                broker.close()


def rules_of(machine: Machine) -> list[str]:
    """What a relay has installed, as the kernel shows it."""
    lines = []
    for tables in ("iptables", "ip6tables"):
        for table in ("nat", "mangle"):
            lines += [line for line in machine.run(tables, "-t", table, "-S").splitlines() if "KPROXY" in line]
    for ip in ("-4", "-6"):
        lines += [line for line in machine.run("ip", ip, "rule").splitlines() if "fwmark" in line]
        lines += [
            line for line in machine.run("ip", ip, "route", "show", "table", "all").splitlines()
            if re.search(r"default dev lo table", line)
        ]  # fmt: skip
    return lines


def heartbeat(correlation_id: int, size: int) -> bytes:
    body = random.Random(size).randbytes(size)
    frame = HEARTBEAT.to_bytes(2, "big") + bytes(2) + correlation_id.to_bytes(4, "big") + b"\xff\xff" + body
    return len(frame).to_bytes(4, "big") + frame


def talk(net: Net, machine: Machine, family: int) -> tuple[str, int]:
    """A client's dialogue with the broker, which must be what it is without a proxy; returns the client's address."""
    broker = net.brokers[family]
    message = DEFINITIONS.request(METADATA, 1)
    assert message is not None
    with machine.connect(broker.host, BROKER_PORT) as client:
        assert client.getpeername()[:2] == (broker.host, BROKER_PORT)
        client.sendall(request(METADATA, 1, 7, write(message, 1, {"topics": None})))
        answer = broker.metadata(7)
        assert exactly(client, len(answer)) == answer
        long = heartbeat(8, 3_000_000)
        sender = threading.Thread(target=client.sendall, args=(long,))
        sender.start()
        assert exactly(client, len(long)) == long
        sender.join()
        host, port = client.getsockname()[:2]
        return str(host), int(port)


def recorded(relay: Relay) -> list[tuple[str, str]]:
    """(client, broker) of every Metadata exchange in the recording."""
    lines = export(relay.recording, relay.directory)
    return [(line["client"], line["broker"]) for line in lines if line.get("api") == "Metadata"]


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# Who asks, where the relay runs, how.
PLACES = {
    "redirect on the gateway": ("client", "gateway", ("redirect",)),
    "tproxy on the gateway": ("client", "gateway", ("tproxy",)),
    "redirect on the client's machine": ("client", "client", ("redirect", "--clients", "local")),
    "redirect on the broker's machine": ("client", "host", ("redirect", "--clients", "remote")),
    "tproxy on the broker's machine": ("client", "host", ("tproxy",)),
    "redirect where client and broker are": ("host", "host", ("redirect",)),
}


@pytest.mark.parametrize("place", PLACES)
def test_clients_notice_nothing(net: Net, tmp_path: Path, place: str) -> None:
    asks, runs, (mode, *options) = PLACES[place]
    client, machine = getattr(net, asks), getattr(net, runs)
    before = {family: client.connect(BROKER[family], BROKER_PORT) for family in BROKER}
    with Relay(machine, tmp_path / "relay", "--transparent", mode, *options, "--setup") as relay:
        assert rules_of(machine)
        addresses = [(talk(net, client, family), family) for family in (4, 6, 4, 6)]
        for family, old in before.items():
            with old:  # was open before, and stays past the relay
                old.sendall(heartbeat(1, 10))
                assert exactly(old, 24) == heartbeat(1, 10), f"IPv{family}"
        relay.stop()
        assert rules_of(machine) == []
        assert recorded(relay) == [(shown(*address), shown(BROKER[family], 9092)) for address, family in addresses]
    for family in BROKER:
        talk(net, client, family)


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_rules_go_with_a_killed_relay(net: Net, tmp_path: Path, mode: str) -> None:
    with Relay(net.gateway, tmp_path / "relay", "--transparent", mode, "--setup") as relay:
        talk(net, net.client, 4)
        guardian, killed = relay.guardian, relay.relay
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            guardian.send_signal(number)
        relay.process.kill()
        killed.kill()
        eventually(lambda: not rules_of(net.gateway), "the rules go")
        eventually(lambda: not guardian.is_running() or guardian.status() == psutil.STATUS_ZOMBIE, "the guardian ends")
        for family in BROKER:
            talk(net, net.client, family)
            assert net.brokers[family].peers[-1][0] == CLIENT[family]


def test_another_guardian_takes_a_killed_one_s_place(net: Net, tmp_path: Path) -> None:
    with Relay(net.gateway, tmp_path / "relay", "--transparent", "redirect", "--setup") as relay:
        first = relay.guardian
        first.kill()
        relay.await_word("kproxy starts another one")
        eventually(lambda: relay.guardian.pid != first.pid, "there is another")
        talk(net, net.client, 6)
        relay.relay.kill()
        eventually(lambda: not rules_of(net.gateway), "the rules go")


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_what_everybody_killed_left_is_removed_by_the_next(net: Net, tmp_path: Path, mode: str) -> None:
    with Relay(net.gateway, tmp_path / "first", "--transparent", mode, "--setup", "--listen", "19000") as first:
        relay, guardian = first.relay, first.guardian
        relay.suspend()  # it could start another guardian
        guardian.kill()
        relay.kill()
        first.process.wait(SECONDS)
        assert rules_of(net.gateway)
    with Relay(net.gateway, tmp_path / "alive", "--transparent", "redirect", "--setup", "--ports", "9999") as alive:
        alive.await_word("removed the iptables rules of port 19000, which a killed relay had left")
        assert not [line for line in rules_of(net.gateway) if "19000" in line]
        with Relay(net.gateway, tmp_path / "next", "--transparent", mode, "--setup", "--listen", "19001") as another:
            assert "dead relay" not in another.text
            assert [line for line in rules_of(net.gateway) if "KPROXY_19092" in line]
            talk(net, net.client, 4)
            another.stop()
            assert len(recorded(another)) == 1
        assert {name for line in rules_of(net.gateway) for name in re.findall(r"KPROXY_\d+", line)} == {"KPROXY_19092"}


@pytest.mark.parametrize(
    ("options", "before"),
    [(("redirect",), ()), (("tproxy",), ()), (("redirect", "--clients", "remote"), UNPRIVILEGED)],
    ids=["redirect", "tproxy", "redirect without privileges"],
)
def test_printed_rules_do_the_same(net: Net, tmp_path: Path, options: tuple[str, ...], before: tuple[str, ...]) -> None:
    rules = net.gateway.run(*COMMAND, "--transparent", *options, "--print-rules")
    net.gateway.run("sh", "-ec", rules)
    with Relay(net.gateway, tmp_path / "relay", "--transparent", *options, before=before) as relay:
        for family in BROKER:
            talk(net, net.client, family)
        relay.stop()
        assert [broker for _, broker in recorded(relay)] == [shown(host, BROKER_PORT) for host in BROKER.values()]
    _, _, removal = rules.partition("# To remove them:\n")
    net.gateway.run("sh", "-ec", removal.replace("# ", ""))
    assert rules_of(net.gateway) == []


@FAMILIES
def test_who_connects_to_the_relay_itself_is_refused(net: Net, tmp_path: Path, family: int) -> None:
    gateway = {4: "10.9.1.2", 6: "fd09:1::2"}[family]
    for mode in ("redirect", "tproxy"):
        with Relay(net.gateway, tmp_path / mode, "--transparent", mode, "--setup") as relay:
            with pytest.raises(ConnectionResetError), net.client.connect(gateway, RELAY_PORT) as client:
                client.recv(1)
            relay.await_word("in transparent mode clients connect to their brokers")
            relay.stop()


@FAMILIES
def test_a_loop_is_broken(net: Net, tmp_path: Path, family: int) -> None:
    """Rules without the exception for our own mark lead the relay's connection back to it."""
    rules = net.client.run(*COMMAND, "--transparent", "redirect", "--clients", "local", "--print-rules")
    net.client.run("sh", "-ec", "\n".join(line for line in rules.splitlines() if "RETURN" not in line))
    with Relay(net.client, tmp_path / "relay", "--transparent", "redirect", "--clients", "local") as relay:
        with pytest.raises(ConnectionResetError), net.client.connect(BROKER[family], BROKER_PORT) as client:
            client.recv(1)
        relay.await_word("which was redirected to the relay")
        relay.stop()
    assert not net.brokers[family].peers


def test_a_broker_that_refuses_is_recorded_and_named(net: Net, tmp_path: Path) -> None:
    net.brokers.pop(4).close()
    with Relay(net.gateway, tmp_path / "relay", "--transparent", "redirect", "--setup") as relay:
        with pytest.raises(ConnectionResetError), net.client.connect(BROKER[4], BROKER_PORT) as client:
            client.recv(1)
        relay.await_word("upstream 10.9.2.2:9092 refused the connection")
        relay.stop()
    assert b", on its way to 10.9.2.2:9092" in relay.recording.read_bytes()


def unprivileged(machine: Machine, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*machine.enter, *UNPRIVILEGED, *COMMAND, *arguments],
        env=environment(directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("redirect", "--setup"), "installing rules needs CAP_NET_ADMIN: run as root, or"),
        (("redirect",), "CAP_NET_ADMIN"),
    ],
)
def test_what_privilege_is_missing(net: Net, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    run = unprivileged(net.gateway, tmp_path, "--transparent", *arguments)
    assert run.returncode == 5, run.stderr
    assert says in run.stderr
    assert rules_of(net.gateway) == []


@pytest.mark.usefixtures("net")
def test_a_missing_program_is_named(tmp_path: Path) -> None:
    """A machine without iptables: its programs are hidden behind an empty directory."""
    script = 'mount -t tmpfs none /usr/sbin && mount -t tmpfs none /sbin && exec "$@"'
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *COMMAND, "--transparent", "redirect", "--setup"],
        env={**environment(tmp_path), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 5, run.stderr
    assert "iptables and ip6tables not found: install iptables" in run.stderr


def test_a_librdkafka_client_notices_nothing(net: Net, tmp_path: Path) -> None:
    """Three brokers and a client on one machine, all on loopback."""
    program = subprocess.Popen(
        [*net.host.enter, sys.executable, "-m", "tests.system.clients.mocked"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    with program:
        try:
            ports = program.stdout.readline().split()
            options = ("--clients", "local", "--ports", ",".join(ports), "--setup")
            with Relay(net.host, tmp_path / "relay", "--transparent", "redirect", *options) as relay:
                program.stdin.write("\n")
                program.stdin.flush()
                assert program.stdout.readline() == "done\n"
                assert program.wait(SECONDS) == 0
                relay.stop()
        finally:
            program.kill()
    lines = export(relay.recording, relay.directory)
    sent = [line for line in lines if line.get("api") == "Produce"]
    # The client needs those brokers that lead something.
    assert {line["broker"].rpartition(":")[2] for line in lines if "broker" in line} <= set(ports)
    assert sum(batch for line in sent for batch in records_in(line)) == 500


def records_in(produce: dict[str, Any]) -> Iterator[int]:
    for topic in produce["request"]["body"]["topicData"]:
        for partition in topic["partitionData"]:
            yield from (batch["recordCount"] for batch in partition["records"]["batches"])


def link_local(machine: Machine, interface: str) -> str:
    """An interface's own address, once it can be used."""
    show = ("ip", "-6", "-o", "addr", "show", "dev", interface, "scope", "link", "-tentative")
    eventually(lambda: machine.run(*show), f"{interface} has an address")
    return machine.run(*show).split()[3].partition("/")[0]


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_link_local_addresses_keep_their_zone(net: Net, tmp_path: Path, mode: str) -> None:
    """A broker on the gateway, which its neighbour reaches by an address that means nothing without the interface."""
    link_local(net.client, "to-right-1")
    host = link_local(net.gateway, "to-left-1")
    broker = Broker(net.gateway, f"{host}%to-left-1")
    try:
        with Relay(net.gateway, tmp_path / "relay", "--transparent", mode, "--clients", "remote", "--setup") as relay:
            with net.client.connect(f"{host}%to-right-1", BROKER_PORT) as client:
                client.sendall(heartbeat(1, 100))
                assert exactly(client, 114) == heartbeat(1, 100)
            relay.stop()
        lines = export(relay.recording, relay.directory)
        assert {line["broker"] for line in lines if "broker" in line} == {shown(host, BROKER_PORT)}
    finally:
        broker.close()
