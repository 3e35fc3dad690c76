"""Kafka's own classes and its Java client find the error in every answer that rules make, without a byte left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.decoders.message import decode_response
from kproxy.decoders.schema import Message, definitions, errors
from kproxy.decoders.schema.layout import layout
from kproxy.faults.synthesis import Fault, answer, frame, stamped
from tests.kproxy.faults.support import asked, asking
from tests.kproxy.faults.test_live import log, produced
from tests.kproxy.faults.test_synthesis import SOME, sample
from tests.kproxy.support import places, relay
from tests.support.brokers import Cluster, cluster
from tests.support.judge import DEFINITIONS, judge, judge_errors
from tests.support.require import require

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


APART = {"FetchResponse", "ShareFetchResponse", "ShareAcknowledgeResponse"}
"""Answers whose top-level code is about the session and keeps its value."""
LATER = {"DescribeLogDirsResponse": 3, "ElectLeadersResponse": 1}
"""The first version with a top-level code; the client's class reads NONE in earlier ones."""


def answers(release: str) -> Iterator[tuple[int, Message, int, bytes, bool]]:
    """(api key, definition, version, body, whether kproxy made all of it) of answers with the error SOME."""
    known = definitions(DEFINITIONS[release])
    fault = Fault(SOME, (), lambda _: None)
    for api_key, version in known.pairs(release.rpartition(".")[0]):
        message, wanted = known.response(api_key, version), known.request(api_key, version)
        if message is None or wanted is None:
            continue
        request = asked(asking(api_key, version, 7, sample(layout(wanted, version)), known=known), known)
        made = answer(request, api_key, version, fault, known)
        changed = message, version, stamped(message, version, sample(layout(message, version)), api_key, fault)
        for one in (made, changed):
            data = frame(api_key, version, 7, one, known)
            start = decode_response(data, api_key, version, known).body_start
            yield api_key, one[0], one[1], data[start:], one is made


@pytest.mark.parametrize("release", list(DEFINITIONS))
def test_kafka_reads_every_answer(release: str) -> None:
    given = list(answers(release))
    said = judge(release, [(message.name, version, body) for _, message, version, body, _ in given])
    assert len(said) > 500
    for (_, message, version, *_), body in zip(given, said, strict=True):
        assert isinstance(body, dict), f"{message.name} v{version}: {body}"
        assert f'rrorCode": {SOME}' in json.dumps(body), f"{message.name} v{version}: {body}"


@pytest.mark.parametrize("release", list(DEFINITIONS))
def test_the_java_client_finds_the_error(release: str) -> None:
    given = list(answers(release))
    found = judge_errors(release, [(api_key, version, body) for api_key, _, version, body, _ in given])
    for (_, message, version, _, made), counts in zip(given, found, strict=True):
        where = f"{message.name} v{version}: {counts}"
        assert isinstance(counts, dict), where
        assert counts.pop(errors.name(SOME)) > 0, where
        if made or message.name not in APART:
            apart = message.name in APART or version < LATER.get(message.name, 0)
            assert counts == {} or (apart and counts == {"NONE": 1}), where


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    require("java")
    with cluster("4.4.0", 1) as running:
        yield running


def test_the_log_of_a_broker_says_what_was_applied(
    brokers: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not applied: nothing. Applied: one copy. A lost answer: one copy where the producer is idempotent, else two."""
    places(monkeypatch, tmp_path)
    rules = (
        "api == Produce and topic == none => error INVALID_RECORD not applied",
        "api == Produce and topic == one => error INVALID_RECORD applied",
        "api == Produce and topic in (once, twice) => disconnect after, once per client",
    )
    with relay(brokers.bootstrap, faults=rules, record=False) as process:
        assert produced(process.bootstrap, "none", ["a"]) == ["INVALID_RECORD"]
        assert produced(process.bootstrap, "one", ["a"]) == ["INVALID_RECORD"]
        assert produced(process.bootstrap, "twice", ["a"], **{"client.id": "plain"}) == [None]
        exactly = {"client.id": "exactly", "enable.idempotence": True}
        assert produced(process.bootstrap, "once", ["a"], **exactly) == [None]
    produced(brokers.bootstrap, "none", ["witness"])
    found = {topic: log(brokers.bootstrap, topic) for topic in ("none", "one", "twice", "once")}
    assert found == {"none": ["witness"], "one": ["a"], "twice": ["a", "a"], "once": ["a"]}
