"""What Prometheus is told equals what the exchanges say."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.request
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kproxy.addons import Observed, Progress, scrapes
from kproxy.addons.metrics import CLIENTS, OTHER, Metrics
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Connection, Exchange, Health, Status
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.stream import Side
from kproxy.runs.launcher import wait_until
from tests.kproxy.addons.support import CAPTURES, observe
from tests.support.patience import SECONDS

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def scraped(metrics: Metrics) -> Samples:
    return samples(generate_latest(metrics.registry).decode())


def total(found: Samples, name: str, **labels: str) -> float:
    wanted = set(labels.items())
    return sum(value for (sample, has), value in found.items() if sample == name and wanted <= has)


def values(found: Samples, name: str, label: str) -> set[str]:
    return {value for sample, has in found if sample == name for key, value in has if key == label}


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_counts_equal_the_exchanges(capture: Path) -> None:
    metrics = Metrics()
    observe(capture, metrics)
    found = scraped(metrics)
    reader = read([capture])
    lines = [exchange_json(item, reader.source, reader.definitions) for item in reader if isinstance(item, Exchange)]
    expected = Counter(
        (line["api"], str(line["api_version"]), line["broker"], (line["error_codes"] or ["NONE"])[0])
        for line in lines
        if line["status"] in {"ok", "no_reply_expected"}
    )
    assert expected
    for (api, version, broker, error), count in expected.items():
        labels = {"api": api, "version": version, "broker": broker, "error": error}
        assert total(found, "kproxy_requests_total", **labels) == count
    assert total(found, "kproxy_requests_total") == len(lines)
    for side, name in (("request", "kproxy_request_bytes_total"), ("response", "kproxy_response_bytes_total")):
        assert total(found, name) == sum(line[side]["size"] + 4 for line in lines if line[side])
    timed = [line for line in lines if line["latency_ms"] is not None]
    assert total(found, "kproxy_request_duration_seconds_count") == len(timed)
    polled = [
        line
        for line in timed
        if line["api"] == "Fetch" and line["latency_ms"] >= 0.9 * line["request"]["body"]["maxWaitMs"] > 0
    ]
    assert total(found, "kproxy_request_duration_seconds_count", kind="long_poll") == len(polled)
    seconds = sum(line["latency_ms"] for line in timed) / 1000
    assert total(found, "kproxy_request_duration_seconds_sum") == pytest.approx(seconds, rel=1e-3)
    assert found["kproxy_gaps_total", frozenset()] == reader.health.gaps


def test_a_long_poll_is_kept_apart() -> None:
    metrics = Metrics()
    observe(next(path for path in CAPTURES if "librdkafka" in path.name), metrics)
    assert total(scraped(metrics), "kproxy_request_duration_seconds_count", kind="long_poll", api="Fetch") > 0


def observed(
    *,
    api: str | None = "Heartbeat",
    client: str | None = "c",
    connection: int = 1,
    broker: str = "b:9092",
    version: int = 0,
    errors: tuple[str, ...] = (),
    status: Status = Status.OK,
    throttle: float = 0.0,
) -> Observed:
    exchange = Exchange(1, Connection(connection, "10.0.0.1:50000", broker, 0), 12, version, 1, client, status=status)
    reader = read([CAPTURES[0]])
    return Observed(exchange, api, status, errors, None, throttle, False, "", reader)


def test_clients_are_capped() -> None:
    metrics = Metrics()
    for number in range(CLIENTS + 50):
        for _ in range(2):
            metrics.exchange(observed(client=f"client-{number}"))
    found = scraped(metrics)
    names = values(found, "kproxy_requests_total", "client")
    assert len(names) == CLIENTS + 1
    assert total(found, "kproxy_requests_total", client=OTHER) == 100
    assert total(found, "kproxy_requests_total", client="client-0") == 2


def test_no_label_grows_with_what_a_stranger_sends() -> None:
    metrics = Metrics()
    for number in range(3000):
        metrics.exchange(
            observed(api=None, version=number, broker=f"b:{number}", errors=(f"UNKNOWN({number})",))
            if number % 2
            else observed(version=number, broker=f"b:{number}")
        )
    found = scraped(metrics)
    assert values(found, "kproxy_requests_total", "api") == {"Heartbeat", OTHER}
    assert values(found, "kproxy_requests_total", "error") == {"NONE", OTHER}
    assert len(values(found, "kproxy_requests_total", "version")) == 65
    assert len(values(found, "kproxy_requests_total", "broker")) == 1001


def test_a_client_without_an_id_is_the_software_that_it_names() -> None:
    metrics = Metrics()
    hello = observed(api="ApiVersions", client=None)
    hello._bodies[Side.CLIENT] = {"clientSoftwareName": "librdkafka"}
    metrics.exchange(hello)
    metrics.exchange(observed(client=None))
    metrics.exchange(observed(client=None, connection=2))
    found = scraped(metrics)
    assert total(found, "kproxy_requests_total", client="librdkafka") == 2
    assert total(found, "kproxy_requests_total", client="") == 1


def test_errors_throttling_and_what_was_never_answered() -> None:
    metrics = Metrics()
    metrics.exchange(observed(errors=("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID"), throttle=0.25))
    metrics.exchange(observed(status=Status.NO_RESPONSE))
    metrics.exchange(observed(throttle=0.5))
    found = scraped(metrics)
    assert values(found, "kproxy_requests_total", "error") == {"NOT_LEADER_OR_FOLLOWER", "no_response", "NONE"}
    assert total(found, "kproxy_throttle_seconds_total", api="Heartbeat", client="c", broker="b:9092") == 0.75


def test_health_and_lag() -> None:
    metrics = Metrics()
    metrics.progress(Progress(1234, Health(gaps=2, lost=99)))
    found = scraped(metrics)
    assert found["kproxy_observer_behind_bytes", frozenset()] == 1234
    assert found["kproxy_gaps_total", frozenset()] == 2
    assert found["kproxy_lost_bytes_total", frozenset()] == 99


def test_a_relay_that_does_not_answer_is_down(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    url = metrics.serve("127.0.0.1", 0)
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            found = samples(answer.read().decode())
    finally:
        metrics.close()
    assert found["kproxy_up", frozenset()] == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=20)


def test_findings_are_counted_and_open_ones_shown() -> None:
    metrics = Metrics()
    one = {"id": "a", "rule": "group.poll_gap", "severity": "warn"}
    metrics.finding("opened", one)
    metrics.finding("opened", {**one, "id": "b"})
    metrics.finding("worse", {**one, "severity": "error"})
    found = scraped(metrics)
    assert total(found, "kproxy_findings_total", rule="group.poll_gap") == 3
    assert total(found, "kproxy_open_findings", severity="warn") == 1
    assert total(found, "kproxy_open_findings", severity="error") == 1
    metrics.finding("resolved", {**one, "severity": "error"})
    assert total(scraped(metrics), "kproxy_open_findings") == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_clients_that_stay_hold_no_thread_for_ever(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(scrapes, "CONNECTION_SECONDS", 2.0)
    metrics = Metrics()
    url = metrics.serve(host, 0)
    port = urlsplit(url).port
    assert port is not None
    threads = threading.active_count()
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection((host.strip("[]"), port), 30)) for _ in range(100)]
        for number, one in enumerate(waiting):
            with contextlib.suppress(OSError):
                one.sendall(b"GET /metr"[: number % 10])
        ended = 0
        for one in waiting:
            with contextlib.suppress(ConnectionError):
                assert one.recv(100) == b""
            ended += 1
            # a connection has two threads: its own and that of its deadline
            assert threading.active_count() <= threads + 2 * scrapes.MOST_CONNECTIONS
        assert ended == 100
    assert wait_until(lambda: threading.active_count() == threads, SECONDS)
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        assert b"kproxy_requests_total" in answer.read()
    metrics.close()
