"""`kproxy run` with addons in front of librdkafka's mock cluster and its clients."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.captures.index.reader import IndexReader
from kproxy.captures.reader import read
from kproxy.cli.options.addons import Addons
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.runs.launcher import Event, wait_until
from tests.kproxy.addons.test_metrics import Samples, samples, total, values
from tests.kproxy.addons.test_traces import collecting
from tests.kproxy.support import relay
from tests.kproxy.test_run import COMMAND, failing, free_port
from tests.support.homes import homes
from tests.support.patience import SECONDS

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.timeout(120)

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
FAILING = """
from kproxy.addons import Actor, Observer

class BadObserver(Observer):
    def exchange(self, observed):
        raise RuntimeError("observer's reason")

class BadActor(Actor):
    apis = ("Produce",)

    def response(self, frame):
        raise RuntimeError("actor's reason")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    from kproxy.runs.demo import start_cluster

    keeper, bootstrap = start_cluster()
    yield bootstrap
    del keeper


class Run:
    """A headless `kproxy run`; what it says on standard error is in `said`."""

    def __init__(self, directory: Path, cluster: str, *arguments: str) -> None:
        self.recording = directory / "r.pcapng"
        self.said = ""
        command = [*COMMAND, "--upstream", cluster, "--listen", str(free_port()), "--headless"]
        self.process = subprocess.Popen(
            [*command, "-w", str(self.recording), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def expect(self, pattern: str) -> str:
        """Waits until it has said this; what the group matched."""
        assert wait_until(lambda: re.search(pattern, self.said) is not None, SECONDS), self.said
        found = re.search(pattern, self.said)
        assert found is not None
        return found[1]

    def produce(self, count: int = 20) -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.expect(r"bootstrap.servers=(\S+)"), "log_level": 0, "client.id": "live"}
        )
        for number in range(count):
            producer.produce("addons", str(number), partition=0)
        assert producer.flush(SECONDS) == 0
        producer.close()

    def end(self) -> int:
        self.process.terminate()
        code = self.process.wait(SECONDS)
        self._thread.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def exported(self) -> list[dict[str, object]]:
        reader = read([self.recording])
        return [exchange_json(item, reader.source, reader.definitions) for item in reader if isinstance(item, Exchange)]


@contextlib.contextmanager
def running(directory: Path, cluster: str, *arguments: str) -> Iterator[Run]:
    run = Run(directory, cluster, *arguments)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.end()


@pytest.fixture(autouse=True)
def _places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, place in homes(tmp_path).items():
        monkeypatch.setenv(name, place)


def scrape(url: str) -> Samples:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return samples(answer.read().decode())


def settled(url: str, *, records: int) -> Samples:
    """A scrape once so many records were counted and every connection has ended, after which nothing more came."""
    last = scrape(url)

    def quiet() -> bool:
        nonlocal last
        before, last = last, scrape(url)
        threading.Event().wait(1)
        return (
            total(before, "kproxy_requests_total") == total(last, "kproxy_requests_total")
            and total(before, "kproxy_records_total", api="Produce") == records
            and last["kproxy_observer_behind_bytes", frozenset()] == 0
            and last["kproxy_open_connections", frozenset()] == 0
        )

    assert wait_until(quiet, SECONDS)
    return last


def test_metrics_equal_what_the_recording_holds(cluster: str, tmp_path: Path) -> None:
    with running(tmp_path, cluster, "--metrics", "0") as run:
        url = run.expect(r"metrics on (\S+)")
        run.produce()
        found = settled(url, records=20)
        assert run.end() == 0
    lines = run.exported()
    assert "live" in values(found, "kproxy_requests_total", "client")
    answered = Counter(
        (str(line["api"]), str(line["client_id"] or "kproxy"))
        for line in lines
        if line["status"] == "ok" and line["client_id"]
    )
    assert answered["Produce", "live"] > 0
    for (api, client), count in answered.items():
        assert total(found, "kproxy_requests_total", api=api, client=client) >= count
    assert total(found, "kproxy_requests_total") == len(lines)
    assert total(found, "kproxy_records_total", api="Produce") == 20
    assert found["kproxy_up", frozenset()] == 1
    assert found["kproxy_recorder_dropped_packets_total", frozenset()] == 0
    connections = {line["connection"] for line in lines}
    assert found["kproxy_connections_total", frozenset()] >= len(connections)


def test_one_that_fails_is_named_and_traffic_and_the_others_go_on(cluster: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(FAILING)
    log = tmp_path / "kproxy.log"
    with running(tmp_path, cluster, "--metrics", "0", "--addon", str(bad), "--log-file", str(log)) as run:
        run.produce()
        run.expect("warning: (observer BadObserver has failed and is disabled: RuntimeError: observer's reason)")
        run.expect(r"warning: (actor BadActor has failed on Produce v\d+ and is disabled .*: RuntimeError: actor's)")
        found = settled(run.expect(r"metrics on (\S+)"), records=20)
        run.produce()
        assert run.end() == 0
    assert total(found, "kproxy_requests_total", api="Produce") > 0
    text = log.read_text()
    assert "actor's reason" in text
    assert text.count("Traceback") == 2


def test_the_example_actor_changes_what_it_says_and_the_recording_tells(cluster: str, tmp_path: Path) -> None:
    with running(tmp_path, cluster, "--addon", str(EXAMPLES / "throttle.py")) as run:
        run.produce()
        assert run.end() == 0
    changed = [
        comment
        for line in run.exported()
        for comment in (line["response"] or {}).get("comments", [])  # type: ignore[attr-defined]  # JSON
        if "Throttle: throttleTimeMs: 0 -> 250" in comment
    ]
    assert changed
    assert all(comment.startswith("changed by kproxy on the way to the client:\n") for comment in changed)


def test_a_changed_request_is_recorded_as_the_broker_got_it(cluster: str, tmp_path: Path) -> None:
    rename = tmp_path / "rename.py"
    rename.write_text(
        "from kproxy.addons import Actor\n"
        "class Rename(Actor):\n"
        "    apis = ('Metadata',)\n"
        "    def request(self, frame):\n"
        "        return frame.written(header={**frame.header, 'clientId': 'renamed'})\n"
    )
    with running(tmp_path, cluster, "--addon", str(rename)) as run:
        run.produce()
        assert run.end() == 0
    lines = [line for line in run.exported() if line["api"] == "Metadata"]
    assert {line["client_id"] for line in lines} == {"renamed"}
    comments = [line["request"]["comments"] for line in lines]  # type: ignore[index]  # JSON
    assert comments[0] == ['changed by kproxy on the way to the broker:\nRename: clientId: "live" -> "renamed"']


def test_the_example_observer_writes_its_lines(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "slow.log"
    monkeypatch.setenv("SLOW_FILE", str(log))
    monkeypatch.setenv("SLOW_SECONDS", "0")
    with running(tmp_path, cluster, "--addon", str(EXAMPLES / "slow.py")) as run:
        run.produce()
        assert run.end() == 0
    assert re.search(r" live Produce addons-0 took \d+\.\d+ s", log.read_text())


def test_traces_hold_every_exchange_of_the_recording(cluster: str, tmp_path: Path) -> None:
    with collecting() as collector:
        with running(tmp_path, cluster, "--otel-endpoint", collector.endpoint.removesuffix("/v1/traces")) as run:
            run.produce()
            assert run.end() == 0
        assert Counter(span.name for span in collector.spans) == Counter(line["api"] for line in run.exported())


def test_observers_go_on_with_a_relay_that_is_left(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    url = f"http://127.0.0.1:{(port := free_port())}/metrics"
    with running(tmp_path, cluster, "--detach", "--metrics", str(port)) as run:
        pid = int(run.expect(r"process (\d+) keeps running"))
        try:
            assert run.process.wait(SECONDS) == 0
            run.end()
            assert wait_until(lambda: _answers(url), SECONDS)
            run.produce()
            settled(url, records=20)
        finally:
            os.kill(pid, signal.SIGTERM)
    assert wait_until(lambda: not _answers(url), SECONDS)


def _answers(url: str) -> bool:
    try:
        return bool(scrape(url))
    except OSError:
        return False


def test_observers_beside_an_index_survive_their_process(cluster: str, tmp_path: Path) -> None:
    """As the terminal UI has it: one process writes the index and counts; killed, it is started again."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with relay(cluster, record_to=tmp_path / "r.pcapng") as process:
        indexer = Addons(metrics=("127.0.0.1", 0)).indexer(process, ("--follow",), events.put)
        try:
            for starts in (1, 2):
                url = events.get(timeout=SECONDS)["url"]
                assert indexer.starts == starts
                producer = confluent_kafka.Producer({"bootstrap.servers": process.bootstrap, "log_level": 0})
                producer.produce("beside", b"x", partition=0)
                assert producer.flush(SECONDS) == 0
                producer.close()
                found = settled(url, records=starts)
                with IndexReader(process.index_dir) as index:
                    assert index.count == total(found, "kproxy_requests_total")
                assert indexer.pid is not None
                os.kill(indexer.pid, signal.SIGKILL)
        finally:
            indexer.stop()


def test_what_cannot_be_is_said_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    chooser = tmp_path / "chooser.py"
    chooser.write_text("from kproxy.addons import Observer\nclass Chooses(Observer):\n    filter = 'api =='\n")
    slow = str(EXAMPLES / "slow.py")
    cases = [
        (["--addon", str(broken)], 2, "ZeroDivisionError"),
        (["--addon", str(chooser)], 2, "observer Chooses: filter: "),
        (["--addon", "no.such.module"], 2, "addon no.such.module: "),
        (["--addon", slow, "--no-record"], 2, "remove --no-record"),
        (["--metrics", "x"], 2, "no port"),
        (["--otel-endpoint", "http://user:secret@x"], 2, "OTEL_EXPORTER_OTLP_HEADERS"),
        (["--otel-endpoint", "x"], 2, "not an http(s) URL"),
    ]
    for arguments, code, words in cases:
        failed = failing(tmp_path, "--upstream", "x", "--listen", str(free_port()), *arguments)
        assert failed.returncode == code, failed.stderr
        assert words in failed.stderr
        assert len(failed.stderr.splitlines()) == 1


def test_the_dashboard_asks_for_metrics_that_there_are(cluster: str, tmp_path: Path) -> None:
    with running(tmp_path, cluster, "--metrics", "0") as run:
        run.produce()
        found = settled(run.expect(r"metrics on (\S+)"), records=20)
        assert run.end() == 0
    names = {name for name, _ in found} | {"kproxy_throttle_seconds_total"}
    dashboard = json.loads((EXAMPLES.parent / "grafana" / "kproxy.json").read_text())
    asked = set()
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            asked |= set(re.findall(r"\bkproxy_\w+", target["expr"]))
    assert asked <= names
    assert len(asked) > 10
