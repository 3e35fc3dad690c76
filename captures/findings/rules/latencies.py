"""Splits the latency of requests into shares of client, quotas, long polls and broker; finds brokers that are slow."""

from __future__ import annotations

from collections import Counter
from math import log2
from typing import Any, Final, NamedTuple

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    SECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    api_name,
    at_evidence,
    remember,
)
from kproxy.captures.findings.data_facts import OVERDUE_MS
from kproxy.captures.findings.model import Actor, Impact, Scope, Severity
from kproxy.captures.findings.restarts import Stops
from kproxy.decoders.exchange import Status
from kproxy.decoders.schema import api_keys

SLOW = "latency.broker_slow"
BLOCKED = "latency.hol"
IMPATIENT = "client.ignores_throttle"
ABANDONED = "conn.abandoned"
WINDOW: Final = 60 * SECOND
CONNECTIONS: Final = 20_000
"""Maximum number of connections whose latest response is remembered."""
WINDOWS: Final = 10_000
"""Maximum number of pairs of broker and API that are counted in one window of time."""
FAST: Final = 10 * MILLISECOND
"""Requests of lower latency (ns) are counted, but not split: most requests are that fast, so this saves time."""
WORST: Final = 6
"""Maximum number of the slowest exchanges of a window that are kept as evidence."""
LARGE: Final = 65_536
"""Responses of at least this size (bytes) are not counted: a client that does not read may have delayed them."""
WAITING: Final = frozenset({api_keys.JOIN_GROUP, api_keys.SYNC_GROUP, 36, 58, 78})
"""APIs whose responses wait for somebody else: other members, a login service, a controller, new records."""
LENGTHY: Final = frozenset({4, 5, 6, 7, 19, 20, 21, 22, 26, 34, 35, 37, 43, 45})
"""APIs whose work takes long: changes of topics, leaders and replicas, ends of transactions."""
FETCH: Final = api_keys.FETCH
SLOW_BY_NATURE: Final = WAITING | LENGTHY
HASTY: Final = frozenset({api_keys.PRODUCE, api_keys.OFFSET_COMMIT, api_keys.HEARTBEAT, 26, 28, 68, 76, 88})
"""APIs for which a caller waits, or that have a deadline."""
HOLDING: Final = frozenset({api_keys.FETCH, api_keys.JOIN_GROUP, api_keys.SYNC_GROUP, 78})
"""APIs whose response may be delayed on purpose, so that later requests of the connection wait."""
REPLICATED: Final = frozenset({api_keys.PRODUCE, api_keys.OFFSET_COMMIT, 22, 24, 25, 26, 28})
"""APIs whose responses wait until followers have copied what was written; Produce waits only with acks=all."""
RESTART: Final = 60 * SECOND
"""After this time (ns) a stopped broker is running again, or out of the ISR (replica.lag.time.max.ms)."""
THROTTLED_FIRST: Final = {api_keys.PRODUCE: 6, api_keys.FETCH: 8}
"""Maps an API to its first version whose throttled response comes at once, not after the delay (KIP-219)."""


class Split(NamedTuple):
    """The latency of an exchange, split by what the request waited for; nanoseconds."""

    at: facts.At
    queue: int
    throttle: int
    wait: int
    broker: int

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {value // MILLISECOND} ms"
            for name, value in (
                ("queue", self.queue), ("throttle", self.throttle), ("wait", self.wait), ("broker", self.broker)
            )
        )  # fmt: skip
        return f"{self.at.latency // MILLISECOND} ms: {parts}"


class Window:
    """Requests of one API to one broker within a minute; the histogram has four buckets for each doubling."""

    __slots__ = ("_first_end", "_last_start", "_least", "count", "histogram", "slow", "worst")

    def __init__(self) -> None:
        self._first_end = 0
        """When the first of the slow requests was answered (ns)."""
        self._last_start = 0
        """When the broker began with the last of the slow requests (ns)."""
        self.count = 0
        self._least = 0
        """The shortest latency (ns) among the exchanges in `worst`."""
        self.slow = 0
        self.histogram: Counter[int] = Counter()
        self.worst: list[Split] = []

    def add(self, split: Split, slow: float) -> None:
        self.count += 1
        self.histogram[_bucket(split.broker)] += 1
        if split.broker >= slow:
            self._first_end = min(self._first_end, split.at.time) if self.slow else split.at.time
            self._last_start = max(self._last_start, split.at.time - split.broker)
            self.slow += 1
        if len(self.worst) < WORST or split.broker > self._least:
            self.worst.append(split)
            if len(self.worst) > WORST:
                self.worst.remove(min(self.worst, key=lambda one: one.broker))
            self._least = min(one.broker for one in self.worst)

    @property
    def paused_once(self) -> bool:
        """Whether all slow requests were waiting for the broker at one moment."""
        return self._last_start < self._first_end

    @property
    def median(self) -> int:
        """Approximate median of the broker's own time, in nanoseconds."""
        left = (self.count + 1) // 2
        for bucket in sorted(self.histogram):
            left -= self.histogram[bucket]
            if left <= 0:
                return int(2 ** ((bucket + 0.5) / 4)) * 1000
        return 0


def _bucket(nanoseconds: int) -> int:
    return int(4 * log2(max(1, nanoseconds // 1000)))


class Latencies(Analyzer):
    """For all brokers, finds slow brokers, requests that waited behind others, and clients that ignore throttling."""

    __slots__ = (
        "_blocked",
        "_context",
        "_early_ones",
        "_end",
        "_fast",
        "_held",
        "_last",
        "_late",
        "_muted",
        "_single_slow",
        "_slow",
        "_stops",
        "_windows",
    )

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last: dict[int, facts.At] = {}
        """Maps each connection to its latest answered exchange."""
        self._muted: dict[int, int] = {}
        """Maps each throttled connection to the time (ns) until which the broker does not read from it."""
        self._windows: dict[tuple[str, int], Window] = {}
        self._end = 0
        """End of the present window (ns); 0 without one."""
        self._slow = MILLISECOND * context.limit(SLOW, "slow_ms")
        self._single_slow = MILLISECOND * context.limit(SLOW, "single_ms")
        self._fast = min(FAST, self._slow, MILLISECOND * context.limit(SLOW, "median_ms"))
        self._held: tuple[Split, int] | None = None
        """The latest slow exchange, and its response's size in bytes.

        It is counted only when the next exchange comes, because Throttle or Overdue facts may follow that explain its
        latency.
        """
        self._blocked: dict[tuple[str, str, str, int], tuple[int, int, int]] = {}
        """Maps (client id, host, broker, API) to requests that waited behind others: number, sum and maximum in ns."""
        self._early_ones: dict[int, tuple[int, int]] = {}
        """Maps each connection to the requests that were sent while it was throttled: (number, total wait in ns)."""
        self._stops = Stops()
        self._late: dict[int, list[facts.At]] = {}
        """Maps each connection to its very slow exchanges; the client may have closed it before a response came."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Exchange):
            at = fact.at
            if at.key >= 0:
                if self._held is not None:
                    self._flush()
                self._exchange(at, fact.response_bytes)
        elif isinstance(fact, facts.Closed):
            if self._held is not None and self._held[0].at.connection == fact.at.connection:
                self._flush()
            self._last.pop(fact.at.connection, None)
            self._muted.pop(fact.at.connection, None)
            self._stops.take(fact)
            if (late := self._late.pop(fact.at.connection, None)) is not None:
                self._given_up(fact, late)
        elif isinstance(fact, facts.Unanswered):
            self._stops.take(fact)
        elif isinstance(fact, facts.Throttle):
            self._throttle(fact)
        elif self._held is not None and self._held[0].at.exchange == fact.at.exchange:
            split, size = self._held
            rest = split.wait + split.broker
            wait = min(rest, max(0, fact.wait_ms) * MILLISECOND)
            self._held = split._replace(wait=wait, broker=rest - wait), size

    def _waits_for_a_restart(self, at: facts.At) -> bool:
        """Whether a request waited for followers while another broker was perhaps restarting."""
        return at.key in REPLICATED and any(
            broker != at.broker and time <= at.time and at.asked <= time + RESTART
            for broker, time in self._stops.latest.items()
        )

    def tick(self) -> None:
        self._flush()
        self._judge()
        self._end = 0

    def close(self) -> None:
        self._flush()
        self._judge()

    def _exchange(self, at: facts.At, size: int) -> None:
        """Take an answered exchange; `size` is that of its response in bytes."""
        time, asked, number, key = at.time, at.asked, at.connection, at.key
        last = self._last.get(number)
        self._last[number] = at
        if last is None:
            if len(self._last) > CONNECTIONS:
                del self._last[next(iter(self._last))]
            return  # a connection's first request may wait for something unseen, such as a login
        start, queue = last.time, 0
        if start > asked:
            queue = start - asked
        else:
            start = asked
        left = time - start if time > start else 0
        throttle = 0
        if self._muted and (muted := self._muted.pop(number, None)) is not None:
            throttle = max(0, min(muted - start, left))
            if muted > asked > last.time and last.key in THROTTLED_FIRST:
                self._early(at, last, muted)
        if queue and key in HASTY and last.key in HOLDING:
            self._behind(at, last, queue)
        rest = left - throttle
        if rest < self._fast:
            if key not in SLOW_BY_NATURE:
                window = self._windows.get((at.broker, key)) or self._window(at)
                if window is not None:
                    window.count += 1
                    window.histogram[0 if key == FETCH else int(4 * log2(rest // 1000 or 1))] += 1
            return
        waits = key == FETCH or key in WAITING
        split = Split(at, queue, throttle, rest if waits else 0, 0 if waits else rest)
        self._held = split, size

    def _throttle(self, fact: facts.Throttle) -> None:
        at, held = fact.at, self._held
        if held is None or held[0].at.exchange != at.exchange:
            last = self._last.get(at.connection)
            if last is None or last.exchange != at.exchange:
                return
        if at.version < THROTTLED_FIRST.get(at.key, 0):
            if held is not None and held[0].at.exchange == at.exchange:
                lost = min(held[0].broker, fact.ms * MILLISECOND)
                split = held[0]._replace(broker=held[0].broker - lost, throttle=held[0].throttle + lost)
                self._held = split, held[1]
        else:
            remember(self._muted, at.connection, at.time + fact.ms * MILLISECOND, CONNECTIONS)

    # --- requests that were answered after the client had closed the connection ---

    def _given_up(self, end: facts.Closed, late: list[facts.At]) -> None:
        """Report requests of a closed connection that were answered only after the client had closed it."""
        if end.closer != "client" or end.left is None or not end.by_peers:
            return
        least = self._context.limit(ABANDONED, "age_ms") * MILLISECOND
        lost = [one for one in late if one.asked + least <= end.left < one.time]
        if not lost or not self._context.whole(end.at.connection):
            return
        apis = Counter(api_name(one.key) for one in lost)
        at, waited = lost[0], max(end.left - one.asked for one in lost)
        grave = apis["Produce"] or len(lost) >= self._context.limit(ABANDONED, "several")
        self._context.report(
            ABANDONED,
            *(
                at_evidence(one, "trigger", f"answered after {one.latency / SECOND:.1f} s, when the client had closed")
                for one in lost[:WORST]
            ),
            numbers={
                "client": at.client, "broker": at.broker, "connection": at.connection, "count": len(lost),
                "apis": ", ".join(f"{number} {name}" for name, number in apis.most_common(5)),
                "oldest_s": waited / SECOND,
            },
            impact=Impact("requests", len(lost)),
            scope=Scope("connection", str(at.connection)),
            severity=Severity.WARN if grave else Severity.NOTE,
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip

    # --- slow brokers ---

    def _flush(self) -> None:
        """Count the exchange in `_held`, if there is one."""
        if self._held is None:
            return
        split, size = self._held
        self._held = None
        at = split.at
        if at.key in WAITING or size >= LARGE or not self._context.whole(at.connection):
            return
        if at.key == api_keys.FETCH and split.broker < OVERDUE_MS * MILLISECOND:
            split = split._replace(broker=0)
        if split.broker >= self._single_slow:
            self._single(split)
        if at.key in LENGTHY:
            return
        window = self._window(at)
        if window is not None:
            window.add(split, self._slow)

    def _window(self, at: facts.At) -> Window | None:
        window = self._windows.get((at.broker, at.key))
        if window is None and len(self._windows) < WINDOWS:
            window = self._windows[at.broker, at.key] = Window()
            if not self._end:
                self._end = at.time + WINDOW
                self._context.wake(self._end)
        return window

    def _single(self, split: Split) -> None:
        at, api = split.at, api_name(split.at.key)
        late = self._late.get(at.connection, [])
        if len(late) < CONNECTIONS // 100:
            late.append(at)
        remember(self._late, at.connection, late, CONNECTIONS // 10)
        severity = Severity.WARN
        if at.key in LENGTHY or self._waits_for_a_restart(at):
            severity = Severity.NOTE
        elif split.broker >= self._context.limit(SLOW, "long_ms") * MILLISECOND:
            severity = Severity.ERROR
        self._report("single", at.broker, at.key, [split], severity, f"{api} took the broker {_ms(split.broker)} ms")

    def _judge(self) -> None:
        windows, self._windows = self._windows, {}
        least = self._context.limit(SLOW, "least")
        for (broker, key), window in windows.items():
            if window.count < least:
                continue
            needed = max(self._context.limit(SLOW, "several"), window.count * self._context.limit(SLOW, "share"))
            if window.slow >= needed:
                limit = self._context.limit(SLOW, "slow_ms")
                slow = [one for one in window.worst if one.broker >= limit * MILLISECOND]
                longest = _ms(max((one.broker for one in slow), default=0))
                text = (
                    f"{window.slow} of {window.count} {api_name(key)} requests within a minute took the broker "
                    f"{limit:.0f} ms or more, up to {longest} ms"
                )
                cause = _cause(windows, broker, key)
                planned = all(self._waits_for_a_restart(one.at) for one in slow)
                paused = window.paused_once and longest < self._context.limit(SLOW, "pause_ms")
                if paused:
                    text += ", all of them at the same moment"
                    cause = "The broker or its machine paused once, for example for garbage collection."
                severity = Severity.NOTE if planned or paused else None
                self._report("often", broker, key, slow, severity, text, cause)
            elif key != api_keys.FETCH:
                self._compare(windows, broker, key)

    def _compare(self, windows: dict[tuple[str, int], Window], broker: str, key: int) -> None:
        """Report a broker whose median latency for an API is far above that of the other brokers."""
        least, mine = self._context.limit(SLOW, "least"), windows[broker, key].median
        others = sorted(
            one.median for (name, api), one in windows.items() if api == key and name != broker and one.count >= least
        )
        if len(others) < 2 or mine < self._context.limit(SLOW, "median_ms") * MILLISECOND:
            return
        usual = others[len(others) // 2]
        if mine >= usual * self._context.limit(SLOW, "times"):
            text = (
                f"half of the {api_name(key)} requests within a minute took this broker {_ms(mine)} ms or more, "
                f"and {len(others)} other brokers {_ms(usual)} ms"
            )
            worst = windows[broker, key].worst
            self._report("peers", broker, key, worst, Severity.NOTE, text, _cause(windows, broker, key))

    def _report(
        self, kind: str, broker: str, key: int, slow: list[Split], severity: Severity | None, text: str,
        cause: str | None = None,
    ) -> None:  # fmt: skip
        self._context.report(
            SLOW,
            *(at_evidence(one.at, "trigger", str(one), weight=one.broker) for one in slow),
            numbers={
                "broker": broker, "api": api_name(key), "text": text,
                "slowest_ms": max((_ms(one.broker) for one in slow), default=0),
            },
            impact=Impact("ms_lost", sum(one.broker for one in slow) / MILLISECOND),
            episode=(key, kind),
            scope=Scope("broker", broker),
            severity=severity,
            actors=_victims(slow),
            cause=cause,
        )  # fmt: skip

    # --- requests behind others ---

    def _behind(self, at: facts.At, before: facts.At, queue: int) -> None:
        if queue < self._context.limit(BLOCKED, "queue_ms") * MILLISECOND or queue < at.latency / 2:
            return
        key = at.client_id, at.peer, at.broker, at.key
        count, lost, longest = self._blocked.get(key, (0, 0, 0))
        count, lost, longest = count + 1, lost + queue, max(longest, queue)
        remember(self._blocked, key, (count, lost, longest))
        if count < self._context.limit(BLOCKED, "several"):
            return
        self._context.report(
            BLOCKED,
            at_evidence(before, "culprit", f"{api_name(before.key)}, answered after {_ms(before.latency)} ms"),
            at_evidence(at, "symptom", f"waited {_ms(queue)} of {_ms(at.latency)} ms behind it", weight=queue),
            numbers={
                "client": at.client, "broker": at.broker, "api": api_name(at.key), "before": api_name(before.key),
                "count": count, "lost_s": lost / SECOND, "longest_ms": _ms(longest),
            },
            impact=Impact("ms_lost", lost / MILLISECOND),
            episode=(at.broker, at.key),
            scope=Key.CLIENT.scope((at.client_id, at.peer)),
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip

    # --- requests of throttled clients ---

    def _early(self, at: facts.At, last: facts.At, muted: int) -> None:
        slack = self._context.limit(IMPATIENT, "slack_ms") * MILLISECOND
        if not last.time + slack < at.asked < muted - slack:
            return
        count, lost = self._early_ones.get(at.connection, (0, 0))
        count, lost = count + 1, lost + muted - at.asked
        remember(self._early_ones, at.connection, (count, lost))
        if count < self._context.limit(IMPATIENT, "requests"):
            return
        early = _ms(muted - at.asked)
        self._context.report(
            IMPATIENT,
            at_evidence(last, "trigger", f"throttled for {_ms(muted - last.time)} ms"),
            at_evidence(at, "symptom", f"sent {early} ms before the throttle time was over", weight=early),
            numbers={
                "client": at.client, "broker": at.broker, "count": count, "lost_s": lost / SECOND,
                "connection": at.connection,
            },
            impact=Impact("ms_lost", lost / MILLISECOND),
            scope=Scope("connection", str(at.connection)),
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip


def _cause(windows: dict[tuple[str, int], Window], broker: str, key: int) -> str | None:
    """The likely cause, by whether the broker is fast in other APIs; None if these are too rare to tell."""
    others = {
        api: one.median
        for (name, api), one in windows.items()
        if name == broker and api not in {key, api_keys.FETCH} and one.count >= 10
    }
    if not others:
        return None
    quick = [api for api, median in others.items() if median < 100 * MILLISECOND]
    if not quick:
        return "Other APIs of this broker are slow as well: its request threads, garbage collection, or the network."
    named = ", ".join(api_name(api) for api in sorted(quick)[:3])
    if key == api_keys.PRODUCE:
        return f"This broker answers {named} fast: with acks=all its followers are slow, otherwise its disk is."
    return f"{named} is answered fast by this broker, so the work of {api_name(key)} itself is slow."


def _victims(slow: list[Split]) -> tuple[Actor, ...]:
    found = dict.fromkeys((one.at.peer, one.at.client_id or None) for one in slow)
    return tuple(Actor("victim", *one) for one in found)


def _ms(nanoseconds: int) -> int:
    return nanoseconds // MILLISECOND


ANALYSES = (
    Analysis(
        frozenset({SLOW, BLOCKED, IMPATIENT, ABANDONED}),
        Key.CLUSTER,
        (facts.Exchange, facts.Throttle, facts.Overdue, facts.Closed, facts.Unanswered),
        Latencies,
        status=Status.OK,
    ),
)
