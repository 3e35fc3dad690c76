from __future__ import annotations

import gzip
import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from captures.analysis import summary as module
from captures.analysis.summary import Summary
from captures.reader import read
from decoders.conversation.stream import Side
from decoders.exchange import Connection, Exchange, Frame, Status
from decoders.filters import ExchangeRow
from decoders.schema import definitions

CAPTURES = Path(__file__).parents[2] / "data" / "captures"


def summary_of(name: str) -> Summary:
    with closing(read([CAPTURES / f"{name}.pcap"])) as reader:
        found = Summary(reader.definitions)
        for item in reader:
            if isinstance(item, Exchange):
                found.add(ExchangeRow(item, reader.source, reader.definitions))
        return found


@pytest.mark.parametrize("name", ["kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka"])
def test_counts_are_those_of_the_expected_requests(name: str) -> None:
    expected: Counter[int] = Counter()
    with gzip.open(CAPTURES / f"{name}.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            if line["kind"] == "request":
                expected[line["api_key"]] += 1
    found = summary_of(name)
    assert sorted(api.count for api in found.apis()) == sorted(expected.values())
    assert not sum(api.undecodable for api in found.apis())


def test_a_code_is_named_as_its_release_meant_it() -> None:
    lines = {api.name: api.line() for api in summary_of("kafka-0.8.2.2").apis()}
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
    monkeypatch.setattr(module, "MOST_APIS", 3)
    known = definitions()
    found = Summary(known)
    for number in range(10):
        found.add(ExchangeRow(exchange(number, 20000 + number), Nothing(), known))
    assert [(api.name, api.count) for api in found.apis()] == [
        ("(others)", 7), ("Key 20000", 1), ("Key 20001", 1), ("Key 20002", 1),
    ]  # fmt: skip


def test_what_was_not_answered() -> None:
    known = definitions()
    found = Summary(known)
    found.add(ExchangeRow(exchange(1, 3), Nothing(), known))
    found.add(ExchangeRow(exchange(2, None, Status.TLS), Nothing(), known))
    (tls, metadata) = found.apis()
    assert (tls.name, metadata.name) == ("(tls)", "Metadata")
    assert metadata.line()["unanswered"] == 1
    assert metadata.line()["p50_ms"] is None
    assert metadata.line()["request_bytes"] == 24
