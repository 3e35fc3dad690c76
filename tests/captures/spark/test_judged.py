"""The tables of captures in splits agree with the reading of Kafka's own classes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kproxy.captures.spark import local
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tables.schema import EXCHANGE_TOPICS, EXCHANGES
from tests.support import judged

PRODUCE, FETCH = 0, 1
CAPTURES = (judged.OLDEST, judged.OLD, judged.NEW)
SIZE = 1 << 14
NOTHING = {-1: None}
"""High watermarks that tables leave out."""
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", params=CAPTURES)
def made(request: pytest.FixtureRequest) -> tuple[str, dict[str, Rows]]:
    """A capture's name, and its tables."""
    tables = (EXCHANGES.name, EXCHANGE_TOPICS.name)
    found = local.tables([judged.CAPTURES / f"{request.param}.pcap"], Options(tables), size=SIZE)
    return request.param, {name: found[name].to_pylist() for name in tables}


def test_the_same_requests_and_responses(made: tuple[str, dict[str, Rows]]) -> None:
    name, tables = made
    for kind, seen in (("request", "req_ts_ns"), ("response", "rsp_ts_ns")):
        ours = Counter(
            (
                f"{row['client_ip']}:{row['client_port']}", f"{row['broker_ip']}:{row['broker_port']}",
                row["correlation_id"], row["api_key"], row["api_version"],
            )
            for row in tables["exchanges"] if row[seen] is not None
        )  # fmt: skip
        told = ("client", "broker", "correlation_id", "api_key", "api_version")
        theirs = Counter(tuple(one[key] for key in told) for one in judged.frames(name) if one["kind"] == kind)
        assert ours == theirs
        assert theirs.total() > 100


def test_the_same_partitions_are_produced_and_fetched(made: tuple[str, dict[str, Rows]]) -> None:
    name, tables = made
    ours = {
        key: Counter(
            (row["topic_uuid"] or row["topic"], row["partition"], row["bytes"], *(row[column] for column in columns))
            for row in tables["exchange_topics"] if row["api_key"] == key and row["bytes"] is not None
        )
        for key, columns in ((PRODUCE, ()), (FETCH, ("error_code", "high_watermark", "last_stable_offset")))
    }  # fmt: skip
    assert ours[PRODUCE] == Counter(
        (topic.get("topicId") or topic["name"], one["index"], one["recordsSizeInBytes"])
        for body in judged.judged(name, "request", PRODUCE)
        for topic in body["topicData"]
        for one in topic["partitionData"]
    )
    assert ours[FETCH] == Counter(
        (
            topic.get("topicId") or topic["topic"], one["partitionIndex"], one["recordsSizeInBytes"],
            one["errorCode"], NOTHING.get(one["highWatermark"], one["highWatermark"]), one.get("lastStableOffset"),
        )
        for body in judged.judged(name, "response", FETCH)
        for topic in body["responses"]
        for one in topic["partitions"]
    )  # fmt: skip
    assert min(rows.total() for rows in ours.values()) > 5
