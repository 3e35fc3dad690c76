"""Finds producers that send batches again, and whether brokers wrote such a batch twice."""

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
MISSING: Final = "were refused because the broker has lost the batches before them"
TIMED_OUT: Final = 7
"""Error code REQUEST_TIMED_OUT: the leader has written the batch, but followers were too slow."""
AFTER_APPEND: Final = 20
"""Error code NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader has written the batch."""
OUT_OF_ORDER: Final = 45
DUPLICATE: Final = 46
SEQUENCES: Final = 1 << 31
"""Sequence numbers are counted modulo this."""
BATCHES: Final = 16
"""Maximum number of batches that are remembered for a partition; few batches of a client are in flight at a time."""
PLACES: Final = 1_000
"""Maximum number of partitions that are remembered for a client."""
PRODUCERS: Final = 4
"""Maximum number of producer ids that are remembered for a partition of a client."""
CLOSES: Final = 5 * SECOND
"""A producer that gives up a request closes its connection within this time (ns)."""
MINUTE: Final = 60 * SECOND
Place: TypeAlias = tuple[str, int]
Identity: TypeAlias = tuple[int, ...]
"""Equal for all sends of a batch: (producer id, epoch, base sequence); without producer id, (CRC, size)."""


class Partition:
    """The latest batches that a client sent to one partition."""

    __slots__ = ("acknowledged", "failed", "sent")

    def __init__(self) -> None:
        self.sent: dict[Identity, facts.Append] = {}
        """Maps each batch to its latest send."""
        self.acknowledged: dict[tuple[int, int | None], facts.Append] = {}
        """Maps (producer id, epoch) to its latest acknowledged batch."""
        self.failed: dict[tuple[int, int | None], facts.Append] = {}
        """Maps (producer id, epoch) to its first batch that failed after `acknowledged`."""


class Retries(Analyzer):
    """For one client, finds batches that it sends again."""

    __slots__ = (
        "_context", "_counts", "_last", "_late", "_minute", "_often", "_partitions", "_retries", "_sends",
    )  # fmt: skip

    def __init__(self, context: Context) -> None:
        self._context = context
        self._partitions: dict[Place, Partition] = {}
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}
        """Maps (result, topic) to (number of batches, number of their records)."""
        self._minute = 0
        """Time (ns) when the present minute began; `_sends` and `_retries` count its sends and retries."""
        self._sends = 0
        self._retries = 0
        self._often = 0
        """Number of minutes with too many retries."""
        self._late: deque[tuple[facts.Append, facts.Append]] = deque(maxlen=BATCHES)
        """Pairs of equal batches: the second was sent on another connection, before the first was answered."""
        self._last: tuple[tuple[Evidence, ...], str] | None = None
        """The latest retry of the present minute, as evidence and text."""

    def feed(self, fact: facts.Produced) -> None:
        if fact.acks != 0:
            for one in fact.batches:
                self._add(one)

    def _add(self, fact: facts.Append) -> None:
        place = fact.topic, fact.partition
        partition = self._partitions.get(place)
        if partition is None:
            partition = Partition()
            remember(self._partitions, place, partition, PLACES)
        at, producer, sequence = fact.at, fact.producer_id, fact.base_sequence
        if at.time - self._minute >= MINUTE:
            self._judge_minute(fact)
        self._sends += 1
        idempotent = producer is not None and sequence is not None
        identity: Identity = fact.crc, fact.size
        if producer is not None and sequence is not None:
            identity = producer, fact.producer_epoch or 0, sequence
        sent = partition.sent
        other = sent.get(identity)
        if other is None:
            sent[identity] = fact
            if len(sent) > BATCHES:
                del sent[next(iter(sent))]
            if fact.error == DUPLICATE:
                example = f"{fact.topic}-{fact.partition}: {_outcome(fact)}, the first one is not in this capture"
                evidence = (at_evidence(fact.at, "symptom", _outcome(fact)),)
                self._report(ONCE, fact, example, evidence, Severity.NOTE, Confidence.PROVEN)
        elif other.at.exchange != at.exchange:
            first, second = (other, fact) if other.at.asked <= at.asked else (fact, other)
            remember(sent, identity, second, BATCHES)
            self._again(first, second, idempotent=idempotent)
        if producer is not None:
            self._in_order(partition, fact, producer)

    def _again(self, first: facts.Append, second: facts.Append, *, idempotent: bool) -> None:
        """Report whether a batch that was sent twice was also written twice, as far as responses tell."""
        same = first.at.connection == second.at.connection
        if not idempotent and first.answered:
            early = second.at.asked < first.at.time
            if early and same:
                return  # both batches are in flight: a producer retries only after a response or a timeout
            if not first.error:
                # Before a retry after a timeout, a producer closes the connection; otherwise it meant to send both.
                if early:
                    self._late.append((first, second))
                    self._context.wake(max(first.at.time, second.at.time) + CLOSES)
                elif self._left_before(first.at):
                    self._twice(first, second)
                return
        written = [one.offset for one in (first, second) if one.answered and not one.error and one.offset is not None]
        if idempotent and len(set(written)) > 1:
            return  # two clusters in one capture: both assign the same small producer ids
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
        """Report pairs in `_late` whose first connection the client closed, as it does after a timeout.

        Pairs are judged once CLOSES has passed at the time `now` (ns); without `now`, all are.
        """
        late, self._late = self._late, deque(maxlen=BATCHES)
        for first, second in late:
            due = max(first.at.time, second.at.time) + CLOSES
            if now is not None and due > now:
                self._late.append((first, second))
                self._context.wake(due)
                continue
            end = self._context.closed(first.at.connection)
            left = None if end is None else end.time if end.left is None else end.left
            if left is None or left > second.at.asked + CLOSES or first.offset == second.offset:
                continue
            self._twice(first, second)

    def _left_before(self, at: facts.At) -> bool:
        """Whether the client closed the connection before the response came."""
        end = self._context.closed(at.connection)
        return end is not None and end.closer == "client" and end.left is not None and at.asked < end.left < at.time

    def _twice(self, first: facts.Append, second: facts.Append) -> None:
        """Report a batch that brokers wrote at two offsets."""
        if second.answered and not second.error and None not in {first.offset, second.offset}:
            self._report(TWICE, second, *_both(first, second), Severity.ERROR, Confidence.PROVEN)

    def _judge_minute(self, fact: facts.Append) -> None:
        """Report the last minute if retries were a large share of its sends; `fact` begins the next minute."""
        least, share = self._context.limit(RETRY, "sends"), self._context.limit(RETRY, "share")
        if self._last is not None and self._sends >= least and self._retries >= share * self._sends:
            evidence, example = self._last
            self._often += 1
            severity = Severity.WARN if self._often >= self._context.limit(RETRY, "minutes") else Severity.NOTE
            example = f"{self._retries} of {self._sends} sends within a minute; {example}"
            self._report("were sent again", fact, example, evidence, severity, Confidence.PROVEN)
        self._minute, self._sends, self._retries, self._last = fact.at.time, 0, 0, None

    def _in_order(self, partition: Partition, fact: facts.Append, producer: int) -> None:
        """Report a batch that is refused as out of order although the broker has acknowledged the batch before it."""
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
    """The results of both sends of a batch: as text, and as two pieces of evidence."""
    return (
        f"{second.topic}-{second.partition}: {_outcome(first)}, then {_outcome(second)}",
        (at_evidence(first.at, "culprit", _outcome(first)), at_evidence(second.at, "symptom", _outcome(second))),
    )


def _outcome(fact: facts.Append) -> str:
    """The result of sending a batch, as text."""
    if not fact.answered:
        return "no response"
    if fact.error:
        return errors.name(fact.error)
    return "written" if fact.offset is None else f"written at offset {fact.offset}"


AT_RISK: Final = frozenset({TWICE, PERHAPS, MISSING})
CAUSES: Final = {
    MISSING: "The partition lost records that it had acknowledged (unclean "
    "election), or the broker forgot the producer (producer.id.expiration.ms).",
    ONCE: "A response was lost or late, and the producer sent the batch again; it is "
    "idempotent, so that the broker dropped the second one.",
}
"""The cause of each result. Other results have the cause in the rule's row."""

ANALYSES = (Analysis(frozenset({RETRY}), Key.CLIENT, (facts.Produced,), Retries),)
