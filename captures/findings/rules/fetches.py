"""Finds inefficient fetching: refused sessions, tiny responses, responses at the size limit, records fetched twice."""

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
    append,
    at_evidence,
    error_field,
    remember,
)
from kproxy.captures.findings.model import Actor, Evidence, Impact
from kproxy.decoders.schema import api_keys, errors

REFUSED = "fetch.session_refused"
TINY = "fetch.tiny_polls"
BOUND = "fetch.size_bound"
AGAIN = "fetch.refetch"
MINUTE: Final = 60 * SECOND
BROKERS: Final = 1_000
"""Maximum number of brokers that are remembered for a client."""
CONNECTIONS: Final = 1_000
"""Maximum number of connections that are remembered for a client."""
PLACES: Final = 1_000
"""Maximum number of partitions, by connection, that are remembered for a client."""
LATEST: Final = 16
"""Number of responses with records, for each partition, whose fetch offsets are remembered."""
WAIT_MS: Final = 500
"""Default of fetch.max.wait.ms: a client whose Fetch requests wait that long sends two a second."""
Place: TypeAlias = tuple[int, str, int]
"""(connection, topic, partition)."""


class Asking(NamedTuple):
    """A client's requests to a broker that got no fetch session: the first, their number, sum of their partitions."""

    first: facts.At
    number: int
    partitions: int


class Sessions(Analyzer):
    """For one client, finds brokers that grant it no fetch session, or drop its session."""

    __slots__ = ("_context", "_lost", "_refused", "_total")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refused: dict[str, Asking] = {}
        """Maps each broker to the consecutive requests for a new session that it did not grant."""
        self._lost: dict[str, Asking] = {}
        """Maps each broker to the requests of the present minute whose session it did not know."""
        self._total: dict[tuple[str, str], int] = {}
        """Maps (broker, name of the threshold) to the number of failed requests that the finding counts."""

    def feed(self, fact: facts.FetchSession) -> None:
        broker = fact.at.broker
        if fact.error:
            before = self._lost.get(broker)
            if before is not None and fact.at.time - before.first.time > MINUTE:
                before = None
            self._count(self._lost, before, fact, "errors", errors.name(fact.error))
        elif fact.granted:
            self._refused.pop(broker, None)
        else:
            self._count(self._refused, self._refused.get(broker), fact, "in_a_row", "session id 0")

    def _count(
        self, kept: dict[str, Asking], before: Asking | None, fact: facts.FetchSession, limit: str, answer: str
    ) -> None:
        at = fact.at
        first, number, partitions = before or Asking(at, 0, 0)
        asking = Asking(first, number + 1, partitions + fact.partitions)
        remember(kept, at.broker, asking, BROKERS)
        if asking.number < self._context.limit(REFUSED, limit):
            return
        field = error_field(fact.error) if fact.error else "response.sessionId"
        total = self._total.get((at.broker, limit), asking.number - 1) + 1
        remember(self._total, (at.broker, limit), total, 2 * BROKERS)
        self._context.report(
            REFUSED,
            at_evidence(first, "trigger", f"asks for a fetch session, gets {answer}", path=field),
            at_evidence(at, "symptom", f"{answer} for the {asking.number}th time", path=field, weight=asking.number),
            numbers={
                "client": at.client, "broker": at.broker, "count": total, "answer": answer,
                "partitions": asking.partitions // asking.number, "seconds": (at.time - first.time) / SECOND,
            },
            impact=Impact("requests", total),
            episode=(at.broker, limit),
            actors=(Actor("victim", at.peer, at.client_id or None),),
            cause=LOST if fact.error else None,
        )  # fmt: skip


class TinyPolls(Analyzer):
    """For one client, finds frequent Fetch responses with few bytes, while fetch.min.bytes is 1."""

    __slots__ = ("_began", "_context", "_count", "_first", "_size", "_waits")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._restart(0)

    def _restart(self, time: int) -> None:
        self._began = time
        self._count = self._size = 0
        self._waits = False
        """Whether a request of this minute asked for more than one byte (fetch.min.bytes)."""
        self._first: facts.At | None = None

    def feed(self, fact: facts.Fetched) -> None:
        if not fact.size:
            return
        at = fact.at
        if at.time - self._began >= MINUTE:
            self._judge(at)
            self._restart(at.time)
        self._first = self._first or at
        self._count += 1
        self._size += fact.size
        self._waits = self._waits or fact.min_bytes > 1

    def _judge(self, at: facts.At) -> None:
        seconds = (at.time - self._began) / SECOND
        rate, size = self._count / seconds, self._size / max(1, self._count)
        least = self._context.limit(TINY, "rate")
        if self._waits or self._first is None or rate < least or size >= self._context.limit(TINY, "bytes"):
            return
        saved = max(0.0, rate - 1000 / WAIT_MS)
        self._context.report(
            TINY,
            at_evidence(self._first, "trigger", "fetch.min.bytes 1", path="request.minBytes"),
            at_evidence(at, "symptom", f"{rate:.0f} answers a second, of {size:.0f} bytes", weight=rate),
            numbers={
                "client": at.client, "rate": rate, "bytes": size, "saved": saved,
                "min_bytes": max(2, round(size * rate * WAIT_MS / 1000)),
            },
            impact=Impact("requests", saved * seconds),
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip


class Run:
    """Consecutive Fetch responses on one connection; they are judged once they have lasted long enough."""

    __slots__ = (
        "busy", "count", "first", "full", "lags", "last", "most", "oversized", "paused", "place", "size", "throttled",
    )  # fmt: skip

    def __init__(self, first: facts.Fetched) -> None:
        self.first = self.last = first.at
        self.count = self.full = self.size = self.busy = self.paused = self.throttled = 0
        self.oversized = False
        """Whether a response exceeded its limit, because a single batch is larger (KIP-74)."""
        self.most = 0
        """The latest size limit that a response reached, in bytes."""
        self.place = ("", 0)
        """The partition in the latest response that reached its limit."""
        self.lags: dict[tuple[str, int], tuple[int, int]] = {}
        """Maps each partition that reached a limit to its first and its latest lag, in offsets."""

    def add(self, fact: facts.Fetched, share: float) -> None:
        self.last = fact.at
        self.count += 1
        self.size += fact.size
        if fact.at.exchange != self.first.exchange:
            self.busy += fact.at.latency
            self.paused += fact.pause or 0
        reached = [one for one in fact.parts if one.size and one.most is not None and one.size >= share * one.most]
        whole = fact.max_bytes is not None and fact.size >= share * fact.max_bytes
        for one in fact.parts if whole else reached:
            limit = fact.max_bytes if whole else one.most
            self.most, self.place = limit or 0, (one.topic, one.partition)
            self.oversized = self.oversized or one.size > (limit or 0)
            if one.high_watermark is not None and one.offset is not None:
                lag = max(0, one.high_watermark - one.offset)
                begun, _ = self.lags.get(self.place, (lag, lag))
                remember(self.lags, self.place, (begun, lag), 100)
        self.full += bool(whole or reached)


class SizeBound(Analyzer):
    """For one client, finds that its size limits slow it down: most responses are full, and the lag does not shrink."""

    __slots__ = ("_context", "_full", "_runs")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._full = context.limit(BOUND, "full")
        self._runs: dict[int, Run] = {}
        """Maps each connection to its present run of responses."""

    def feed(self, fact: Any) -> None:
        number = fact.at.connection
        run = self._runs.get(number)
        if isinstance(fact, facts.Throttle):
            if run is not None and fact.at.key == api_keys.FETCH:
                run.throttled += fact.ms * MILLISECOND
            return
        if not fact.size:
            return
        if run is None:
            run = Run(fact)
            remember(self._runs, number, run, CONNECTIONS)
        run.add(fact, self._full)
        lasted = run.last.time - run.first.time
        if lasted >= self._context.limit(BOUND, "lasts_ms") * MILLISECOND:
            del self._runs[number]
            self._judge(run, lasted)

    def _judge(self, run: Run, lasted: int) -> None:
        share = self._context.limit(BOUND, "share")
        if run.count < self._context.limit(BOUND, "least") or run.full < share * run.count:
            return
        if max(run.paused, run.throttled) > self._context.limit(BOUND, "paused") * lasted:
            return  # the consumer spends its time on processing records, or a quota throttles it
        begun, lag = max(run.lags.values(), key=lambda one: one[1], default=(0, 0))
        small = run.most < self._context.limit(BOUND, "small_bytes")
        if not lag or (lag < begun and not small):
            return
        at, rate = run.last, run.size * SECOND / lasted
        latency = run.busy / max(1, run.count - 1)
        partition = f"{run.place[0]}-{run.place[1]}"
        self._context.report(
            BOUND,
            at_evidence(run.first, "baseline", f"{begun} offsets behind"),
            at_evidence(at, "symptom", f"full: {run.most} bytes are the limit; {lag} offsets behind", weight=lag),
            numbers={
                "client": at.client, "broker": at.broker, "full": run.full, "count": run.count, "most": run.most,
                "partition": partition, "rate": rate, "latency_ms": latency / MILLISECOND, "lag": lag,
                "how": "one batch alone is larger" if run.oversized else "the limit cuts them",
            },
            impact=Impact("requests", run.full),
            episode=at.broker,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip


class Seen:
    """Fetch responses to a client within five minutes: their bytes (`size`), and those fetched before (`again`)."""

    __slots__ = ("again", "began", "count", "examples", "size")

    def __init__(self, began: int) -> None:
        self.began = began
        self.size = self.again = self.count = 0
        self.examples: list[Evidence] = []


class Refetches(Analyzer):
    """For one client, finds that it fetches the same offsets again over the same connection."""

    __slots__ = ("_context", "_offsets", "_seen")

    WINDOW: Final = 5 * MINUTE
    EXAMPLES: Final = 4

    def __init__(self, context: Context) -> None:
        self._context = context
        self._offsets: dict[Place, list[int]] = {}
        """Maps each partition to the fetch offsets of its latest responses with records."""
        self._seen: Seen | None = None

    def feed(self, fact: facts.Fetched) -> None:
        at = fact.at
        if self._seen is None or at.time - self._seen.began > self.WINDOW:
            self._seen = Seen(at.time)
        seen = self._seen
        again = 0
        for one in fact.parts:
            if not one.size or one.offset is None:
                continue
            place = at.connection, one.topic, one.partition
            offsets = self._offsets.get(place)
            if offsets is None:
                offsets = []
                remember(self._offsets, place, offsets, PLACES)
            if one.offset in offsets:
                again += one.size
                self._example(seen, at, one)
            append(offsets, one.offset, LATEST)
        seen.size += fact.size
        if again:
            seen.again += again
            seen.count += 1
            self._judge(seen, at)

    def _example(self, seen: Seen, at: facts.At, one: facts.FetchedPartition) -> None:
        note = f"offset {one.offset} of {one.topic}-{one.partition} again, {one.size} bytes"
        evidence = at_evidence(at, "symptom", note, path="request.fetchOffset", weight=one.size)
        seen.examples = [*seen.examples[-self.EXAMPLES + 1 :], evidence]

    def _judge(self, seen: Seen, at: facts.At) -> None:
        share = seen.again / max(1, seen.size)
        if seen.count < self._context.limit(AGAIN, "least") or seen.again < self._context.limit(AGAIN, "bytes"):
            return
        lasted = at.time - seen.began >= self._context.limit(AGAIN, "lasts_ms") * MILLISECOND
        if not lasted or share < self._context.limit(AGAIN, "share"):
            return
        evidence, seen.examples = seen.examples, []
        self._context.report(
            AGAIN,
            *evidence,
            numbers={
                "client": at.client, "count": seen.count, "bytes": seen.again, "share": share,
                "seconds": (at.time - seen.began) / SECOND,
            },
            impact=Impact("bytes_wasted", seen.again),
            episode=seen.began,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip


LOST: Final = (
    "The broker has dropped the client's session: its cache of sessions is full of newer ones, it restarts again and "
    "again, or something between client and broker sends the requests of one session to several brokers."
)
"""The cause of a finding about a session that the broker granted and later refused."""

ANALYSES = (
    Analysis(frozenset({REFUSED}), Key.CLIENT, (facts.FetchSession,), Sessions),
    Analysis(frozenset({TINY}), Key.CLIENT, (facts.Fetched,), TinyPolls),
    Analysis(frozenset({BOUND}), Key.CLIENT, (facts.Fetched, facts.Throttle), SizeBound),
    Analysis(frozenset({AGAIN}), Key.CLIENT, (facts.Fetched,), Refetches),
)
