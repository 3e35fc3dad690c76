"""Finds consumers that skip or repeat records, that are stuck at an offset, or that mix offset storages."""

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
from kproxy.captures.findings.model import Actor, Evidence, Impact, Severity
from kproxy.captures.lag import LATEST
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import api_keys

SKIP = "consumer.offset_skip"
POISON = "consumer.poison"
SPLIT = "offsets.storage_split"
OUT_OF_RANGE: Final = 1
"""Error code OFFSET_OUT_OF_RANGE."""
EARLIEST: Final = -2
RESETS: Final = {LATEST: "the latest offset", EARLIEST: "the earliest offset"}
PLACES: Final = 10_000
"""Maximum number of partitions that are remembered for a client."""
CLIENTS: Final = 1_000
"""Maximum number of clients that are remembered for a group."""
Place: TypeAlias = tuple[str, int]


class OutOfRange(NamedTuple):
    """A refused fetch offset. `held`: it existed before, as the client had read there or its group had committed it."""

    at: facts.At
    offset: int
    held: bool


class Uncommitted(NamedTuple):
    """An OffsetFetch response without a committed offset; `earlier` is True if the group had committed one before."""

    at: facts.At
    group: str
    earlier: bool


class Position:
    """A client's fetch offset in a partition; `times` is the number of responses with records there."""

    __slots__ = ("connection", "first", "offset", "times")

    def __init__(self, at: facts.At, offset: int) -> None:
        self.move(at, offset)

    def move(self, at: facts.At, offset: int) -> None:
        """Set the position to another offset, or to another connection."""
        self.offset = offset
        self.connection = at.connection
        self.first = at
        self.times = 0


class Start:
    """A committed offset at which a client began to read, perhaps several times."""

    __slots__ = ("first", "group", "offset", "read", "times")

    def __init__(self, fact: facts.Committed, offset: int) -> None:
        self.group = fact.group
        self.offset = offset
        self.first = fact.at
        self.times = 0
        """How often the client began here again after it had received records from here."""
        self.read = False
        """Whether the client has received records from here since it last began."""


class Partition:
    """What is known of a partition that a client reads."""

    __slots__ = ("committed", "lookup", "lost", "place", "position", "start", "uncommitted")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.position: Position | None = None
        """The fetch offset of the latest successful request."""
        self.start: Start | None = None
        self.committed: tuple[str, int] | None = None
        """(group, committed offset), the latest one."""
        self.lost: OutOfRange | None = None
        self.uncommitted: Uncommitted | None = None
        self.lookup: facts.OffsetLookup | None = None
        """The latest ListOffsets response."""


def _lookup(partition: Partition, since: facts.At, offset: int) -> facts.OffsetLookup | None:
    """The latest ListOffsets response, if it came after `since` and returned `offset`; otherwise None."""
    found = partition.lookup
    return found if found is not None and found.at.time >= since.time and found.offset == offset else None


class Positions(Analyzer):
    """For one client, finds offsets that it skips, repeats, or cannot get beyond."""

    __slots__ = ("_amounts", "_context", "_often", "_partitions")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._often = context.limit(POISON, "fetches")
        self._partitions: dict[Place, Partition] = {}
        self._amounts: dict[tuple[str, str], dict[int, int]] | None = None
        """Maps (topic, kind of event) to {partition: number of offsets}; None before the first event."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.PartitionIO):
            if fact.replica is None:
                self._fetched(fact)
        elif fact.error:
            return
        elif isinstance(fact, facts.OffsetLookup):
            self._partition(fact).lookup = fact
        elif isinstance(fact, facts.Committed) and fact.offset is None:
            partition = self._partition(fact)
            group, _ = partition.committed or (None, 0)
            partition.uncommitted = Uncommitted(fact.at, fact.group, group == fact.group)
        elif fact.offset is not None:
            partition = self._partition(fact)
            partition.uncommitted = None
            partition.committed = fact.group, fact.offset
            if isinstance(fact, facts.Committed):
                self._start(partition, fact, fact.offset)
            elif partition.start is not None and partition.start.offset != fact.offset:
                partition.start = None

    def _partition(self, fact: Any) -> Partition:
        """What is known of the fact's partition."""
        place = fact.topic, fact.partition
        partition = self._partitions.get(place)
        if partition is None:
            partition = Partition(place)
            remember(self._partitions, place, partition, PLACES)
        return partition

    def _fetched(self, fact: facts.PartitionIO) -> None:
        partition, offset = self._partition(fact), fact.offset
        if fact.error == OUT_OF_RANGE:
            known = partition.position
            position = offset if offset is not None or known is None else known.offset
            if position is not None and partition.lost is None:
                committed = partition.committed
                held = known is not None or (committed is not None and committed[1] == position)
                partition.lost = OutOfRange(fact.at, position, held)
        elif not fact.error:
            if offset is not None:
                if partition.lost is not None:
                    self._report_skip(partition, partition.lost, fact, offset)
                if partition.uncommitted is not None:
                    self._begin(partition, partition.uncommitted, fact, offset)
            self._note(partition, fact, offset)

    def _note(self, partition: Partition, fact: facts.PartitionIO, offset: int | None) -> None:
        """Take the fetch offset of a successful request; None means that it is that of the previous request."""
        position = partition.position
        if position is None:
            if offset is None:
                return
            position = partition.position = Position(fact.at, offset)
        elif (offset is not None and offset != position.offset) or position.connection != fact.at.connection:
            position.move(fact.at, position.offset if offset is None else offset)
        if fact.size:
            position.times += 1
            if position.times >= self._often:
                self._stay(partition.place, fact, position)
            start = partition.start
            if start is not None and start.offset == position.offset:
                start.read = True

    def _stay(self, place: Place, fact: facts.PartitionIO, position: Position) -> None:
        """Report a client that has received records at the same offset many times, if that lasted long enough."""
        lasted = fact.at.time - position.first.time
        if lasted < self._context.limit(POISON, "lasts_ms") * MILLISECOND:
            return
        what = f"fetched offset {position.offset} of {place[0]}-{place[1]} again and again"
        evidence = (
            at_evidence(position.first, "trigger", f"records at offset {position.offset}"),
            at_evidence(fact.at, "symptom", f"the same for the {position.times}th time"),
        )
        self._stuck(place, position.offset, what, position.times, lasted, Severity.NOTE, evidence)

    def _start(self, partition: Partition, fact: facts.Committed, offset: int) -> None:
        """Take the committed offset at which a client begins to read; report it if the client began there often."""
        place, start = partition.place, partition.start
        if start is None or start.offset != offset or start.group != fact.group:
            partition.start = Start(fact, offset)
            return
        if not start.read:
            return  # tools fetch committed offsets too, but read no records
        start.read = False
        start.times += 1
        lasted = fact.at.time - start.first.time
        enough = lasted >= self._context.limit(POISON, "lasts_ms") * MILLISECOND
        if start.times < self._context.limit(POISON, "starts") or not enough:
            return
        what = f"began again at offset {offset} of {place[0]}-{place[1]}, the commit of group {start.group}"
        evidence = (
            at_evidence(start.first, "trigger", f"committed offset {offset}"),
            at_evidence(fact.at, "symptom", f"still {offset}, after records were read from there"),
        )
        self._stuck(place, offset, what, start.times, lasted, Severity.WARN, evidence)

    def _stuck(
        self, place: Place, offset: int, what: str, times: int, lasted: int, severity: Severity,
        evidence: tuple[Evidence, Evidence],
    ) -> None:  # fmt: skip
        name, peer = self._context.key
        self._context.report(
            POISON,
            *evidence,
            numbers={
                "client": facts.client_name(name, peer), "what": what, "times": times,
                "seconds": lasted / SECOND,
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=(place, offset),
            severity=severity,
            actors=(Actor("victim", peer, name or None),),
        )  # fmt: skip

    def _report_skip(self, partition: Partition, lost: OutOfRange, fact: facts.PartitionIO, offset: int) -> None:
        """Report what a client skips or repeats; `fact` is its first successful fetch after a refused offset."""
        place = partition.place
        old = fact.at.time - lost.at.time > self._context.limit(SKIP, "within_ms") * MILLISECOND
        if old or offset == lost.offset:
            partition.lost = None  # only a follower lacked the offset, or the application moved elsewhere later
            return
        if fact.at.connection != lost.at.connection:
            return  # another consumer may have the same client id
        partition.lost = None
        lookup = _lookup(partition, lost.at, offset)
        how = "an offset of the application's choice" if lookup is None else RESETS.get(lookup.timestamp or 0, "a time")
        example = f"{place[0]}-{place[1]}: {lost.offset} was out of range, went on at {offset}, {how}"
        evidence = [at_evidence(lost.at, "trigger", f"OFFSET_OUT_OF_RANGE at {lost.offset}")]
        if lookup is not None:
            evidence.append(at_evidence(lookup.at, "culprit", f"ListOffsets answered {offset}, {how}"))
        amount = abs(offset - lost.offset)
        evidence.append(at_evidence(fact.at, "symptom", f"goes on at {offset}", weight=amount))
        if offset > lost.offset:
            severity, what = Severity.ERROR if lost.held else Severity.WARN, "skipped"
        elif lookup is not None and lookup.timestamp == LATEST:
            severity, what = Severity.WARN, "was beyond the end by"
        else:
            severity, what = Severity.WARN, "reads again"
        self._report(what, place, amount, example, evidence, severity, fact.at)

    def _begin(self, partition: Partition, missing: Uncommitted, fact: facts.PartitionIO, offset: int) -> None:
        """Report what a client skips; `fact` is its first successful fetch where its group has no committed offset."""
        place = partition.place
        partition.uncommitted = None
        lookup = _lookup(partition, missing.at, offset)
        if lookup is None or lookup.timestamp != LATEST or fact.log_start is None or offset <= fact.log_start:
            return
        amount = offset - fact.log_start
        how = "its earlier commit is gone" if missing.earlier else "it has no commit"
        example = (
            f"{place[0]}-{place[1]}: group {missing.group} begins at offset {offset} instead of {fact.log_start}, "
            f"because {how}"
        )
        evidence = [
            at_evidence(missing.at, "trigger", f"no committed offset of group {missing.group}"),
            at_evidence(lookup.at, "culprit", f"ListOffsets answered {offset}, the latest offset"),
            at_evidence(fact.at, "symptom", f"begins at {offset}", weight=amount),
        ]
        severity = Severity.WARN if missing.earlier else Severity.NOTE
        self._report("never reads", place, amount, example, evidence, severity, fact.at)

    def _report(
        self, what: str, place: Place, amount: int, example: str, evidence: list[Evidence], severity: Severity,
        at: facts.At,
    ) -> None:  # fmt: skip
        key = place[0], what
        if self._amounts is None:
            self._amounts = {}
        amounts = self._amounts.get(key, {})
        remember(amounts, place[1], amounts.get(place[1], 0) + amount, PLACES)
        remember(self._amounts, key, amounts)
        total = sum(amounts.values())
        self._context.report(
            SKIP,
            *evidence,
            numbers={
                "client": at.client, "what": f"{what} up to {counted(total, 'offset')}", "topic": place[0],
                "partitions": len(amounts), "offsets": total, "example": example,
            },
            impact=Impact("records_at_risk", total),
            episode=key,
            severity=severity,
            actors=(Actor("victim", at.peer, at.client_id or None),),
            cause=CAUSES.get(what),
        )  # fmt: skip


Firsts: TypeAlias = tuple[facts.At | None, facts.At | None]
"""A client's first request that used offsets in ZooKeeper (version 0), and its first that used offsets in Kafka."""
NEITHER: Final[Firsts] = (None, None)


class Storage(Analyzer):
    """For one group, finds clients that commit offsets to ZooKeeper but fetch them from Kafka, or the reverse."""

    __slots__ = ("_committed", "_context", "_fetched")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._committed: dict[str, Firsts] = {}
        """Maps each client to its first commit to ZooKeeper and to Kafka; `_fetched` has its first fetches."""
        self._fetched: dict[str, Firsts] = {}

    def feed(self, fact: facts.Commit | facts.Committed) -> None:
        if fact.error or fact.at.version < 0:
            return
        kept = self._committed if isinstance(fact, facts.Commit) else self._fetched
        client, in_kafka = fact.at.client, fact.at.version > 0
        firsts = kept.get(client, NEITHER)
        first = firsts[in_kafka]
        if first is None:
            remember(kept, client, (firsts[0], fact.at) if in_kafka else (fact.at, firsts[1]), CLIENTS)
        elif isinstance(fact, facts.Commit) and fact.at.exchange != first.exchange:
            self._judge(fact.group, client)

    def _judge(self, group: str, client: str) -> None:
        match self._committed.get(client, NEITHER), self._fetched.get(client, NEITHER):
            case (None, facts.At() as commit), (facts.At() as fetch, None):
                in_kafka = True
            case (facts.At() as commit, None), (None, facts.At() as fetch):
                in_kafka = False
            case _:
                return
        to, source = ("Kafka", "ZooKeeper") if in_kafka else ("ZooKeeper", "Kafka")
        self._context.report(
            SPLIT,
            at_evidence(commit, "culprit", f"OffsetCommit v{commit.version} writes to {to}"),
            at_evidence(fetch, "culprit", f"OffsetFetch v{fetch.version} reads from {source}"),
            numbers={"group": group, "client": client, "to": to, "source": source},
            impact=Impact("requests", 2),
            episode=client,
            actors=(Actor("culprit", commit.peer, commit.client_id or None),),
        )


CAUSES: Final = {
    "never reads": "The group has no committed offset, and auto.offset.reset is latest: it begins after all existing "
    "records.",
    "was beyond the end by": "The log ends before the consumer's position: records were lost with a leader (unclean "
    "election), or the topic was recreated.",
    "reads again": "The consumer's position is not in the log any more, and auto.offset.reset is earliest.",
}
"""The cause of each kind of event. Other kinds have the cause in the rule's row."""

ANALYSES = (
    Analysis(
        frozenset({SKIP, POISON}),
        Key.CLIENT,
        (facts.PartitionIO, facts.OffsetLookup, facts.Committed, facts.Commit),
        Positions,
        partition_api=api_keys.FETCH,
    ),
    Analysis(frozenset({SPLIT}), Key.GROUP, (facts.Commit, facts.Committed), Storage),
)
