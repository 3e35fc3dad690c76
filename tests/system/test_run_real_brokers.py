"""Real clients and real brokers with `kproxy run` between them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import Cluster
from tests.support.java import oracle_classpath
from tests.support.judge import differences
from tests.support.proxy import Proxy, export, tcp_connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent.parent
PYTHON_CLIENTS = ("librdkafka", "aio", "pure")
JAVA_CLIENTS = ("Client", "ShareClient")
# Share groups came with Kafka 4.
PAIRS = [
    *(("kafka-4.4.0", client) for client in (*PYTHON_CLIENTS, *JAVA_CLIENTS)),
    *(("kafka-1.1.1", client) for client in (*PYTHON_CLIENTS, "Client")),
]
# Clients of Kafka 4 speak to brokers from 2.1 on.
JAVA_RELEASES = {"4.4.0": "4.4.0", "1.1.1": "3.9.2"}
CLIENT_SECONDS = 150.0
BULK_MB = int(os.environ.get("KPROXY_BULK_MB") or ("128" if os.environ.get("CI") else "1024"))


def command(client: str, brokers: Cluster, bootstrap: str, name: str) -> list[str]:
    arguments = [bootstrap, name, str(min(3, brokers.nodes)), *(["modern"] if brokers.release == "4.4.0" else [])]
    if client in JAVA_CLIENTS:
        classpath = oracle_classpath(JAVA_RELEASES[brokers.release])
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath, f"kproxy.oracle.{client}", *arguments]
    return [sys.executable, "-m", f"tests.system.clients.{client}", *arguments]


class Client:
    """A client's process, whose connections are looked at all along."""

    def __init__(self, arguments: list[str], directory: Path) -> None:
        self.log = directory / "client.err"
        self.remote: set[tuple[str, int]] = set()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0
            )

    def look(self) -> None:
        self.remote |= {
            (socket.raddr.ip.removeprefix("::ffff:"), socket.raddr.port)
            for socket in tcp_connections(self.process.pid)
            if socket.raddr
        }

    def run(self, seconds: float) -> None:
        """Until it has done all; it is then asked to end. Raises AssertionError where a call of it failed."""
        try:
            assert self.process.stdout is not None
            assert self.process.stdin is not None
            deadline = time.monotonic() + seconds
            said = b""
            while b"open\n" not in said:
                assert time.monotonic() < deadline, f"no end after {seconds} s: {self.complaint()}"
                if select.select([self.process.stdout], [], [], 0.05)[0]:
                    read = os.read(self.process.stdout.fileno(), 1 << 16)
                    assert read, f"the client failed: {self.complaint()}"
                    said += read
                self.look()
            self.process.stdin.write(b"\n")
            assert self.process.wait(60) == 0, self.complaint()
        finally:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()

    def complaint(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def asks_for_all_topics(line: dict[str, Any]) -> bool:
    """librdkafka's null where versions with compact arrays follow is four bytes, not one (its issue 5049)."""
    codes = [(problem["where"], problem["code"], problem["message"]) for problem in line["problems"]]
    return (
        line["api"] == "Metadata"
        and line["api_version"] >= 9
        and line["request"]["body"]["topics"] is None
        and codes == [("request", "trailing_bytes", "3 bytes after the body")]
    )


def check_recording(lines: list[dict[str, Any]], brokers: Iterable[str], killed: str | None = None) -> Counter[str]:
    """Every exchange with these brokers is there with both bodies and no problem; returns the statuses.

    A frame to or from a broker that was `killed` may be the last of its connection and end early.
    """
    health = lines[-1]
    assert health["schema"] == "kproxy.health/1"
    for count in ("recorder_dropped", "lost", "gaps", "resyncs", "undecoded", "not_kafka", "tls"):
        assert health[count] == 0, health
    exchanges = [line for line in lines if line["schema"] == "kproxy.exchange/1"]
    wrong = [line for line in lines if line["schema"] == "kproxy.problem/1"]
    assert not wrong, wrong[:5]
    assert exchanges
    torn = [line for line in exchanges if line["status"] == "cut"]
    assert health["cut"] == len(torn), health
    assert {line["broker"] for line in torn} <= {killed}, torn
    assert len({line["connection"] for line in torn}) == len(torn), torn
    whole = [line for line in exchanges if line["status"] != "cut"]
    problems = [line for line in whole if line["problems"] and not asks_for_all_topics(line)]
    assert not problems, [(line["api"], line["api_version"], line["problems"]) for line in problems[:5]]
    statuses = Counter(line["status"] for line in whole)
    assert statuses.keys() <= {"ok", "no_reply_expected", "no_response"}, statuses
    for line in whole:
        assert line["request"]["body"] is not None, line
        assert line["status"] != "ok" or line["response"]["body"] is not None, line
        assert "guessed_version" not in line["request"], line
        assert "guessed_version" not in (line["response"] or {}), line
    # A connection that ends leaves at most what it was then waiting for.
    assert statuses["no_response"] <= 5 * len({line["connection"] for line in exchanges}), statuses
    assert {line["broker"] for line in exchanges} <= set(brokers)
    return statuses


@pytest.mark.parametrize(("brokers", "client"), PAIRS, indirect=["brokers"])
def test_every_call_succeeds_and_no_connection_leaves_the_proxy(
    brokers: Cluster, client: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    with Proxy(brokers.bootstrap, tmp_path / "proxy") as proxy:
        program = Client(command(client, brokers, proxy.bootstrap, f"proxied-{client}"), tmp_path)
        program.run(CLIENT_SECONDS)
        allowed = {("127.0.0.1", port) for port in proxy.listeners()}
        assert program.remote <= allowed, f"{program.remote - allowed} are not the proxy's"
        # The first listener is only for finding the brokers' own.
        assert program.remote - {("127.0.0.1", proxy.port)}
        assert not {port for _, port in program.remote} & set(brokers.ports)
        assert proxy.stop() in {0, 130}, proxy.said()
    lines = export(proxy.recording, tmp_path)
    statuses = check_recording(lines, brokers.bootstrap.split(","))
    judged, wrong = differences(proxy.recording, JAVA_RELEASES[brokers.release])
    assert judged > len(lines)
    assert not wrong, wrong[:5]
    apis = {line["api"] for line in lines if "api" in line}
    assert {"ApiVersions", "Metadata", "Produce", "FindCoordinator"} <= apis
    assert {"Fetch", "ShareFetch"} & apis
    with capsys.disabled():
        print(
            f"\n{client} on Kafka {brokers.release}: {len(lines) - 1} exchanges of {len(apis)} APIs, "
            f"{dict(statuses)}, {time.monotonic() - started:.1f} s"
        )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("brokers", ["kafka-4.4.0"], indirect=True)
def test_much_passes_unchanged_and_recorded(
    brokers: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    with Proxy(brokers.bootstrap, tmp_path / "proxy") as proxy:
        arguments = [proxy.bootstrap, f"bulk-{BULK_MB}", "1", "modern", str(BULK_MB)]
        program = Client([sys.executable, "-m", "tests.system.clients.bulk", *arguments], tmp_path)
        program.run(900)
        passed = time.monotonic() - started
        allowed = {("127.0.0.1", port) for port in proxy.listeners()}
        assert program.remote <= allowed
        assert proxy.stop(600) in {0, 130}, proxy.said()
    size = proxy.recording.stat().st_size
    # Produced and fetched: all of it is in the file twice.
    assert size > 2 * BULK_MB << 20
    lines = export(proxy.recording, tmp_path, timeout=600)
    check_recording(lines, brokers.bootstrap.split(","))
    sent = sum(
        partition["records"]["sizeInBytes"]
        for line in lines
        if line.get("api") == "Produce"
        for topic in line["request"]["body"]["topicData"]
        for partition in topic["partitionData"]
    )
    assert sent > BULK_MB << 20
    with capsys.disabled():
        print(
            f"\n{BULK_MB} MiB produced and consumed in {passed:.1f} s, recording {size >> 20} MiB, "
            f"{len(lines) - 1} exchanges, all exported after {time.monotonic() - started:.1f} s"
        )
    proxy.recording.unlink()
