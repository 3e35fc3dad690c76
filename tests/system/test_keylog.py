"""What passed through kproxy in TLS, captured outside, decrypted with its key log: as kproxy and tshark saw it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import Cluster
from tests.support.proxy import export, kproxy
from tests.support.require import require
from tests.support.tcpdump import captured
from tests.system.test_run_real_brokers import CLIENT_SECONDS, Client
from tests.system.test_tls import java, proxied, truststore

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]


def facts(lines: list[dict[str, Any]], ports: set[int] | None = None) -> Counter[tuple[Any, ...]]:
    """The exchanges of a reading, of connections to these ports; of Kafka's bodies what does not depend on the side."""
    return Counter(
        (line["api"], line["api_version"], line["correlation_id"], line["client_id"])
        for line in lines
        if line["schema"] == "kproxy.exchange/1"
        and line["status"] in {"ok", "no_reply_expected"}
        and (ports is None or int(line["broker"].rpartition(":")[2]) in ports)
    )


@pytest.mark.parametrize("client", ["librdkafka", "java-TLSv1.2", "java-TLSv1.3"])
def test_the_key_log_opens_what_was_captured(secured: Cluster, client: str, tmp_path: Path) -> None:
    require("tshark")
    log, capture = tmp_path / "keys.log", tmp_path / "encrypted.pcap"
    with (
        proxied(secured, tmp_path / "proxy", "--tls-keylog", str(log)) as (proxy, ca),
        captured(capture, "tcp and portrange 19000-33000"),
    ):
        topic = f"keylog-{client}"
        if client == "librdkafka":
            module = "tests.system.clients.secure"
            arguments = [sys.executable, "-m", module, client, proxy.bootstrap, topic, str(ca)]
        else:
            settings = {"security.protocol": "SSL", "ssl.enabled.protocols": client.removeprefix("java-")}
            store = truststore("PEM", ca, tmp_path / "proxy")
            arguments = java({**settings, **store}, proxy.bootstrap, topic, tmp_path)
        Client(arguments, tmp_path).run(CLIENT_SECONDS)
        listeners = proxy.listeners() | {proxy.port}
        assert proxy.stop() in {0, 130}, proxy.said()
    recorded = facts(export(proxy.recording, tmp_path))
    ports = ",".join(str(port) for port in {*listeners, *secured.ports})  # others may use the loopback device too
    run = kproxy(tmp_path, "export", capture, "--keylog", log, "--port", ports)
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    health = found[-1]
    assert (health["lost"], health["gaps"], health["undecoded"], health["not_kafka"]) == (0, 0, 0, 0)
    assert sum(recorded.values()) > 20
    # What a broker answered when the client had left, no client got.
    assert not facts(found, listeners) - recorded
    assert sum((recorded - facts(found, listeners)).values()) <= 3
    assert not recorded - facts(found, set(secured.ports))

    decode = [part for port in listeners for part in ("-d", f"tcp.port=={port},tls", "-d", f"tls.port=={port},kafka")]
    judge = subprocess.run(
        ["tshark", "-r", capture, "-o", f"tls.keylog_file:{log}", *decode, "-Y", "kafka.api_key",
         "-T", "fields", "-e", "tcp.srcport", "-e", "tcp.dstport", "-e", "kafka.api_key", "-e", "kafka.correlation_id"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    ours = Counter(
        (line["client"].rpartition(":")[2], line["api_key"], line["correlation_id"])
        for line in found
        if line["schema"] == "kproxy.exchange/1" and line["request"]
    )
    theirs: Counter[tuple[str, int, int]] = Counter()
    for line in judge.stdout.splitlines():
        source, target, keys, numbers = line.split("\t")
        if int(target) in listeners:
            theirs.update(
                (source, int(key), int(n)) for key, n in zip(keys.split(","), numbers.split(","), strict=True)
            )
    assert sum(theirs.values()) > 10
    assert not theirs - ours
