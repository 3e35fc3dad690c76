"""`kproxy run --fault` between librdkafka's clients and its mock cluster, whose log says what the broker has done."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.runs.launcher import RelayProcess, wait_until
from kproxy.runs.registry import ask
from kproxy.runs.settings import SaslSettings, TlsSettings
from tests.kproxy.faults.support import answered, asking, beaten, beating
from tests.kproxy.support import connect, exactly, relay
from tests.kproxy.test_onbehalf import LiveBroker
from tests.kproxy.test_run import COMMAND
from tests.support import sasl
from tests.support.patience import SECONDS

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]

QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    from kproxy.runs.demo import start_cluster

    keeper, bootstrap = start_cluster()
    yield bootstrap
    del keeper


def produced(bootstrap: str, topic: str, values: list[str], **settings: Any) -> list[str | None]:
    """Produces one value after the other; returns the error of each, None for success."""
    errors: list[str | None] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **QUIET, **settings})
    with closing(producer):
        for value in values:
            producer.produce(
                topic, value, partition=0, on_delivery=lambda error, _: errors.append(error and error.name())
            )
            assert producer.flush(SECONDS) == 0
    return errors


def log(bootstrap: str, topic: str) -> list[str]:
    """The values in partition 0 of a topic, read without kproxy."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", **QUIET})
    with closing(consumer):
        place = confluent_kafka.TopicPartition(topic, 0)
        _, end = consumer.get_watermark_offsets(place, SECONDS)
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found: list[str] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < end and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value().decode())
        assert len(found) == end
        return found


def faults(process: RelayProcess, op: str = "list", **more: Any) -> dict[str, Any]:
    return ask(process.run_dir, "faults", op=op, **more)


def exchanges(recording: Path) -> list[dict[str, Any]]:
    with closing(read([recording])) as reader:
        return [exchange_json(one, reader.source, reader.definitions) for one in reader if isinstance(one, Exchange)]


@pytest.mark.parametrize("rule", ["api == Produce => slice 1 request", "api == Fetch => limit 200kB/s"])
def test_frames_in_pieces_are_the_same_frames(cluster: str, rule: str) -> None:
    topic = f"pieces-{len(rule)}"
    with relay(cluster, faults=(rule,)) as live:
        assert produced(live.bootstrap, topic, ["a" * 2000, "b"]) == [None, None]
        assert log(live.bootstrap, topic) == ["a" * 2000, "b"]
        (row,) = faults(live)["rules"]
        assert row["hits"]
        assert not row["held"]


def test_not_applied_leaves_nothing_in_the_log(cluster: str, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    rule = "api == Produce and topic == none => error INVALID_RECORD not applied"
    with relay(cluster, record_to=recording, faults=(rule,)) as process:
        assert produced(process.bootstrap, "none", ["a", "b"]) == ["INVALID_RECORD"] * 2
        assert [one["hits"] for one in faults(process)["rules"]] == [2]
    produced(cluster, "none", ["witness"])
    assert log(cluster, "none") == ["witness"]
    own = [one for one in exchanges(recording) if one["api"] == "Produce"]
    assert [one["status"] for one in own] == ["ok", "ok"]
    answers = [one["response"]["body"]["responses"][0]["partitionResponses"][0]["errorCode"] for one in own]
    assert answers == [87, 87]
    assert "not applied" in json.dumps(own[0])


def test_applied_leaves_exactly_one_copy_in_the_log(cluster: str) -> None:
    rule = "api == Produce => error INVALID_RECORD applied, nth 1"
    with relay(cluster, faults=(rule,)) as process:
        assert produced(process.bootstrap, "one", ["a", "b"]) == ["INVALID_RECORD", None]
    assert log(cluster, "one") == ["a", "b"]


def test_a_lost_answer_makes_a_producer_write_twice(cluster: str) -> None:
    with relay(cluster, faults=("api == Produce => disconnect after, nth 1",)) as process:
        assert produced(process.bootstrap, "twice", ["a"]) == [None]
        assert [one["hits"] for one in faults(process)["rules"]] == [1]
    assert log(cluster, "twice") == ["a", "a"]


@pytest.mark.parametrize("end", ["fin", "fin without close_notify", "rst"])
def test_rules_see_what_is_inside_tls(cluster: str, end: str) -> None:
    topic = f"tls-{end.replace(' ', '-')}"
    rules = (
        f"api == Produce and topic == {topic} => disconnect after {end}, nth 1",
        f"api == Produce and topic == {topic} => error INVALID_RECORD not applied, nth 3",
    )
    secure = {"security.protocol": "ssl", "enable.ssl.certificate.verification": False}
    with relay(cluster, record=False, faults=rules, tls=TlsSettings(in_certificate=TlsSettings.AUTO)) as process:
        assert produced(process.bootstrap, topic, ["a", "b"], **secure) == [None, "INVALID_RECORD"]
    assert log(cluster, topic) == ["a", "a"]


@pytest.mark.parametrize(("end", "clean"), [("fin", True), ("fin without close_notify", False)])
def test_a_tls_client_sees_whether_close_notify_came(end: str, clean: bool) -> None:
    broker = LiveBroker(lifetime_ms=1)
    rules = (f"api == Heartbeat => disconnect before {end}",)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    automatic = TlsSettings(in_certificate=TlsSettings.AUTO)
    with (
        relay(broker.address, record=False, faults=rules, tls=automatic) as it,
        connect(it.bootstrap) as raw,
        context.wrap_socket(raw, suppress_ragged_eofs=False) as client,
    ):
        client.sendall(beating(1))
        if clean:
            assert client.recv(1) == b""
        else:
            with pytest.raises(ssl.SSLEOFError):
                client.recv(1)
    broker.close()


def test_rules_act_behind_authentication_on_the_client_s_behalf(tmp_path: Path) -> None:
    broker = LiveBroker(lifetime_ms=1)
    recording = tmp_path / "recording.pcapng"
    told = SaslSettings("SCRAM-SHA-256", str(sasl.credentials(tmp_path, "SCRAM-SHA-256")))
    asks = [beating(number) for number in range(4)]
    with (
        relay(
            broker.address, record_to=recording, sasl=told, faults=("api == Heartbeat => error 27 not applied",)
        ) as it,
        connect(it.bootstrap) as client,
    ):
        client.sendall(b"".join(asks))
        expected = b"".join(beaten(number, 27) for number in range(4))
        assert exactly(client, len(expected)) == expected
    broker.close()
    found = [one for one in exchanges(recording) if one["api"] == "Heartbeat"]
    assert [one["response"]["body"]["errorCode"] for one in found] == [27] * 4


def test_a_held_produce_is_released(cluster: str) -> None:
    with relay(cluster, faults=("barrier: api == Produce => hold request",)) as process:
        producer = confluent_kafka.Producer({"bootstrap.servers": process.bootstrap, **QUIET})
        with closing(producer):
            producer.produce("held", "a", partition=0)
            producer.poll(0)
            assert wait_until(lambda: faults(process)["rules"][0]["held"] == 1, SECONDS)
            assert len(producer) == 1
            assert faults(process, "release", name="barrier") == {"released": 1}
            assert producer.flush(SECONDS) == 0
    assert log(cluster, "held") == ["a"]


def test_rules_are_managed_over_the_control_socket(cluster: str) -> None:
    with relay(cluster, record=False) as process:
        assert faults(process) == {"rules": []}
        assert "no rules" in faults(process, "remove", name="a")["error"]
        assert "did you mean drop?" in faults(process, "add", rule="api == Fetch => dorp request")["error"]
        rule = "deny: api == Produce => error INVALID_RECORD not applied"
        assert [one["name"] for one in faults(process, "add", rule=rule)["rules"]] == ["deny"]
        assert "already" in faults(process, "add", rule=rule)["error"]
        denied = ["INVALID_RECORD"]
        assert produced(process.bootstrap, "managed", ["a"]) == denied
        faults(process, "pause", name="deny")
        assert produced(process.bootstrap, "managed", ["b"]) == [None]
        faults(process, "resume", name="deny")
        assert produced(process.bootstrap, "managed", ["c"]) == denied
        assert [one["hits"] for one in faults(process)["rules"]] == [2]
        faults(process, "reset")
        assert [one["hits"] for one in faults(process)["rules"]] == [0]
        faults(process, "remove", name="deny")
        assert produced(process.bootstrap, "managed", ["d"]) == [None]
        assert "there is no rule" in faults(process, "release", name="deny")["error"]
    assert log(cluster, "managed") == ["b", "d"]


def test_sighup_reads_the_file_again(cluster: str, tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("- 'a: api == Fetch => swap'\n")

    def names() -> list[str]:
        return [one["name"] for one in faults(process)["rules"]]

    with relay(cluster, record=False, faults_file=str(path)) as process:
        faults(process, "add", rule="added: api == Fetch => swap")
        path.write_text("- 'b: api == Fetch => swap'\n")
        os.kill(process.pid, signal.SIGHUP)
        assert wait_until(lambda: names() == ["b", "added"], SECONDS)
        path.write_text("- api == Fetch => swp\n")
        os.kill(process.pid, signal.SIGHUP)
        assert wait_until(
            lambda: any("faults.yaml:1:3" in one for one in process.command("status")["messages"]), SECONDS
        )
        assert names() == ["b", "added"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [*COMMAND[:-1], *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_a_wrong_rule_ends_run_before_it_listens() -> None:
    ended = run("run", "--upstream", "localhost:1", "--headless", "--fault", "api == Fetch => dorp request")
    assert ended.returncode == 2
    assert "did you mean drop?" in ended.stderr
    assert re.search(r"\n +\^{4}\n", ended.stderr)
    assert "bootstrap.servers" not in ended.stderr


def test_check_explains_in_words(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("- 'slow: api == Fetch => delay 1s'\n")
    ended = run("faults", "check", "api == Produce => drop response, nth 3", str(path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == (
        "rule-1: at the 3rd request of Produce that matches api == Produce, the answer is dropped: the broker has "
        "carried out the request, but the client gets no answer.\n"
        "slow: at each request of Fetch that matches api == Fetch, the response is sent 1s later, and delays all "
        "responses after it.\n"
    )
    path.write_text("- api == Fetch => dely 1s\n")
    ended = run("faults", "check", str(path))
    assert ended.returncode == 2
    assert f"{path}:1:3: no action 'dely'; did you mean delay?" in ended.stderr


def test_a_client_keeps_to_the_versions_that_it_is_told(cluster: str, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    rules = ("api == ApiVersions => versions Produce 3-7", "api == ApiVersions => versions Metadata 0-4")
    with relay(cluster, record_to=recording, faults=rules) as process:
        assert produced(process.bootstrap, "old", ["a"]) == [None]
    lines = exchanges(recording)
    assert {line["api_version"] for line in lines if line["api"] == "Produce"} == {7}
    assert {line["api_version"] for line in lines if line["api"] == "Metadata"} == {4}


def test_a_client_asks_the_leader_that_it_is_told(cluster: str, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    leader = confluent_kafka.Producer({"bootstrap.servers": cluster, **QUIET})
    with closing(leader):
        there = leader.list_topics("misled", SECONDS)
        true = there.topics["misled"].partitions[0].leader
        wrong = next(node for node in there.brokers if node != true)
    # A client that is busy asks several times before it sends a record.
    rule = f"api == Metadata and topic == misled => leader misled-0 = {wrong}, first 4"
    with relay(cluster, record_to=recording, faults=(rule,)) as process:
        assert produced(process.bootstrap, "misled", ["a"]) == [None]
        assert 1 <= faults(process)["rules"][0]["hits"] <= 4
    codes = [line["error_codes"] for line in exchanges(recording) if line["api"] == "Produce"]
    assert ["NOT_LEADER_OR_FOLLOWER"] in codes
    assert codes[-1] == []


def coordinator(bootstrap: str, group: str) -> int:
    """The node id of a group's coordinator, by asking a broker without kproxy."""
    with connect(bootstrap.partition(",")[0]) as client:
        client.sendall(asking(10, 2, 1, {"key": group, "keyType": 0}))
        size = exactly(client, 4)
        body = answered(size + exactly(client, int.from_bytes(size, "big")), 10, 2).body
    assert body is not None
    return int(body["nodeId"])


def test_a_client_asks_the_coordinator_that_it_is_told(cluster: str) -> None:
    produced(cluster, "moved", ["a"])
    wrong = coordinator(cluster, "moved") % 3 + 1
    rules = (
        f"api == FindCoordinator => coordinator moved = {wrong}",
        "api == JoinGroup and error == NOT_COORDINATOR => delay 1ms",
    )
    with relay(cluster, record=False, faults=rules) as process:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": process.bootstrap, "group.id": "moved", **QUIET})
        with closing(consumer):
            consumer.subscribe(["moved"])
            joined = wait_until(lambda: consumer.poll(0.1) is None and faults(process)["rules"][1]["hits"] > 0, SECONDS)
            faults(process, "remove", name="rule-1")
    assert joined


def test_a_consumer_refuses_a_batch_with_a_wrong_crc(cluster: str) -> None:
    produced(cluster, "broken", ["a"])
    with relay(cluster, record=False, faults=("api == Fetch and topic == broken => crc, nth 1",)) as process:
        errors: list[str] = []
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": process.bootstrap, "group.id": "crc", "check.crcs": True, **QUIET}
        )
        with closing(consumer):
            consumer.assign([confluent_kafka.TopicPartition("broken", 0, 0)])
            deadline = time.monotonic() + SECONDS
            while not errors and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None:
                    errors.append(message.error().name() if message.error() else "a record")
        assert errors == ["_BAD_MSG"]


def test_a_client_without_brokers_goes_on_once_they_are_named(cluster: str) -> None:
    with relay(cluster, record=False, faults=("api == Metadata => brokers = [], first 2",)) as process:
        assert produced(process.bootstrap, "alone", ["a"]) == [None]
        assert faults(process)["rules"][0]["hits"] == 2
    assert log(cluster, "alone") == ["a"]


def test_a_consumer_meets_another_topic_id(cluster: str) -> None:
    produced(cluster, "recreated", ["a"])
    rules = (
        "api == Metadata => topic-id recreated = AAECAwQFBgcICQoLDA0ODw",
        "api == Fetch and error == UNKNOWN_TOPIC_ID => delay 1ms",
    )
    with relay(cluster, record=False, faults=rules) as process:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": process.bootstrap, "group.id": "ids", **QUIET})
        with closing(consumer):
            consumer.assign([confluent_kafka.TopicPartition("recreated", 0, 0)])
            assert wait_until(lambda: consumer.poll(0.1) is None and faults(process)["rules"][1]["hits"] > 0, SECONDS)


def test_a_producer_goes_on_after_a_black_hole(cluster: str) -> None:
    rule = "hole: api == Produce and topic == hole => blackhole connection, nth 1"
    with relay(cluster, faults=(rule,)) as process:
        assert produced(process.bootstrap, "hole", ["a"], **{"socket.timeout.ms": 1000}) == [None]
        assert faults(process)["rules"][0]["hits"] == 1
    assert log(cluster, "hole") == ["a"]


def test_a_refused_client_is_reset_until_the_broker_is_back(cluster: str) -> None:
    with relay(cluster.partition(",")[0], record=False, faults=("down: api == Heartbeat => refuse",)) as process:
        with connect(process.bootstrap) as client:
            client.sendall(beating(1))
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with pytest.raises(ConnectionResetError), connect(process.bootstrap) as client:
            client.recv(1)
        faults(process, "release", name="down")
        with connect(process.bootstrap) as client:
            client.sendall(asking(18, 0, 1, {}))
            assert exactly(client, 4)


def test_nothing_comes_out_of_a_black_hole(cluster: str) -> None:
    with relay(cluster.partition(",")[0], record=False, faults=("api == Heartbeat => blackhole broker",)) as process:
        with connect(process.bootstrap) as before, connect(process.bootstrap) as asks:
            before.sendall(asking(18, 0, 1, {}))
            size = exactly(before, 4)
            exactly(before, int.from_bytes(size, "big"))
            asks.sendall(beating(1))
            assert wait_until(lambda: faults(process)["rules"][0]["hits"] == 1, SECONDS)
            with connect(process.bootstrap) as after:
                for client in (before, asks, after):
                    client.sendall(asking(18, 0, 2, {}))
                    client.settimeout(0.3)
                    with pytest.raises(TimeoutError):
                        client.recv(1)
        assert wait_until(lambda: process.command("status")["connections"] == 0, SECONDS)
