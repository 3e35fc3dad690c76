"""The reading of every message of the packaged captures equals that of Kafka's own classes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.cli.commands.export import command
from tests.captures.exactness import differences, expected

DATA = Path(__file__).parents[1] / "data"
CAPTURES = {
    "captures/kafka-0.8.2.2": None,
    "captures/kafka-1.1.1": None,
    "captures/kafka-4.4.0-librdkafka": None,
    "golden/golden-3.9.2": "3.9",
    "golden/golden-4.4.0": None,
}

RANDOM_INSIDE = ("requestData", "responseData", "clientHostAddress", "metrics")
"""Fields in which the golden messages have random bytes."""


def export(name: str, release: str | None) -> list[dict[str, Any]]:
    arguments = ["--show-secrets", str(DATA / f"{name}.pcap"), *(["--release", release] if release else [])]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(("name", "release"), CAPTURES.items())
def test_bodies_equal_those_of_kafkas_classes(name: str, release: str | None) -> None:
    lines = export(name, release)

    assert differences(lines, expected(DATA / f"{name}.jsonl.gz")) == []
    assert [line for line in lines if line["schema"] == "kproxy.problem/1"] == []
    problems = [problem for line in lines if line.get("status") != "cut" for problem in line.get("problems", ())]
    assert [problem for problem in problems if not problem["path"].startswith(RANDOM_INSIDE)] == []
    assert name.startswith("golden") or not problems
    assert lines[-1]["schema"] == "kproxy.health/1"


def test_kafka_0_8_unanswered() -> None:
    lines = [line for line in export("captures/kafka-0.8.2.2", None) if line["schema"] == "kproxy.exchange/1"]

    assert Counter(line["status"] for line in lines) == {
        "ok": len(lines) - 20,
        "no_reply_expected": 18,
        "no_response": 2,
    }
    silent = [line for line in lines if line["status"] == "no_reply_expected"]
    assert {(line["api"], line["reason"], line["request"]["body"]["acks"]) for line in silent} == {
        ("Produce", "acks=0", 0)
    }
    assert sorted(line["api"] for line in lines if line["status"] == "no_response") == ["Fetch", "StopReplica"]


def test_kafka_0_8_code_13_means_stale_leader_epoch() -> None:
    lines = export("captures/kafka-0.8.2.2", None)

    stale = [
        line for line in lines if line.get("api") == "LeaderAndIsr" and "STALE_LEADER_EPOCH" in line["error_codes"]
    ]
    assert len(stale) == 1
    assert 13 in (stale[0]["response"]["body"]["errorCode"], *(
        partition["errorCode"] for partition in stale[0]["response"]["body"]["partitionErrors"]
    ))  # fmt: skip


def test_golden_acks_0_that_are_answered_are_paired() -> None:
    lines = [line for line in export("golden/golden-3.9.2", "3.9") if line["schema"] == "kproxy.exchange/1"]

    answered = [line for line in lines if line["api"] == "Produce" and line["request"]["body"]["acks"] == 0]
    assert [line["status"] for line in answered] == ["ok"] * 4
    assert {line["status"] for line in lines} == {"ok"}
