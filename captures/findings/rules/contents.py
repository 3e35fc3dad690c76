"""Finds unusual records: wrong timestamps, large sizes, values with and without a schema id."""

from __future__ import annotations

from typing import Final

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
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Number, Scope, Severity
from kproxy.captures.text import size_text

CLOCK = "record.clock_skew"
SIZE = "record.size"
SCHEMA = "payload.schema"
CLIENTS: Final = 5_000
TOPICS: Final = 1_000
DAY_MS: Final = 86_400_000
UNITS: Final = (("seconds", 1_000.0), ("microseconds", 1e-3), ("nanoseconds", 1e-6))
"""Units that producers use by mistake: (name, factor from this unit to milliseconds)."""
IDS: Final = 256
"""Maximum number of schema ids that are remembered for a topic."""
MINUTE: Final = 60 * SECOND
RAW_SHARE: Final = 0.05
"""A topic's values are expected to have schema ids if those without are fewer than this share of those with one."""
LARGE_BATCH: Final = 4_096
"""Only compressed batches of at least this size (bytes) are expected to be smaller than their records."""


class Clock:
    """How well a client's timestamps agree with the capture's times."""

    __slots__ = ("counts", "right", "skew")

    def __init__(self) -> None:
        self.right = 0
        """Number of samples whose timestamps agree; `counts` has the number of other samples, by kind of mismatch."""
        self.counts: dict[str, int] = {}
        self.skew = 0
        """Newest timestamp minus capture time of the latest sample, in milliseconds."""


class Clocks(Analyzer):
    """For the whole cluster, compares the timestamps of each producer with the capture's times."""

    __slots__ = ("_clients", "_context")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._clients: dict[str, Clock] = {}

    def feed(self, fact: facts.Sample) -> None:
        if fact.newest is None:
            return
        client = fact.at.client
        clock = self._clients.get(client)
        if clock is None:
            clock = Clock()
            remember(self._clients, client, clock, CLIENTS)
        asked = fact.at.asked // MILLISECOND
        clock.skew = fact.newest - asked
        what = self._kind(fact.newest, asked)
        if what is None:
            clock.right += 1
            return
        clock.counts[what] = count = clock.counts.get(what, 0) + 1
        if count < self._context.limit(CLOCK, "samples") or count <= clock.right:
            return
        if what == AHEAD and self._is_of_capture(client, clock):
            return
        self._report(fact, what, clock)

    def _kind(self, newest: int, asked: int) -> str | None:
        """How a timestamp (ms) differs from the time of its request (ms), as a clause; None if it is plausible."""
        for unit, factor in UNITS:
            if abs(newest * factor - asked) <= DAY_MS:
                return f"are in {unit} instead of milliseconds"
        if newest - asked > self._context.limit(CLOCK, "ahead_ms"):
            return AHEAD
        return BEHIND if asked - newest > self._context.limit(CLOCK, "behind_ms") else None

    def _is_of_capture(self, client: str, clock: Clock) -> bool:
        """Whether the capture's clock is wrong: another producer differs by as much as this client, and none agrees."""
        others = [one for name, one in self._clients.items() if name != client]
        if any(one.right for one in others):
            return False
        return any(abs(one.skew - clock.skew) <= self._context.limit(CLOCK, "ahead_ms") for one in others)

    def _report(self, fact: facts.Sample, what: str, clock: Clock) -> None:
        at, count = fact.at, clock.counts[what]
        away = _duration(abs(clock.skew))
        note = f"newest timestamp {fact.newest} in {fact.topic}-{fact.partition}, sent at {at.asked // MILLISECOND}"
        self._context.report(
            CLOCK,
            at_evidence(at, "trigger", note, weight=abs(clock.skew)),
            numbers={
                "client": at.client, "topic": fact.topic, "what": what, "count": count, "right": clock.right,
                "away": away,
            },
            impact=Impact("requests", count),
            episode=what,
            scope=Scope("client", at.client),
            severity=Severity.INFO if what == BEHIND else None,
            confidence=Confidence.STRONG if what not in {AHEAD, BEHIND} else None,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
            cause=None if what == AHEAD else CAUSES.get(what, UNIT),
        )  # fmt: skip


AHEAD: Final = "are ahead of the capture's clock"
BEHIND: Final = "are long past"
UNIT: Final = "The application gives timestamps in another unit: Kafka counts milliseconds since 1970."
CAUSES: Final = {BEHIND: "The producer replays or copies old records, or takes their timestamps from their content."}


def _duration(ms: int) -> str:
    """A duration in milliseconds as text, in the first of days, h and min of which it has at least 2, else in s."""
    for name, size in (("days", DAY_MS), ("h", 3_600_000), ("min", 60_000)):
        if ms >= 2 * size:
            return f"{ms // size} {name}"
    return f"{ms // 1000} s"


class Totals:
    """Sums over the samples of one client and topic; sizes in bytes."""

    __slots__ = ("header_bytes", "key_bytes", "packed", "plain", "read", "samples", "unpacked")

    def __init__(self) -> None:
        self.read = self.plain = self.key_bytes = self.header_bytes = 0
        self.samples = self.packed = 0
        """Number of large compressed batches among the samples; `packed` is their compressed size."""
        self.unpacked = 0.0


class Sizes(Analyzer):
    """For one client, finds large records, large keys, large headers, and batches that compression does not shrink."""

    __slots__ = ("_context", "_counts", "_topics")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topics: dict[str, Totals] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def feed(self, fact: facts.Sample) -> None:
        found = fact.content
        totals = self._topics.get(fact.topic)
        if totals is None:
            totals = Totals()
            remember(self._topics, fact.topic, totals, TOPICS)
        totals.read += found.read
        totals.plain += found.plain
        totals.key_bytes += found.key_bytes
        totals.header_bytes += found.header_bytes
        if fact.codec != "none" and found.ratio is not None and fact.size >= LARGE_BATCH:
            totals.samples += 1
            totals.packed += fact.size
            totals.unpacked += fact.size * found.ratio
        self._judge(fact, totals)

    def _judge(self, fact: facts.Sample, totals: Totals) -> None:
        limit, read = self._context.limit, max(1, totals.read)
        if fact.content.largest >= limit(SIZE, "record"):
            self._report(fact, "large records", f"a record of {size_text(fact.content.largest)}", LARGE)
        if totals.read >= limit(SIZE, "records"):
            headers, keys = totals.header_bytes / read, totals.key_bytes / read
            if headers >= limit(SIZE, "headers") and totals.header_bytes >= limit(SIZE, "share") * totals.plain:
                share = totals.header_bytes / max(1, totals.plain)
                self._report(
                    fact, "headers larger than the rest", f"{headers:.0f} bytes a record, {share:.0%}", HEADERS
                )
            if keys >= limit(SIZE, "key"):
                self._report(fact, "large keys", f"{keys:.0f} bytes a record", KEYS)
        if totals.samples >= limit(SIZE, "batches"):
            ratio = totals.unpacked / max(1, totals.packed)
            if ratio < limit(SIZE, "ratio"):
                example = f"{fact.codec} makes them {ratio:.2f} times smaller"
                self._report(fact, "compressed batches that do not shrink", example, CODEC)

    def _report(self, fact: facts.Sample, what: str, example: str, cause: str) -> None:
        at, key = fact.at, (fact.topic, what)
        count = self._counts.get(key, 0) + 1
        remember(self._counts, key, count, TOPICS)
        self._context.report(
            SIZE,
            at_evidence(at, "trigger", f"{fact.topic}-{fact.partition}: {example}", weight=fact.content.largest),
            numbers={"client": at.client, "topic": fact.topic, "what": what, "example": example, "count": count},
            impact=Impact("requests", count),
            episode=key,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
            cause=cause,
        )


LARGE: Final = (
    "Whole documents or files are sent as records; brokers refuse those beyond max.message.bytes (1 MiB by default)."
)
HEADERS: Final = "Tracing, routing or audit data in the headers of each record outweigh its content."
KEYS: Final = "Whole objects are used as keys."
CODEC: Final = "The payloads are compressed or encrypted already: the codec costs CPU and saves nothing."


class Schemas(Analyzer):
    """For one topic, finds new schema ids, and values without one beside values with one."""

    __slots__ = ("_context", "_first", "_framed", "_ids", "_raw", "_samples")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._first = 0
        self._framed = self._raw = 0
        self._ids: dict[int, None] = {}
        self._samples: dict[bool, facts.At] = {}
        """The exchanges of the latest samples: key True for values with a schema id, False for values without."""

    def feed(self, fact: facts.Sample) -> None:
        framed, raw = fact.content.framed, fact.content.raw
        at, limit = fact.at, self._context.limit
        self._first = self._first or at.time
        settled = (
            self._framed >= limit(SCHEMA, "settled")
            and self._raw < RAW_SHARE * self._framed
            and at.time - self._first >= limit(SCHEMA, "settled_s") * SECOND
        )
        for number, _ in framed:
            if number not in self._ids:
                if settled and len(self._ids) < limit(SCHEMA, "ids"):
                    self._new(fact, number)
                remember(self._ids, number, None, IDS)
        count = sum(one for _, one in framed)
        self._framed += count
        self._raw += raw
        if count:
            self._samples[True] = at
        if raw:
            self._samples[False] = at
        least = limit(SCHEMA, "records")
        if min(self._framed, self._raw) >= least and len(self._ids) <= limit(SCHEMA, "ids"):
            self._mixed()

    def _new(self, fact: facts.Sample, number: int) -> None:
        at, topic = fact.at, self._context.key
        evidence = at_evidence(at, "trigger", f"values in {topic}-{fact.partition} begin with 0 and schema id {number}")
        what = f"with a schema id that is new there: {number}, from {at.client}"
        self._report(what, f"known before: {len(self._ids)}", (evidence,), ("new", number), Severity.INFO, NEW)

    def _mixed(self) -> None:
        framed, raw = self._samples[True], self._samples[False]
        evidence = (
            at_evidence(framed, "baseline", f"{framed.client} sends values with a schema id"),
            at_evidence(raw, "trigger", f"{raw.client} sends values without one"),
        )
        example = f"values with an id: {self._framed}, without: {self._raw}"
        self._report(MIXED, example, evidence, "mixed", None, None)

    def _report(
        self, what: str, example: str, evidence: tuple[Evidence, ...], episode: object, severity: Severity | None,
        cause: str | None,
    ) -> None:  # fmt: skip
        numbers: dict[str, Number] = {"topic": self._context.key, "what": what, "example": example}
        self._context.report(
            SCHEMA,
            *evidence,
            numbers=numbers,
            impact=Impact("records_at_risk", min(self._framed, self._raw)),
            episode=str(episode),
            severity=severity,
            cause=cause,
        )


MIXED: Final = "with and without the id of a schema"
NEW: Final = "A producer was deployed with another version of its schema."

ANALYSES = (
    Analysis(frozenset({CLOCK}), Key.CLUSTER, (facts.Sample,), Clocks),
    Analysis(frozenset({SIZE}), Key.CLIENT, (facts.Sample,), Sizes),
    Analysis(frozenset({SCHEMA}), Key.TOPIC, (facts.Sample,), Schemas),
)
