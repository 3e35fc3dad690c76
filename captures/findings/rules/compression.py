"""Finds batches that are not compressed, and batches that brokers compress again or convert."""

from __future__ import annotations

import re
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, Analysis, Analyzer, Context, Key, at_evidence, remember
from kproxy.captures.findings.model import Actor, Confidence, Impact
from kproxy.decoders.batches.batch import V2_HEADER
from kproxy.decoders.schema import api_keys

UNCOMPRESSED = "producer.uncompressed"
RECODED = "broker.recompress"
MINUTE: Final = 60 * SECOND
TOPICS: Final = 1_000
LIBRDKAFKA: Final = re.compile(r"librdkafka[ -]v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
FIXED: Final = (2, 11, 1)
"""First librdkafka release that compresses for a broker whose lowest Produce version is above 0."""
RECORD_BATCHES: Final = 3
"""First version of Produce that carries batches of magic 2."""


class Plain:
    """Uncompressed batches that a client sent to a topic."""

    __slots__ = ("minute", "packed", "sample", "size", "tried", "wasted")

    def __init__(self) -> None:
        self.minute = 0
        """Number of the present minute since the epoch; `size` is the number of bytes sent in that minute."""
        self.size = 0
        self.tried = self.packed = 0.0
        """Sizes of the samples in bytes: uncompressed (`tried`), and as LZ4 would compress them (`packed`)."""
        self.sample: facts.Sample | None = None
        self.wasted = 0.0


class Uncompressed(Analyzer):
    """For one client, finds topics to which it sends uncompressed batches that would shrink."""

    __slots__ = ("_cannot", "_context", "_topics")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topics: dict[str, Plain] | None = None
        """The topics to which the client sends uncompressed batches; None before the first: most clients have none."""
        self._cannot: str | None = None
        """The name and version of the client's librdkafka, if that version cannot compress for this broker."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Offered):
            self._offered(fact)
        elif fact.codec != "none":
            if self._topics is not None:
                self._topics.pop(fact.topic, None)
        else:
            if self._topics is None:
                self._topics = {}
            plain = self._topics.get(fact.topic)
            if plain is None:
                plain = Plain()
                remember(self._topics, fact.topic, plain, TOPICS)
            if isinstance(fact, facts.Volume):
                self._count(plain, fact)
            elif fact.content.ratio is not None:
                plain.sample = fact
                plain.tried += fact.size
                plain.packed += V2_HEADER + (fact.size - V2_HEADER) / max(fact.content.ratio, 0.01)

    def close(self) -> None:
        for plain in (self._topics or {}).values():
            self._judge(plain)

    def _offered(self, fact: facts.Offered) -> None:
        found = LIBRDKAFKA.search(fact.software)
        lowest = next((least for key, least, _ in fact.ranges if key == api_keys.PRODUCE), 0)
        if found is not None and lowest >= RECORD_BATCHES and tuple(map(int, found.groups())) < FIXED:
            self._cannot = found.group()

    def _count(self, plain: Plain, fact: facts.Volume) -> None:
        minute = fact.at.time // MINUTE
        if minute != plain.minute:
            self._judge(plain)
            plain.minute, plain.size = minute, 0
        plain.size += fact.size

    def _judge(self, plain: Plain) -> None:
        """Report the present minute if it had many uncompressed bytes, and samples show that they would shrink."""
        sample = plain.sample
        if sample is None or not plain.packed or plain.size < self._context.limit(UNCOMPRESSED, "bytes"):
            return
        ratio = plain.tried / plain.packed
        if ratio < self._context.limit(UNCOMPRESSED, "ratio"):
            return
        plain.wasted += plain.size * (1 - 1 / ratio)
        at = sample.at
        example = f"a batch of {sample.size} bytes; LZ4 makes such batches {ratio:.1f} times smaller"
        self._context.report(
            UNCOMPRESSED,
            at_evidence(at, "trigger", example, weight=sample.size),
            numbers={
                "client": at.client, "topic": sample.topic, "bytes": plain.size, "ratio": ratio,
                "wasted": round(plain.wasted),
            },
            impact=Impact("bytes_wasted", round(plain.wasted)),
            episode=sample.topic,
            confidence=Confidence.STRONG,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
            cause=None if self._cannot is None else f"{self._cannot} {CANNOT}",
        )  # fmt: skip


CANNOT: Final = (
    "sends batches uncompressed, whatever compression.type says, to a broker that offers no Produce below version 3."
)


class Recoded(Analyzer):
    """For one topic, finds batches that consumers get with another codec or format than the producer sent."""

    __slots__ = ("_context", "_counts")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counts: dict[tuple[str, str], int] = {}

    def feed(self, fact: facts.Recoded) -> None:
        down = fact.magic < fact.sent_magic
        sent, got = fact.sent_codec, fact.codec
        if down:
            sent, got = f"{sent}, magic {fact.sent_magic}", f"{got}, magic {fact.magic}"
        count = self._counts.get((sent, got), 0) + 1
        remember(self._counts, (sent, got), count, TOPICS)
        producer = fact.produced
        where = f"{fact.topic}-{fact.partition} at offset {fact.offset}"
        self._context.report(
            RECODED,
            at_evidence(producer, "baseline", f"{where}: sent as {sent}, {fact.sent_size} bytes"),
            at_evidence(fact.at, "symptom", f"{where}: fetched as {got}, {fact.size} bytes"),
            numbers={
                "topic": fact.topic, "sent": sent, "got": got, "count": count, "producer": producer.client,
                "consumer": fact.at.client, "example": where,
            },
            impact=Impact("requests", count),
            episode=(sent, got),
            actors=(Actor("culprit", producer.peer, producer.client_id or None),),
            cause=DOWN if down else None,
        )  # fmt: skip


DOWN: Final = (
    "The consumer asks with an old version of Fetch (before v4), and the broker converts batches to the format that it "
    "knows, for each response anew."
)

ANALYSES = (
    Analysis(frozenset({UNCOMPRESSED}), Key.CLIENT, (facts.Volume, facts.Sample, facts.Offered), Uncompressed),
    Analysis(frozenset({RECODED}), Key.TOPIC, (facts.Recoded,), Recoded),
)
