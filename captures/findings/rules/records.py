"""Finds damaged batches, and messages that are too large for their consumer."""

from __future__ import annotations

from typing import Final, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import MILLISECOND, Analysis, Analyzer, Context, Key, at_evidence, remember
from kproxy.captures.findings.model import Actor, Impact
from kproxy.decoders.schema import api_keys

CORRUPT = "record.corrupt"
OVERSIZE = "fetch.oversize_stuck"
PLACES: Final = 1_000
Place: TypeAlias = tuple[str, int]


class Damage(Analyzer):
    """For one topic, finds batches whose CRC does not match their bytes."""

    __slots__ = ("_context", "_counts")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counts: dict[tuple[str, str], int] = {}
        """Maps ("sent", client) or ("served", broker) to the number of damaged batches."""

    def feed(self, fact: facts.Corrupt) -> None:
        at = fact.at
        if not fact.crc or not self._context.whole(at.connection):
            return
        produced = at.key == api_keys.PRODUCE
        who, what = (at.client, "sent") if produced else (at.broker, "served")
        count = self._counts.get((what, who), 0) + 1
        remember(self._counts, (what, who), count, PLACES)
        where = f"{fact.topic}-{fact.partition}"
        place = where if produced or fact.base_offset is None else f"{where} at offset {fact.base_offset}"
        example = f"{fact.size} bytes of {place}, the CRC says {fact.crc:#010x}"
        self._context.report(
            CORRUPT,
            at_evidence(at, "trigger", example, weight=fact.size),
            numbers={"who": who, "what": what, "topic": fact.topic, "count": count, "example": example},
            impact=Impact("records_at_risk", count),
            episode=(what, who),
            actors=(Actor("culprit" if produced else "victim", at.peer, at.client_id or None),),
            cause=PRODUCED if produced else None,
        )


PRODUCED: Final = (
    "The producer's library writes wrong CRCs, or something between the producer and this capture changes bytes."
)


class TooLarge(Analyzer):
    """For one client, finds partitions whose next message does not fit into a Fetch response."""

    __slots__ = ("_context", "_cut")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cut: dict[Place, tuple[facts.CutRecord, int]] = {}
        """Maps each partition to (first response at the present offset, number of such responses)."""

    def feed(self, fact: facts.CutRecord) -> None:
        place = fact.topic, fact.partition
        first, count = self._cut.get(place, (fact, 0))
        if first.offset != fact.offset:
            first, count = fact, 0
        remember(self._cut, place, (first, count + 1), PLACES)
        if count + 1 < self._context.limit(OVERSIZE, "answers"):
            return
        lasted = fact.at.time - first.at.time
        size = "unknown" if fact.size is None else fact.size
        note = f"only a part of the message at offset {fact.offset}"
        self._context.report(
            OVERSIZE,
            at_evidence(first.at, "trigger", note),
            at_evidence(fact.at, "symptom", f"the same for the {count + 1}th time"),
            numbers={
                "client": fact.at.client, "partition": f"{place[0]}-{place[1]}",
                "offset": "unknown" if fact.offset is None else fact.offset, "count": count + 1, "size": size,
                "most": "unknown" if fact.most is None else fact.most,
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=(place, fact.offset),
            actors=(Actor("victim", fact.at.peer, fact.at.client_id or None),),
        )  # fmt: skip


ANALYSES = (
    Analysis(frozenset({CORRUPT}), Key.TOPIC, (facts.Corrupt,), Damage),
    Analysis(frozenset({OVERSIZE}), Key.CLIENT, (facts.CutRecord,), TooLarge),
)
