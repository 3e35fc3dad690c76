# The package marks none of its admin names as exported.
# mypy: disable-error-code="attr-defined"
"""Every mode between real clients and a real cluster, beside the same clients without a proxy, at the same time.

Three machines stand in a row: clients, a gateway that routes and where kproxy runs, and three brokers. Other clients
do the same from a machine of their own that reaches the brokers directly; a broker is killed under all of them at once.
What these meet, those may; what these send and read, those must. So no clock and no load decides.
"""

from __future__ import annotations

import contextlib
import re
import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.brokers import Cluster, cluster
from tests.support.namespaces import Machine, join, machines, require_namespaces, routed
from tests.support.proxy import export, kproxy
from tests.support.relay import Relay, eventually
from tests.support.require import require
from tests.support.workload import CHANCE, CLIENTS, CONNECTION, RELEASE, STAGE_SECONDS, Program, Watch
from tests.system.clients.workload import CODECS, Access, Record
from tests.system.test_run_real_brokers import check_recording

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

CLIENT, GATEWAY, UPSTREAM, HOST, DIRECT = "10.9.1.1", "10.9.1.2", "10.9.2.1", "10.9.2.2", "10.9.3.1"
LISTEN = f"{GATEWAY}:19092"
USER, PASSWORD = "somebody", "something-secret"

# What the workload is made of, as a recording must show it.
APIS = {
    *("CreateTopics", "DeleteTopics", "AlterPartitionReassignments", "ElectLeaders"),
    *("Produce", "Fetch", "InitProducerId", "TxnOffsetCommit", "EndTxn"),
    *("JoinGroup", "LeaveGroup", "OffsetCommit", "ConsumerGroupHeartbeat"),
    *("ShareGroupHeartbeat", "ShareFetch", "ShareGroupDescribe"),
}


@dataclass(frozen=True)
class Mode:
    protocol: str
    killed: int
    """The broker that is killed."""
    transparent: str | None = None


MODES = {
    "reverse": Mode("PLAINTEXT", 1),
    "redirect": Mode("PLAINTEXT", 2, "redirect"),
    "tproxy": Mode("PLAINTEXT", 3, "tproxy"),
    "tls": Mode("SSL", 1),
    "sasl": Mode("SASL_SSL", 2),
}


@dataclass
class Land:
    """`clients` reach `host`, where the brokers are, by `gateway` only; `beside` reaches it without."""

    clients: Machine
    gateway: Machine
    host: Machine
    beside: Machine
    brokers: Cluster
    admin: AdminClient

    def forwarded(self) -> int:
        """Connections that clients opened past the proxy since the last `forget`."""
        rules = self.gateway.run("iptables", "-nvxL", "FORWARD")
        (packets,) = re.findall(r"^ *(\d+) .*10\.9\.1\.1", rules, re.MULTILINE)
        return int(packets)

    def forget(self) -> None:
        self.gateway.run("iptables", "-Z", "FORWARD")

    def whole(self) -> bool:
        """All brokers are there, and have all that they are to have."""
        metadata = self.admin.list_topics(timeout=30)
        partitions = [one for topic in metadata.topics.values() for one in topic.partitions.values()]
        return len(metadata.brokers) == 3 and all(set(one.isrs) == set(one.replicas) for one in partitions)


def settings(_node: int) -> dict[str, object]:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    # librdkafka gives a heartbeat up, and says so, after twice its interval: that must bear a machine that is busy.
    heartbeats = {"consumer": 2000, "share": 500}
    return {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
        "broker.session.timeout.ms": 6000,
        "min.insync.replicas": 2,
        "auto.create.topics.enable": False,
        **{f"group.{kind}.min.heartbeat.interval.ms": interval for kind, interval in heartbeats.items()},
        **{f"group.{kind}.heartbeat.interval.ms": interval for kind, interval in heartbeats.items()},
    }


@pytest.fixture(scope="module")
def land() -> Iterator[Land]:
    require_namespaces()
    require("iptables", "ip6tables", "ss")
    with routed() as (clients, gateway, host), machines(1) as (beside,):
        join(3, beside, host)
        beside.run("ip", "route", "add", "10.9.2.0/24", "via", "10.9.3.2")
        gateway.run("iptables", "-A", "FORWARD", "-p", "tcp", "--syn", "-s", CLIENT)
        protocols = sorted({mode.protocol for mode in MODES.values()}, key="PLAINTEXT".__ne__)
        with contextlib.ExitStack() as stack:
            with host.inside():
                running = cluster(RELEASE, 3, settings, protocols=protocols, host=HOST)
                brokers = stack.enter_context(running)
                admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
            credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            user = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([user]).values():
                future.result(60)
            yield Land(clients, gateway, host, beside, brokers, admin)


@contextlib.contextmanager
def proxied(land: Land, mode: Mode, directory: Path) -> Iterator[tuple[Relay, Access]]:
    """A proxy of a mode, and how clients reach it."""
    addresses = land.brokers.addresses(mode.protocol)
    direct = access(land, mode.protocol)
    if mode.transparent:
        ports = ",".join(address.rpartition(":")[2] for address in addresses)
        options = ["--transparent", mode.transparent, "--ports", ports, "--setup"]
    else:
        options = ["--upstream", ",".join(addresses), "--listen", LISTEN]
        direct = replace(direct, bootstrap=LISTEN)
    if direct.encrypted:
        ca = directory / "kproxy-ca.pem"
        assert kproxy(directory, "ca", "--export", ca).returncode == 0
        options += ["--tls-in", "auto", "--tls-out", "--tls-out-ca", direct.ca]
        if direct.certificate:
            options += ["--tls-in-ca", direct.ca, "--tls-out-cert", f"{direct.certificate},{direct.key}"]
        direct = replace(direct, ca=str(ca))
    with Relay(land.gateway, directory, *options, "--no-lines") as relay:
        yield relay, direct


def access(land: Land, protocol: str) -> Access:
    """How brokers are reached without a proxy."""
    plain = Access(",".join(land.brokers.addresses(protocol)), protocol)
    if not plain.encrypted:
        return plain
    assert land.brokers.ca is not None
    plain = replace(plain, ca=str(land.brokers.ca.path))
    if plain.authenticated:
        return replace(plain, user=USER, password=PASSWORD)
    certificate, key = land.brokers.ca.leaf("client")
    return replace(plain, certificate=str(certificate), key=str(key))


@pytest.mark.parametrize("name", MODES)
def test_nobody_notices_and_nothing_gets_past(
    land: Land, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mode = MODES[name]
    addresses = land.brokers.addresses(mode.protocol)
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        # The way past the proxy is open, and whoever takes it is noticed.
        land.forget()
        land.clients.connect(HOST, land.brokers.ports[0]).close()
        assert land.forwarded() == 1
        land.forget()
        eventually(lambda: not land.clients.run("ss", "-Htn"), "what was connected before is gone", STAGE_SECONDS)
        relay, through = stack.enter_context(proxied(land, mode, tmp_path / "proxy"))
        watch = stack.enter_context(Watch([land.clients, land.host]))
        ways = ((land.clients, through, "proxied"), (land.beside, access(land, mode.protocol), "direct"))
        pairs = [
            [
                stack.enter_context(Program(client, machine, reached, f"{name}-{client}-{way}", tmp_path))
                for machine, reached, way in ways
            ]
            for client in CLIENTS
        ]
        workload(land, mode.killed, [program for pair in pairs for program in pair])
        assert land.forwarded() == 0
        relay.stop()
    worked = time.monotonic() - started
    assert watch.peers(land.clients) == {HOST if mode.transparent else GATEWAY}
    assert watch.peers(land.host, addresses) - {HOST} == {UPSTREAM, DIRECT}
    for pair in pairs:
        check_complaints(*pair)
        check_ledgers(*pair)
    lines = export(relay.recording, tmp_path)
    check_recording(lines, addresses, killed=addresses[mode.killed - 1])
    check_recorded_records([through for through, _ in pairs], lines)
    apis = {line.get("api") for line in lines}
    assert apis >= APIS | ({"SaslAuthenticate"} if through.authenticated else set()), APIS - apis
    with capsys.disabled():
        print(f"\n{name}: {len(lines) - 1} exchanges of {len(apis)} APIs in {worked:.0f} s, ", end="")
        print(f"checked after {time.monotonic() - started:.0f} s")


def workload(land: Land, killed: int, programs: list[Program]) -> None:
    """From the beginning to the end of all programs; a broker is killed in the midst, and starts again."""

    def all_go_on(said: str, word: str) -> None:
        for program in programs:
            program.expect(said)
        for program in programs:
            program.tell(word)

    all_go_on("steady", "outage")
    # A client that waits for the CPU would log the broker's end before the word.
    eventually(
        lambda: all(program.has_heard("outage") for program in programs), "all know of the outage", STAGE_SECONDS
    )
    land.brokers.stop_node(killed)
    try:
        for program in programs:
            program.expect("survived")
    finally:  # the modes after this one need it
        with land.host.inside():
            land.brokers.start_node(killed)
        eventually(land.whole, "the broker is back", STAGE_SECONDS)
    for program in programs:
        program.tell("whole")
    all_go_on("done", "end")
    for program in programs:
        program.await_end()


def check_complaints(proxied: Program, direct: Program) -> None:
    """What is logged is logged without a proxy too; connections fail only once a broker was killed.

    A client that waits for a word hears of a connection's end behind it.
    """
    known = set().union(*direct.complaints().values()) - {CONNECTION}
    for stage, kinds in proxied.complaints().items():
        allowed = {CHANCE, *known, *([CONNECTION] if stage in {"outage", "whole"} else [])}
        assert kinds.keys() <= allowed, f"{proxied.name} complains ({stage}): {kinds.keys() - allowed}"


def check_ledgers(proxied: Program, direct: Program) -> None:
    """Whoever read a topic read what was sent to it; through the proxy as beside it."""
    assert proxied.ledger == direct.ledger
    assert any(what.startswith("read assigned") for what in proxied.ledger)
    for what, digests in proxied.ledger.items():
        verb, *_, topic = what.split()
        if verb == "read":
            assert digests == proxied.ledger[f"sent {topic}"], f"{proxied.name}: {what}"


def check_recorded_records(programs: list[Program], lines: list[dict[str, Any]]) -> None:
    """The recording has every record that was sent, of every codec, and every one that was read."""
    seen: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    codecs: defaultdict[str, set[str]] = defaultdict(set)
    for api, topic, partition, batch in recorded_batches(lines):
        (name,) = (one.name for one in programs if topic.startswith(one.name))
        short = topic.removeprefix(f"{name}-")
        codecs[name].add(batch["compression"])
        for one in batch["records"]:
            headers = tuple((header["key"], content(header["value"])) for header in one["headers"])
            record = Record(short, partition, content(one["key"]), content(one["value"]), headers)
            seen[name, "sent" if api == "Produce" else "read"].add(record.digest())
    for program in programs:
        noted: defaultdict[str, set[str]] = defaultdict(set)
        for what, digests in program.ledger.items():
            noted[what.split()[0]] |= digests.keys()
        assert seen[program.name, "sent"] == noted["sent"] | noted["aborted"], program.name
        # Readers get what was aborted as well, and drop it themselves.
        assert noted["read"] <= seen[program.name, "read"] <= noted["sent"] | noted["aborted"], program.name
        assert codecs[program.name] == set(CODECS), program.name


def recorded_batches(lines: list[dict[str, Any]]) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """API, topic, partition and batch of all that was produced and fetched, without control batches."""
    for line in lines:
        side = {"Produce": "request", "Fetch": "response", "ShareFetch": "response"}.get(line.get("api", ""))
        body = ((side and line[side]) or {}).get("body") or {}
        for topic in body.get("topicData") or body.get("responses") or []:
            for partition in topic.get("partitionData") or topic.get("partitions") or []:
                for batch in (partition.get("records") or {}).get("batches", []):
                    if not batch["isControl"]:
                        name = topic.get("name") or topic.get("topic") or line["topics"][topic["topicId"]]
                        yield line["api"], name, partition.get("index", partition.get("partitionIndex")), batch


def content(shown: str | dict[str, str] | None) -> bytes | None:
    if isinstance(shown, dict):
        return b64decode(shown["base64"])
    return None if shown is None else shown.encode()
