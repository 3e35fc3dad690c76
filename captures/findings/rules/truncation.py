"""Finds partitions whose log lost records, and topics that were deleted and recreated."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    at_evidence,
    remember,
)
from kproxy.captures.findings.model import Confidence, Evidence, Impact, Severity
from kproxy.decoders.schema import api_keys

TRUNCATED = "log.truncated"
CLIENTS: Final = 64
"""Maximum number of clients that are remembered for a partition, and of brokers for a topic."""
IDS: Final = 64


class Reader:
    """What is known of a client that reads the partition."""

    __slots__ = ("before", "connection", "offset", "shared")

    def __init__(self, at: facts.At, offset: int) -> None:
        self.offset = offset
        """The fetch offset of the latest request."""
        self.connection = at.connection
        self.before: set[int] = set()
        """The client's earlier connections."""
        self.shared = False
        """Whether two consumers seem to use this client id, because fetches return to an earlier connection."""

    def fetch(self, at: facts.At, offset: int) -> None:
        self.offset = offset
        if at.connection != self.connection:
            self.shared = self.shared or at.connection in self.before or len(self.before) >= CLIENTS
            self.before.add(self.connection)
            self.connection = at.connection


class Truncated(Analyzer):
    """For one partition, finds signs that the log lost records when the leader changed."""

    __slots__ = ("_asked", "_context", "_epoch", "_high", "_low", "_readers")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._high = -1
        """The highest high watermark; `_epoch` is the highest leader epoch of the responses that reached it."""
        self._epoch = -1
        self._low: facts.PartitionIO | None = None
        """The first response with a newer leader epoch and a lower high watermark."""
        self._readers: dict[tuple[str, str], Reader] = {}
        """Maps (client id, host) to the reader."""
        self._asked: dict[tuple[str, str], facts.EpochEnd] = {}
        """Maps (client id, host) to an epoch's end that is below the client's position on another connection.

        The client's next fetch tells whether both connections belong to one consumer.
        """

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.EpochEnd):
            self._validate(fact)
        elif isinstance(fact, facts.Committed):
            # A consumer begins; its position may be older than that of the client's last consumer.
            self._readers.pop((fact.at.client_id, fact.at.peer), None)
            self._asked.pop((fact.at.client_id, fact.at.peer), None)
        elif fact.replica is None and not fact.error:
            if fact.offset is not None:
                client = fact.at.client_id, fact.at.peer
                reader = self._readers.get(client)
                if self._asked and client in self._asked and reader is not None:
                    self._confirm(client, fact, reader.offset)
                if reader is None:
                    remember(self._readers, client, Reader(fact.at, fact.offset), CLIENTS)
                else:
                    reader.fetch(fact.at, fact.offset)
            if fact.high_watermark is not None and fact.leader_epoch is not None:
                self._compare(fact, fact.high_watermark, fact.leader_epoch)

    def _compare(self, fact: facts.PartitionIO, high: int, epoch: int) -> None:
        if high >= self._high:
            self._high, self._epoch, self._low = high, max(epoch, self._epoch), None
            return
        if epoch <= self._epoch:
            return  # the response comes from a follower, or is an older one
        if self._low is None:
            self._low = fact
        lasted = fact.at.time - self._low.at.time
        if lasted < self._context.limit(TRUNCATED, "lasts_ms") * MILLISECOND:
            return
        what = f"the high watermark fell from {self._high} to {high}"
        note = f"high watermark {high} at leader epoch {epoch}, {self._high} at epoch {self._epoch}"
        evidence = at_evidence(self._low.at, "trigger", note), at_evidence(fact.at, "symptom", "still lower")
        self._report(fact, what, self._high - high, ("high", epoch), Severity.WARN, Confidence.STRONG, evidence)
        self._high, self._epoch, self._low = high, epoch, None

    def _validate(self, fact: facts.EpochEnd) -> None:
        """Take the end of a leader epoch, with which a consumer checks its position after a leader change (KIP-320)."""
        if fact.replica is not None or fact.error or fact.end_offset is None:
            return  # followers only truncate records that were never committed
        client = fact.at.client_id, fact.at.peer
        reader = self._readers.get(client)
        if fact.position is not None:
            self._lose(fact, fact.position, fact.end_offset, Severity.ERROR, Confidence.PROVEN)
        elif reader is None or reader.offset <= fact.end_offset:
            return
        elif reader.connection == fact.at.connection:
            self._lose(fact, reader.offset, fact.end_offset, Severity.ERROR, Confidence.PROVEN)
        elif not reader.shared:
            remember(self._asked, client, fact, CLIENTS)

    def _confirm(self, client: tuple[str, str], fact: facts.PartitionIO, before: int) -> None:
        """Report lost records if the consumer's first fetch after OffsetForLeaderEpoch begins at the epoch's end."""
        asked = self._asked[client]
        if fact.at.connection == asked.at.connection:
            del self._asked[client]
            if asked.end_offset is not None and fact.offset == asked.end_offset:
                self._lose(asked, before, asked.end_offset, Severity.WARN, Confidence.INFERRED)

    def _lose(self, fact: facts.EpochEnd, position: int, end: int, severity: Severity, confidence: Confidence) -> None:
        if end < position:
            what = f"leader epoch {fact.epoch} ends at {end}, {fact.at.client} had read to {position}"
            evidence = (at_evidence(fact.at, "trigger", f"epoch {fact.epoch} ends at {end}"),)
            self._report(fact, what, position - end, ("end", fact.epoch, end), severity, confidence, evidence)

    def _report(
        self, fact: Any, what: str, lost: int, episode: Hashable, severity: Severity, confidence: Confidence,
        evidence: tuple[Evidence, ...],
    ) -> None:  # fmt: skip
        self._context.report(
            TRUNCATED,
            *evidence,
            numbers={"partition": f"{fact.topic}-{fact.partition}", "what": what, "lost": lost},
            impact=Impact("records_at_risk", lost),
            episode=episode,
            severity=severity,
            confidence=confidence,
        )


class Recreated(Analyzer):
    """For one topic, finds that its id changed at a broker."""

    __slots__ = ("_context", "_ids")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ids: dict[str, dict[str, None]] = {}
        """Maps each broker address to the topic's ids there; another cluster may have a topic of the same name."""

    def feed(self, fact: facts.TopicView) -> None:
        if fact.error or fact.topic_id is None:
            return
        ids = self._ids.get(fact.at.broker, {})
        if fact.topic_id not in ids:
            if ids:
                self._report(fact)
            remember(ids, fact.topic_id, None, IDS)
            remember(self._ids, fact.at.broker, ids, CLIENTS)

    def _report(self, fact: facts.TopicView) -> None:
        what = f"it was deleted and recreated, its id is {fact.topic_id} now"
        self._context.report(
            TRUNCATED,
            at_evidence(fact.at, "trigger", f"Metadata of {fact.topic}: id {fact.topic_id}"),
            numbers={"partition": fact.topic, "what": what, "lost": 0},
            impact=Impact("records_at_risk", 0),
            episode=fact.topic_id,
            severity=Severity.NOTE,
            confidence=Confidence.PROVEN,
            cause="Somebody deleted the topic and created it again: offsets that were committed before mean nothing "
            "now.",
        )


ANALYSES = (
    Analysis(
        frozenset({TRUNCATED}),
        Key.PARTITION,
        (facts.PartitionIO, facts.EpochEnd, facts.Committed),
        Truncated,
        partition_api=api_keys.FETCH,
    ),
    Analysis(frozenset({TRUNCATED}), Key.TOPIC, (facts.TopicView,), Recreated),
)
