from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis import stats as module
from kproxy.captures.analysis.stats import Stats
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Connection, Exchange, Frame, Status
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from tests.support.scripts import Script, eyes, play, request, response

CAPTURES = Path(__file__).parents[2] / "data" / "captures"


def stats_of(name: str, by: str = "api") -> Stats:
    with closing(read([CAPTURES / f"{name}.pcap"])) as reader:
        found = Stats(reader.definitions, by)
        for item in reader:
            if isinstance(item, Exchange):
                found.add(item, reader.source)
        return found


@pytest.mark.parametrize("name", ["kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka"])
def test_counts_are_those_of_the_expected_requests(name: str) -> None:
    expected: Counter[int] = Counter()
    with gzip.open(CAPTURES / f"{name}.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            if line["kind"] == "request":
                expected[line["api_key"]] += 1
    found = stats_of(name)
    counts: Counter[str] = Counter()
    for line in found.lines():
        counts[line.name] += line.count
    assert sorted(counts.values()) == sorted(expected.values())
    assert not sum(api.undecodable for api in found.lines())


def test_a_code_is_named_as_its_release_meant_it() -> None:
    lines = {api.name: api.to_json("api") for api in stats_of("kafka-0.8.2.2").lines()}
    assert lines["LeaderAndIsr"]["error_codes"] == {"STALE_LEADER_EPOCH": 1}
    assert lines["LeaderAndIsr"]["errors"] == 1


def exchange(number: int, api_key: int | None, status: Status = Status.NO_RESPONSE) -> Exchange:
    frame = Frame(Side.CLIENT, 0, 20, 5, 5, 0, [(0, 24)])
    return Exchange(number, Connection(1, "a:1", "b:2", 5), api_key, 0, 1, "c", frame, status=status)


class Nothing:
    def read(self, start: int, end: int) -> bytes:
        del start, end
        return b""


def test_unknown_keys_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    known = definitions()
    found = Stats(known)
    for number in range(10):
        found.add(exchange(number, 20000 + number), Nothing())
    assert [(api.name, api.count) for api in found.lines()] == [
        ("(others)", 7), ("Key 20000", 1), ("Key 20001", 1), ("Key 20002", 1),
    ]  # fmt: skip


def test_what_was_not_answered() -> None:
    known = definitions()
    found = Stats(known)
    found.add(exchange(1, 3), Nothing())
    found.add(exchange(2, None, Status.TLS), Nothing())
    (tls, metadata) = found.lines()
    assert (tls.name, metadata.name) == ("(tls)", "Metadata")
    assert metadata.to_json("api")["unanswered"] == 1
    assert metadata.to_json("api")["p50_ms"] is None
    assert metadata.to_json("api")["request_bytes"] == 24


def test_long_polls_are_apart() -> None:
    lines = {(line.name, line.long_poll): line for line in stats_of("kafka-1.1.1").lines()}
    polls, others = lines["Fetch", True], lines["Fetch", False]
    assert polls.count + others.count == 99
    assert polls.latency.percentile(0) is not None
    # max wait of the consumers and replicas in this capture: half a second
    assert (polls.latency.percentile(0) or 0) >= 0.9 * 500 * module.NANOSECONDS
    assert {name for name, poll in lines if poll} == {"Fetch"}


@pytest.mark.parametrize(("by", "name"), [("client", "c1"), ("broker", "127.0.0.1:23001"), ("topic", "t-gzip")])
def test_by_another_name(by: str, name: str) -> None:
    with closing(read([CAPTURES / "kafka-1.1.1.pcap"])) as reader:
        lines = [
            exchange_json(item, reader.source, reader.definitions, view=View(open_batches=False, inside=False))
            for item in reader
            if isinstance(item, Exchange)
        ]
    belongs: dict[str, Callable[[dict[str, Any]], bool]] = {
        "client": lambda line: line["client_id"] == name,
        "broker": lambda line: line["broker"] == name,
        "topic": lambda line: (
            f'"{name}"' in json.dumps([line["request"]["body"], line["response"] and line["response"]["body"]])
        ),
    }
    mine = [line for line in lines if belongs[by](line)]
    found = [line for line in stats_of("kafka-1.1.1", by).lines() if line.name == name]
    assert sum(line.count for line in found) == len(mine) > 0
    assert sum(line.errors for line in found) == len([line for line in mine if line["error_codes"]])
    assert sum(line.request_bytes for line in found) == sum(line["request"]["size"] + 4 for line in mine)


def counted(by: str) -> list[dict[str, Any]]:
    """Of exchanges that took 1 ms, but for a long poll of 100 ms and a Fetch that was answered after 9."""
    script = Script()
    script.client(request(18, 3, 0)).broker(response(18, 3, 0))
    script.client(request(1, 11, 1, maxWaitMs=100)).wait(99).broker(response(1, 11, 1, throttleTimeMs=30))
    script.client(request(1, 11, 2, maxWaitMs=1000)).broker(response(1, 11, 2, errorCode=70))
    late = response(1, 11, 3, throttleTimeMs=5, errorCode=70)
    script.client(request(1, 11, 3, maxWaitMs=1000)).wait(8).broker(late)
    script.client(request(3, 12, 4)).broker(response(3, 12, 4, raw=b"\1"))  # nothing that can be read
    script.client(request(3, 12, 5, None))
    played = play(script.end())
    found = Stats(eyes(), by)
    for item in played.exchanges:
        found.add(item, played.tape)
    return [line.to_json(by) for line in found.lines()]


def line(by: str, name: str, count: int, requests: int, responses: int, **more: Any) -> dict[str, Any]:
    times = dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "max_ms"), 1.0)
    nothing: dict[str, Any] = dict.fromkeys(("errors", "unanswered", "undecodable", "throttled", "throttle_ms"), 0)
    shown = {"schema": "kproxy.stats/1", by: name, "long_poll": False, "count": count, **nothing, **times}
    return {**shown, "request_bytes": requests, "response_bytes": responses, "error_codes": {}, **more}


FAILED: dict[str, Any] = {
    "errors": 2,
    "error_codes": {"FETCH_SESSION_ID_NOT_FOUND": 2},
    "throttled": 1,
    "throttle_ms": 5,
}
# A percentile is the middle of its bucket; the largest is exact.
SLOW = {"p50_ms": 1.004, "p90_ms": 9.0, "p99_ms": 9.0, "max_ms": 9.0}
POLL: dict[str, Any] = dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "max_ms"), 100.0) | {"throttle_ms": 30}
POLL |= {"long_poll": True, "throttled": 1}


def test_what_is_counted_by_api() -> None:
    assert counted("api") == [
        line("api", "Fetch", 2, 106, 44, **FAILED, **SLOW),
        line("api", "Metadata", 2, 42, 10, unanswered=1, undecodable=1),
        line("api", "ApiVersions", 1, 22, 16),
        line("api", "Fetch", 1, 53, 22, **POLL),
    ]


def test_what_is_counted_by_client() -> None:
    never = dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "max_ms"))
    assert counted("client") == [
        line("client", "shop", 4, 151, 70, undecodable=1, **FAILED, **SLOW),
        line("client", "10.0.0.1", 1, 19, 0, unanswered=1, **never),
        line("client", "shop", 1, 53, 22, **POLL),
    ]


@pytest.mark.parametrize(("by", "name"), [("broker", "10.0.0.2:9092"), ("topic", "(none)")])
def test_what_is_counted_by_what_all_share(by: str, name: str) -> None:
    assert counted(by) == [
        line(by, name, 5, 170, 70, unanswered=1, undecodable=1, **FAILED, **SLOW),
        line(by, name, 1, 53, 22, **POLL),
    ]


def test_topics_are_named_by_their_ids_where_nothing_tells_the_name() -> None:
    """A topic is counted once for an exchange that names it twice."""
    known, unknown = b"\1" * 16, b"\2" * 16
    script = Script()
    topics = [{"name": "t", "topicId": known}]
    script.client(request(3, 12, 0, topics=[{"name": "t"}])).broker(response(3, 12, 0, topics=topics))
    ids = [{"topicId": one, "partitions": [{"partition": 0}]} for one in (known, unknown)]
    script.client(request(1, 13, 1, topics=ids)).broker(response(1, 13, 1))
    played = play(script.end())
    found = Stats(eyes(), "topic")
    for item in played.exchanges:
        found.add(item, played.tape)
    assert [(line.name, line.count) for line in found.lines()] == [("t", 2), ("AgICAgICAgICAgICAgICAg", 1)]
