"""`kproxy export --format records`."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kproxy.cli.exits import Exit
from tests.captures import traffic
from tests.captures.test_export import run


def exported(*arguments: str, capture: Any = traffic.LIBRDKAFKA) -> list[dict[str, Any]]:
    result = run(str(capture), "--format", "records", *arguments)
    assert result.exit_code == Exit.OK
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_line_a_record() -> None:
    lines = exported()
    assert {line["schema"] for line in lines} == {"kproxy.record/1"}
    assert {"exchange", "api", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "batch"} <= set(
        lines[0]
    )
    whole = [json.loads(line) for line in run(str(traffic.LIBRDKAFKA)).stdout.splitlines()]
    held = 0
    for line in traffic.exchanges(whole):
        body = (line["request"] if line["api_key"] == 0 else line["response"] or {}).get("body") or {}
        for topic in body.get("topicData", ()) if line["api_key"] == 0 else body.get("responses", ()):
            for partition in topic.get("partitionData", topic.get("partitions", ())):
                held += sum(one["recordCount"] for one in (partition.get("records") or {"batches": []})["batches"])
    assert len(lines) == held
    assert Counter(line.get("skipped") for line in lines)["aborted"] == 10


def test_what_was_produced_has_the_offset_that_it_got() -> None:
    lines = exported(capture=traffic.KAFKA_1_1)
    fetched = {
        (line["topic"], line["partition"], line["offset"]): (line["key"], line["value"])
        for line in lines
        if line["api"] == "Fetch"
    }
    produced = {
        (line["topic"], line["partition"], line["assignedOffset"]): (line["key"], line["value"])
        for line in lines
        if "assignedOffset" in line
    }
    both = fetched.keys() & produced.keys()
    assert len(both) > 300
    assert all(fetched[place] == produced[place] for place in both)


def test_a_batch_beyond_the_limit_is_told_of() -> None:
    result = run(str(traffic.KAFKA_1_1), "--format", "records", "--batch-limit", "1k")
    assert result.exit_code == Exit.OK
    assert "problems in messages with records" in result.stderr
    plain = run(str(traffic.KAFKA_1_1), "--batch-limit", "1k")
    codes = {problem["code"] for line in plain.stdout.splitlines() for problem in json.loads(line).get("problems", ())}
    assert codes == {"decompression_limit"}


@pytest.mark.parametrize("size", ["x", "-1"])
def test_a_limit_is_a_size(size: str) -> None:
    assert run(str(traffic.KAFKA_1_1), "--batch-limit", size).exit_code == Exit.USAGE
