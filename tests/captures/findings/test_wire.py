"""From bytes to findings: messages of brokers and clients have what rules look for."""

from __future__ import annotations

from typing import Any

from kproxy.captures.findings.correlator import correlate
from kproxy.captures.findings.engine import Engine
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.findings.model import Finding
from kproxy.captures.findings.rules import ANALYSES
from kproxy.captures.findings.table import RULES
from tests.decoders.batches.support import batch, record
from tests.support.facts import told
from tests.support.scripts import Script, eyes, play, request, response

TRANSACTIONAL = 16


class Talk(Script):
    """A script with numbered requests that are answered at once."""

    number = 0

    def wait(self, milliseconds: int) -> Talk:
        super().wait(milliseconds)
        return self

    def ask(self, key: int, version: int, asked: dict[str, Any], answered: dict[str, Any]) -> Talk:
        self.number += 1
        self.client(request(key, version, self.number, "app", **asked))
        self.broker(response(key, version, self.number, **answered))
        return self

    def fetch(self, offset: int, **answered: Any) -> Talk:
        asked = {"topic": "t", "partitions": [{"partition": 0, "fetchOffset": offset, "currentLeaderEpoch": 5}]}
        partition = {"partitionIndex": 0, "highWatermark": 200, "lastStableOffset": 200, "logStartOffset": 0}
        answer = {"topic": "t", "partitions": [partition | answered]}
        return self.ask(1, 11, {"maxWaitMs": 500, "topics": [asked]}, {"responses": [answer]})

    def found(self) -> list[Finding]:
        played = play(self.end())
        engine = Engine(ANALYSES, RULES)
        for fact in FactMaker(played.tape, eyes(), engine.wanted).make(played.exchanges):
            engine.feed(fact)
        engine.finish()
        return correlate(engine.findings(), RULES)

    def tells(self, line: str) -> Finding:
        """The only finding that is more than an INFO."""
        found = [one for one in self.found() if one.severity]
        assert [text.rpartition(" ")[0] for text in told(found)] == [line]
        return found[0]


def test_retention_that_was_faster_than_a_consumer() -> None:
    talk = Talk().fetch(60, records=batch(record(0, None, b"v"), 1, offset=60))
    talk.fetch(70, errorCode=1, highWatermark=-1, lastStableOffset=-1, logStartOffset=-1)
    asked = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "timestamp": -2}]}]}
    answer = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": 150, "errorCode": 0}]}]}
    finding = talk.ask(2, 5, asked, answer).fetch(150, logStartOffset=150).tells("ERROR consumer.offset_skip")
    assert finding.numbers["offsets"] == 80
    assert "the earliest offset" in finding.summary


def test_a_transaction_that_is_never_ended() -> None:
    talk = Talk().ask(22, 1, {"transactionalId": "tx", "transactionTimeoutMs": 60_000}, {"producerId": 7})
    records = batch(record(0, None, b"v"), 1, attributes=TRANSACTIONAL, producer=7)
    asked = {"transactionalId": "tx", "acks": -1, "topicData": [
        {"name": "t", "partitionData": [{"index": 0, "records": records}]}
    ]}  # fmt: skip
    answer = {"responses": [{"name": "t", "partitionResponses": [{"index": 0, "baseOffset": 2}]}]}
    talk.ask(0, 8, asked, answer)
    for _ in range(3):
        talk.wait(31_000).fetch(2, highWatermark=4, lastStableOffset=2)
    finding = talk.tells("ERROR txn.lso_stall")
    assert finding.scope.name == "tx"
    assert "for 93 s: 2 offsets held back" in finding.summary


def test_a_broker_that_is_down() -> None:
    partition = {"partitionIndex": 0, "leaderId": 1, "leaderEpoch": 5, "replicaNodes": [1, 2, 3]}
    talk = Talk()
    for isr, offline in (([1, 2, 3], []), ([1, 2], [3]), ([1, 2], [3])):
        views = [partition | {"isrNodes": isr, "offlineReplicas": offline}]
        brokers = [{"nodeId": node, "host": f"broker-{node}", "port": 9092} for node in (1, 2)]
        talk.wait(61_000).ask(3, 9, {}, {"brokers": brokers, "topics": [{"name": "t", "partitions": views}]})
    finding = talk.tells("WARN isr.shrunk node")
    assert "t-0: replicas 1, 2, 3, ISR 1, 2" in finding.summary


def test_a_leader_that_lacks_what_was_read() -> None:
    asked = {"topics": [{"topic": "t", "partitions": [{"partition": 0, "leaderEpoch": 5}]}]}
    answer = {"topics": [{"topic": "t", "partitions": [{"partition": 0, "leaderEpoch": 5, "endOffset": 100}]}]}
    finding = Talk().fetch(120).ask(23, 3, {"replicaId": -1} | asked, answer).tells("ERROR log.truncated")
    assert finding.numbers["lost"] == 20


def test_a_coordinator_that_moves() -> None:
    talk = Talk()
    for node in (1, 2, 1, 2):
        found = {"key": "g", "nodeId": node, "host": f"b{node}", "port": 9092}
        talk.wait(60_000).ask(10, 4, {"keyType": 0, "coordinatorKeys": ["g"]}, {"coordinators": [found]})
    assert "moved 3 times" in talk.tells("WARN coord.moved").summary


def test_a_batch_that_is_sent_again() -> None:
    records = batch(record(0, None, b"v"), 1, producer=-1)
    asked = {"acks": -1, "topicData": [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]}
    talk = Talk()
    for error, offset in ((7, -1), (0, 67)):
        answer = {"index": 0, "errorCode": error, "baseOffset": offset}
        talk.ask(0, 8, asked, {"responses": [{"name": "t", "partitionResponses": [answer]}]})
    assert "may be written twice" in talk.tells("WARN producer.retry_dup").summary


def test_a_consumer_that_fails_at_a_record() -> None:
    asked = {"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0]}]}
    answer = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "committedOffset": 70}]}]}
    talk = Talk()
    for _ in range(4):
        talk.wait(20_000).ask(9, 5, asked, answer)
        talk.fetch(70, records=batch(record(0, None, b"v"), 1, offset=70))
    assert "began again at offset 70 of t-0" in talk.tells("WARN consumer.poison").summary
