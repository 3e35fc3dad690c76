"""Producers that send batches again: what brokers make of it."""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, Analysis, Analyzer, Context, Key, at_evidence, remember
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Severity
from kproxy.decoders.schema import errors

RETRY = "producer.retry_dup"
ONCE: Final = "were sent twice and written once"
TWICE: Final = "were written twice"
PERHAPS: Final = "may be written twice"
MISSING: Final = "were refused, as the broker lacks the ones before"
TIMED_OUT: Final = 7
"""REQUEST_TIMED_OUT: the leader has the batch, its followers were too slow."""
AFTER_APPEND: Final = 20
"""NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader has the batch."""
OUT_OF_ORDER: Final = 45
DUPLICATE: Final = 46
SEQUENCES: Final = 1 << 31
"""Sequences of batches begin again at 0 here."""
BATCHES: Final = 16
"""Batches of a partition that are remembered. A client has few in flight, and retries before it goes on."""
PLACES: Final = 1_000
"""Most partitions of a client that are remembered."""
PRODUCERS: Final = 4
"""Most producer ids of a client's partition that are remembered."""
CLOSES: Final = 5 * SECOND
"""A producer that gave up a request closes its connection within this time."""
MINUTE: Final = 60 * SECOND
Place: TypeAlias = tuple[str, int]
Identity: TypeAlias = tuple[int, ...]
"""Producer id, epoch and base sequence; of a producer without id the batch's CRC and size."""


class Partition:
    """What a client lately sent to one partition."""

    __slots__ = ("acknowledged", "failed", "sent")

    def __init__(self) -> None:
        self.sent: dict[Identity, facts.Append] = {}
        """The latest send of each batch."""
        self.acknowledged: dict[tuple[int, int | None], facts.Append] = {}
        """The latest batch that succeeded, by producer id and epoch."""
        self.failed: dict[tuple[int, int | None], facts.Append] = {}
        """The first batch that failed since then."""


class Retries(Analyzer):
    """One client: batches that it sends more than once."""

    __slots__ = (
        "_context", "_counts", "_last", "_late", "_minute", "_often", "_partitions", "_retries", "_sends",
    )  # fmt: skip

    def __init__(self, context: Context) -> None:
        self._context = context
        self._partitions: dict[Place, Partition] = {}
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}
        """Number of batches and their records, by what became of them and their topic."""
        self._minute = 0
        """When the present minute began; how many batches were sent in it, how many of them again."""
        self._sends = 0
        self._retries = 0
        self._often = 0
        """Number of minutes with many retries."""
        self._late: deque[tuple[facts.Append, facts.Append]] = deque(maxlen=BATCHES)
        """Equal batches on two connections, the second sent before the first was answered."""
        self._last: tuple[tuple[Evidence, ...], str] | None = None
        """The latest retry of the present minute."""

    def feed(self, fact: facts.Append) -> None:
        if fact.acks == 0:
            return
        place = fact.topic, fact.partition
        partition = self._partitions.get(place)
        if partition is None:
            partition = Partition()
            remember(self._partitions, place, partition, PLACES)
        self._count(fact)
        idempotent = fact.producer_id is not None and fact.base_sequence is not None
        identity: Identity = fact.crc, fact.size
        if fact.producer_id is not None and fact.base_sequence is not None:
            identity = fact.producer_id, fact.producer_epoch or 0, fact.base_sequence
        other = partition.sent.get(identity)
        if other is None:
            remember(partition.sent, identity, fact, BATCHES)
            if fact.error == DUPLICATE:
                example = f"{fact.topic}-{fact.partition}: {_outcome(fact)}, the first one is not in this capture"
                evidence = (at_evidence(fact.at, "symptom", _outcome(fact)),)
                self._report(ONCE, fact, example, evidence, Severity.NOTE, Confidence.PROVEN)
        elif other.at.exchange != fact.at.exchange:
            first, second = (other, fact) if other.at.asked <= fact.at.asked else (fact, other)
            remember(partition.sent, identity, second, BATCHES)
            self._again(first, second, idempotent=idempotent)
        if fact.producer_id is not None:
            self._in_order(partition, fact, fact.producer_id)

    def _again(self, first: facts.Append, second: facts.Append, *, idempotent: bool) -> None:
        """A batch was sent twice: was it written twice?"""
        same = first.at.connection == second.at.connection
        if not idempotent and first.answered:
            early = second.at.asked < first.at.time
            if early and same:
                return  # equal batches in flight: nobody retries before the answer
            if not first.error:
                # Without an answer in time the producer closes the connection. Otherwise the batch was sent on purpose.
                if early:
                    self._late.append((first, second))
                    self._context.wake(max(first.at.time, second.at.time) + CLOSES)
                elif self._left_before(first.at):
                    self._twice(first, second)
                return
        written = [one.offset for one in (first, second) if one.answered and not one.error and one.offset is not None]
        if idempotent and len(set(written)) > 1:
            return  # of another cluster: producer ids are small numbers in each
        lost = not first.answered and self._context.whole(first.at.connection)
        example, evidence = _both(first, second)
        if second.error == DUPLICATE or (idempotent and written and (lost or len(written) > 1)):
            self._report(ONCE, second, example, evidence, Severity.NOTE, Confidence.STRONG)
        elif not idempotent and written and first.error == AFTER_APPEND:
            self._report(TWICE, second, example, evidence, Severity.ERROR, Confidence.STRONG)
        elif not idempotent and written and (lost or first.error == TIMED_OUT):
            self._report(PERHAPS, second, example, evidence, Severity.WARN, Confidence.STRONG)
        self._retries += 1
        self._last = evidence, example

    def tick(self) -> None:
        self._judge_late(self._context.now)

    def close(self) -> None:
        self._judge_late(None)

    def _judge_late(self, now: int | None) -> None:
        """Of equal batches on two connections, was the first one's connection closed for want of an answer?"""
        late, self._late = self._late, deque(maxlen=BATCHES)
        for first, second in late:
            due = max(first.at.time, second.at.time) + CLOSES
            if now is not None and due > now:
                self._late.append((first, second))
                self._context.wake(due)
                continue
            end = self._context.closed(first.at.connection)
            left = None if end is None else end.at.time if end.left is None else end.left
            if left is None or left > second.at.asked + CLOSES or first.offset == second.offset:
                continue
            self._twice(first, second)

    def _left_before(self, at: facts.At) -> bool:
        """Whether the client had closed the connection when the answer came."""
        end = self._context.closed(at.connection)
        return end is not None and end.closer == "client" and end.left is not None and at.asked < end.left < at.time

    def _twice(self, first: facts.Append, second: facts.Append) -> None:
        """Report a batch that the broker wrote at two offsets."""
        if second.answered and not second.error and None not in {first.offset, second.offset}:
            self._report(TWICE, second, *_both(first, second), Severity.ERROR, Confidence.PROVEN)

    def _count(self, fact: facts.Append) -> None:
        """Whether retries took a share of what was sent in the last minute."""
        if fact.at.time - self._minute >= MINUTE:
            least, share = self._context.limit(RETRY, "sends"), self._context.limit(RETRY, "share")
            if self._last is not None and self._sends >= least and self._retries >= share * self._sends:
                evidence, example = self._last
                self._often += 1
                severity = Severity.WARN if self._often >= self._context.limit(RETRY, "minutes") else Severity.NOTE
                example = f"{self._retries} of {self._sends} sends within a minute; {example}"
                self._report("were sent again", fact, example, evidence, severity, Confidence.PROVEN)
            self._minute, self._sends, self._retries, self._last = fact.at.time, 0, 0, None
        self._sends += 1

    def _in_order(self, partition: Partition, fact: facts.Append, producer: int) -> None:
        """Whether a broker misses a batch that it had acknowledged."""
        key = producer, fact.producer_epoch
        if fact.answered and not fact.error:
            before = partition.acknowledged.get(key)
            if before is None or before.at.asked <= fact.at.asked:
                remember(partition.acknowledged, key, fact, PRODUCERS)
            partition.failed.pop(key, None)
        elif fact.error != OUT_OF_ORDER:
            if fact.error != DUPLICATE and key not in partition.failed:
                remember(partition.failed, key, fact, PRODUCERS)
        elif key not in partition.failed:
            before = partition.acknowledged.get(key)
            if before is None or before.base_sequence is None or before.at.time > fact.at.asked:
                return
            if (before.base_sequence + before.records) % SEQUENCES == fact.base_sequence:
                example = f"sequence {fact.base_sequence} follows what was acknowledged at offset {before.offset}"
                evidence = (
                    at_evidence(before.at, "baseline", _outcome(before)),
                    at_evidence(fact.at, "symptom", _outcome(fact)),
                )
                self._report(MISSING, fact, example, evidence, Severity.ERROR, Confidence.STRONG)
            remember(partition.failed, key, fact, PRODUCERS)

    def _report(
        self, what: str, fact: facts.Append, example: str, evidence: tuple[Evidence, ...], severity: Severity,
        confidence: Confidence,
    ) -> None:  # fmt: skip
        key = what, fact.topic
        count, records = self._counts.get(key, (0, 0))
        count, records = count + 1, records + max(0, fact.records)
        remember(self._counts, key, (count, records))
        at = fact.at
        self._context.report(
            RETRY,
            *evidence,
            numbers={
                "client": at.client, "topic": fact.topic, "what": what, "count": count, "records": records,
                "example": example,
            },
            impact=Impact("records_at_risk", records) if what in AT_RISK else Impact("requests", count),
            episode=key,
            severity=severity,
            confidence=confidence,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
            cause=CAUSES.get(what),
        )  # fmt: skip


def _both(first: facts.Append, second: facts.Append) -> tuple[str, tuple[Evidence, Evidence]]:
    """What became of a batch that was sent twice, in words and as evidence."""
    return (
        f"{second.topic}-{second.partition}: {_outcome(first)}, then {_outcome(second)}",
        (at_evidence(first.at, "culprit", _outcome(first)), at_evidence(second.at, "symptom", _outcome(second))),
    )


def _outcome(fact: facts.Append) -> str:
    """What became of a batch."""
    if not fact.answered:
        return "no answer"
    if fact.error:
        return errors.name(fact.error)
    return "written" if fact.offset is None else f"written at offset {fact.offset}"


AT_RISK: Final = frozenset({TWICE, PERHAPS, MISSING})
CAUSES: Final = {
    MISSING: "The partition lost records that it had acknowledged (unclean "
    "election), or the broker forgot the producer (producer.id.expiration.ms).",
    ONCE: "An answer was lost or late, and the producer sent the batch again; it is "
    "idempotent, so that the broker dropped the second one.",
}
"""The cause, by what happened; else it is the table's."""

ANALYSES = (Analysis(frozenset({RETRY}), Key.CLIENT, (facts.Append,), Retries),)
