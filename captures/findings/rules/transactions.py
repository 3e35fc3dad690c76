"""Finds transactions that stay open, and consumers that wait for them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    SECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    at_evidence,
    remember,
)
from kproxy.captures.findings.model import Actor, Confidence, Impact, Scope, Severity
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import api_keys

STALL = "txn.lso_stall"
PLACES: Final = 10_000
"""Maximum number of partitions, and of transactional batches, that are remembered."""
PRODUCERS: Final = 10_000
CLIENTS: Final = 64
"""Maximum number of waiting consumers that are remembered for a partition."""
Place: TypeAlias = tuple[str, int]


class Write(NamedTuple):
    """A transactional batch that the broker appended."""

    at: facts.At
    producer: int
    after: int
    """Time (ns) when the producer id's previous transaction ended, 0 if unknown; identifies the transaction."""


class Identity(NamedTuple):
    """Transactional id and timeout with which a client got a producer id (InitProducerId)."""

    name: str
    timeout_ms: int | None


class Stall:
    """A partition whose last stable offset is below the high watermark: an open transaction holds records back."""

    __slots__ = ("first", "high", "last", "stable", "told", "waiting", "write")

    def __init__(self, at: facts.At, stable: int, high: int, write: Write | None) -> None:
        self.first = self.last = at
        """The first and the latest Fetch response with this last stable offset."""
        self.stable = stable
        self.high = high
        self.write = write
        """The first batch of the open transaction; None if it is not in the capture."""
        self.waiting: dict[str, None] = {}
        """Names of consumers that fetched at the last stable offset and got no records."""
        self.told = False


class Held:
    """How many offsets one transaction holds back."""

    __slots__ = ("begun", "offsets")

    def __init__(self, begun: int) -> None:
        self.begun = begun
        """Time (ns) since when the transaction is known to hold offsets back."""
        self.offsets: dict[Place, int] = {}
        """Maps each partition to its number of held back offsets."""


class Stalls(Analyzer):
    """For the whole cluster, finds partitions whose last stable offset does not move, and the open transactions."""

    __slots__ = ("_context", "_ends", "_held", "_identities", "_stalls", "_writes")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stalls: dict[Place, Stall] = {}
        self._writes: dict[tuple[Place, int], Write] = {}
        """Maps (partition, base offset) to the transactional batch there."""
        self._identities: dict[int, Identity] = {}
        self._ends: dict[int, int] = {}
        """Maps each producer id to the time (ns) when its last transaction ended; InitProducerId ends one too."""
        self._held: dict[tuple[str, int], Held] = {}
        """Maps (scope's name, transaction) to the offsets that the transaction holds back."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Produced):
            if fact.producer_id is not None:
                self._produced(fact)
        elif isinstance(fact, facts.PartitionIO):
            if fact.last_stable is not None and fact.high_watermark is not None and not fact.error:
                if fact.last_stable < fact.high_watermark:
                    self._stalled(fact, fact.last_stable, fact.high_watermark)
                elif self._stalls:
                    self._stalls.pop((fact.topic, fact.partition), None)
        else:
            self._step(fact)

    def tick(self) -> None:
        """Judge partitions whose last stable offset has not moved for some time, even if nobody fetched since."""
        due = []
        for place, stall in self._stalls.items():
            end = stall.first.time + self._flat
            if stall.told or stall.write is None:
                continue
            if end > self._context.now:
                due.append(end)
            elif stall.write.producer in self._identities:
                self._judge(place, stall, self._context.now)
        if due:
            self._context.wake(max(min(due), self._context.now + SECOND))

    @property
    def _flat(self) -> int:
        return int(self._context.limit(STALL, "flat_ms") * MILLISECOND)

    def _produced(self, fact: facts.Produced) -> None:
        for one in fact.batches:
            if one.transactional and not one.error and one.offset is not None and one.producer_id is not None:
                self._write((one.topic, one.partition), one.offset, one.at, one.producer_id)

    def _write(self, place: Place, offset: int, at: facts.At, producer: int) -> None:
        write = Write(at, producer, self._ends.get(producer, 0))
        remember(self._writes, (place, offset), write, PLACES)
        stall = self._stalls.get(place)
        if stall is not None and stall.stable == offset and stall.write is None:
            stall.write = write  # the capture has the consumer's response before the producer's
            self._context.wake(stall.first.time + self._flat)

    def _step(self, fact: facts.Txn) -> None:
        if fact.error or fact.producer_id is None:
            return
        if fact.what == "init":
            identity = Identity(fact.transactional_id, fact.timeout_ms)
            remember(self._identities, fact.producer_id, identity, PRODUCERS)
        if fact.what in {"init", "end"}:
            remember(self._ends, fact.producer_id, fact.at.time, PRODUCERS)

    def _stalled(self, fact: facts.PartitionIO, stable: int, high: int) -> None:
        at, place = fact.at, (fact.topic, fact.partition)
        stall = self._stalls.get(place)
        if stall is None or stall.stable != stable:
            stall = Stall(at, stable, high, self._writes.get((place, stable)))
            remember(self._stalls, place, stall, PLACES)
            if stall.write is not None:
                self._context.wake(at.time + self._flat)
        stall.last, stall.high = at, high
        if fact.offset == stable and not fact.size and len(stall.waiting) < CLIENTS:
            stall.waiting[at.client] = None
        if at.time - stall.first.time >= self._flat:
            self._judge(place, stall, at.time)

    def _judge(self, place: Place, stall: Stall, now: int) -> None:
        """Report the transaction that holds a partition's last stable offset back; `now` in ns."""
        write = stall.write
        begun = stall.first.time if write is None else write.at.asked
        ended = None if write is None else self._ends.get(write.producer)
        seen = stall.last.time - stall.first.time >= self._flat
        if ended is not None and ended > begun:
            if stall.last.time - ended < self._flat:
                return  # the transaction's markers may still be on their way, or nobody has fetched since
            begun = ended
        else:
            ended = None
        stall.told = True
        identity = None if write is None else self._identities.get(write.producer)
        scope, name = Scope("partition", f"{place[0]}-{place[1]}"), "a producer outside this capture"
        key = scope.name, stall.stable
        if write is not None:
            name = f"producer id {write.producer}" if identity is None else f"transactional id {identity.name}"
            scope = Scope("transaction", name if identity is None else identity.name)
            key = scope.name, write.after
        held = self._held.get(key) or Held(begun)
        remember(self._held, key, held)
        remember(held.offsets, place, stall.high - stall.stable, PLACES)
        held.begun = begun if ended else min(held.begun, begun)
        lasted = now - held.begun
        severity = self._severity(stall, lasted, identity, ended=ended is not None) if seen else Severity.NOTE
        note = f"{place[0]}-{place[1]}: last stable offset {stall.stable}, high watermark {stall.high}"
        evidence = [at_evidence(stall.last, "symptom", note, weight=lasted)]
        actors = []
        if write is not None:
            text = f"{write.at.client} wrote offset {stall.stable} of {place[0]}-{place[1]} in this transaction"
            evidence.insert(0, at_evidence(write.at, "culprit", text))
            actors.append(Actor("culprit", write.at.peer, write.at.client_id or None))
        self._context.report(
            STALL,
            *evidence,
            numbers={
                "owner": name if write is None else f"{name} ({write.at.client})",
                "does": "ended its transaction, but its markers are missing" if ended else "keeps a transaction open",
                "seconds": lasted / SECOND, "records": counted(sum(held.offsets.values()), "offset"),
                "partitions": len(held.offsets),
                "waiting": len(stall.waiting), "example": note,
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=key,
            scope=scope,
            severity=severity,
            confidence=Confidence.PROVEN if seen and write is not None else None,
            actors=tuple(actors),
        )  # fmt: skip

    def _severity(self, stall: Stall, lasted: int, identity: Identity | None, *, ended: bool) -> Severity:
        """The severity of a transaction that has held records back for `lasted` ns.

        NOTE before the producer's timeout, then WARN, and ERROR a grace period later. Thresholds replace an unknown
        timeout, and the timeout of a transaction that has `ended` without markers. One step lower if no consumer waits.
        """
        grace = self._context.limit(STALL, "grace_ms")
        long, most = self._context.limit(STALL, "long_ms"), self._context.limit(STALL, "hanging_s") * 1000
        if ended:
            long = self._context.limit(STALL, "flat_ms")
        elif identity is not None and identity.timeout_ms is not None:
            long, most = identity.timeout_ms, identity.timeout_ms + grace
        severity = Severity.NOTE
        if lasted >= most * MILLISECOND:
            severity = Severity.ERROR
        elif lasted >= long * MILLISECOND:
            severity = Severity.WARN
        return severity if stall.waiting else Severity(max(Severity.NOTE, severity - 1))


ANALYSES = (
    Analysis(
        frozenset({STALL}),
        Key.CLUSTER,
        (facts.PartitionIO, facts.Produced, facts.Txn),
        Stalls,
        partition_api=api_keys.FETCH,
    ),
)
