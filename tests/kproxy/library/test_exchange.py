"""Attributes of exchanges and records agree with their JSON and with their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kproxy

DATA = Path(__file__).parents[2] / "data"
EVERY = sorted((DATA / "captures").glob("*.pcap")) + sorted((DATA / "golden").glob("*.pcap"))
MODERN = DATA / "captures" / "kafka-4.4.0-librdkafka.pcap"


@pytest.fixture(scope="module", params=EVERY, ids=lambda path: path.name)
def exchanges(request: pytest.FixtureRequest) -> Iterator[list[kproxy.Exchange]]:
    with kproxy.open(request.param) as capture:
        yield list(capture)


def test_headers_are_those_of_the_json(exchanges: list[kproxy.Exchange]) -> None:
    for one in exchanges:
        line = dict(one)
        assert len(line) == len(one)
        names = ("connection", "client", "broker", "client_id", "api", "api_key", "api_version", "correlation_id")
        assert [getattr(one, name) for name in names] == [line[name] for name in names]
        assert one.number == line["exchange"]
        assert one.status == line["status"]
        assert one.latency_ms == pytest.approx(line["latency_ms"], abs=1e-6) or one.latency_ms is line["latency_ms"]
        sizes = [None if line[side] is None else line[side]["size"] for side in ("request", "response")]
        assert [one.request_size, one.response_size] == sizes
        first = line["request"] or line["response"]
        assert one.time.isoformat(timespec="microseconds").removesuffix("+00:00") == first["timestamp"][
            :26
        ].removesuffix("Z")
        assert one.time == datetime.fromtimestamp(one.time_ns // 1000 / 1_000_000, UTC)


def test_bodies_are_those_that_the_bytes_decode_to(exchanges: list[kproxy.Exchange]) -> None:
    decoded = 0
    for one in exchanges:
        if one.api is None or one.api == "SaslToken" or one.status != "ok" or one["problems"]:
            continue
        request = kproxy.decode(one.request_bytes, kind="request")
        assert _plain(request.body) == _plain(one.request)
        assert (request.api, request.version, request.problems) == (one.api, one.api_version, ())
        assert request.size == len(one.request_bytes)
        if one.response_bytes:
            response = kproxy.decode(one.response_bytes, kind="response", request=one.request_bytes)
            assert _plain(response.body) == _plain(one.response)
            assert response.header["correlationId"] == one.correlation_id
        decoded += 1
    assert decoded > 50


def _plain(body: object) -> object:
    """A body without what only a capture tells: why consumers skip a record, what earlier requests say of a member."""
    if isinstance(body, list):
        return [_plain(one) for one in body]
    if isinstance(body, dict):
        return {name: _plain(one) for name, one in body.items() if name not in {"skipped", "guessed"}}
    return body


def test_a_tree_has_a_line_for_each_field(exchanges: list[kproxy.Exchange]) -> None:
    for one in exchanges[:100]:
        text = str(one.tree)
        for root, size, name in (
            (one.tree.request, one.request_size, "request"),
            (one.tree.response, one.response_size, "response"),
        ):
            assert (root is not None) == (size is not None and one.api != "SaslToken")
            if root is not None:
                assert size is not None
                assert (root.start, root.end) == (0, size + 4)
                assert f"{name}\n" in text


def test_errors_topics_and_groups() -> None:
    with kproxy.open(MODERN) as capture:
        for field, name in (("topic", "topics"), ("group", "groups"), ("error", "errors")):
            for value in {value for one in capture for value in getattr(one, name)}:
                wanted = [one.number for one in capture.where(f'{field} == "{value}"')]
                assert [one.number for one in capture if value in getattr(one, name)] == wanted
        assert {one.throttle_ms for one in capture} == {0}


def test_records() -> None:
    with kproxy.open(MODERN) as capture:
        produced = list(capture.where("api == Produce").records())
        fetched = list(capture.where("api == Fetch").records())
    assert produced
    for one in (*produced, *fetched):
        assert one["topic"] == one.topic
        assert one["partition"] == one.partition
        assert one["offset"] == one.offset
        assert one["timestamp"] == one.timestamp_ms
        assert one["exchange"] == one.exchange
        assert one.get("assignedOffset") == one.assigned_offset
        assert one.get("skipped") == one.skipped
        assert (one["value"] is None) == (one.value is None)
        assert [name for name, _ in one.headers] == [header["key"] for header in one["headers"]]
    # What producers sent is what consumers got, unless the transaction was aborted.
    sent = {(one.topic, one.partition, one.assigned_offset): (one.key, one.value) for one in produced}
    for one in fetched:
        if (one.topic, one.partition, one.offset) in sent:
            assert sent[one.topic, one.partition, one.offset] == (one.key, one.value)


def test_secrets_are_withheld_unless_asked_for() -> None:
    (path,) = (DATA / "golden").glob("golden-4.4.0.pcap")
    shown: dict[bool, str] = {}
    for show in (False, True):
        with kproxy.open(path, show_secrets=show) as capture:
            chosen = list(capture.where("api in (SaslAuthenticate, AlterUserScramCredentials)"))
            assert chosen
            shown[show] = "".join(one.to_json() + str(one.tree) for one in chosen)
    assert '"redacted":true' in shown[False]
    assert '"redacted":true' not in shown[True]
    assert len(shown[True]) != len(shown[False])
