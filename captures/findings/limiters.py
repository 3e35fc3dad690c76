"""Finds what limits the speed of consumers, from how they spend their time and how their lag changes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from kproxy.captures.findings.analyzer import MILLISECOND, SECOND, append, remember
from kproxy.captures.findings.facts import At, Fetched, FetchedPartition, Throttle

WINDOW: Final = 20 * SECOND
WINDOWS: Final = 4
"""The lag counts as growing if its minimum rises over this number of consecutive windows."""
LONGEST: Final = 300 * SECOND
"""Maximum time (ns) between two consecutive windows; if it is longer, the consumer was away in between."""
FULL: Final = 0.9
"""A response is full if its size is at least this share of its limit."""
PLACES: Final = 20_000
"""Maximum number of partitions whose reading connections are remembered."""
THROTTLINGS: Final = 200
"""Maximum number of throttle times of a connection that are remembered."""
READERS: Final = 16
"""Maximum number of connections that are remembered as readers of one partition."""
CONNECTIONS: Final = 20_000
CLIENTS: Final = 20_000
Client: TypeAlias = tuple[str, str]
"""(client id, host)."""
Partition: TypeAlias = tuple[str, int]


class Limiter(StrEnum):
    """What limits a consumer."""

    QUOTA = "quota"
    TRANSACTION = "open transaction"
    PROCESSING = "processing"
    FETCH_SIZE = "fetch size"
    BROKER = "broker or network"
    NOBODY = "no reader"


class Window(NamedTuple):
    """A window of 20 s: number since the epoch, time (ns) of the first lag, smallest lag, the log's end at that lag."""

    number: int
    time: int
    lag: int
    end: int


class Trend:
    """The lag of a reader in one partition over the latest windows."""

    __slots__ = ("windows",)

    def __init__(self) -> None:
        self.windows: list[Window] = []
        """The latest windows; the last one is still incomplete."""

    def add(self, time: int, lag: int, end: int) -> bool:
        """Add a lag; returns True if it begins a new window, so that the window before is complete."""
        number = time // WINDOW
        last = self.windows[-1] if self.windows else None
        if last is not None and number <= last.number:
            if lag < last.lag:
                self.windows[-1] = last._replace(lag=lag, end=end)
            return False
        append(self.windows, Window(number, time, lag, end), WINDOWS + 1)
        return True

    @property
    def complete(self) -> list[Window]:
        return self.windows[:-1]

    def grows(self, share: float) -> bool:
        """Whether the lag rose from each window to the next, and in all by at least `share` of its present value."""
        seen = self.complete
        if len(seen) < WINDOWS:
            return False
        steady = all(after.lag > before.lag and after.time - before.time <= LONGEST for before, after in pairwise(seen))
        return steady and seen[-1].lag - seen[0].lag >= share * seen[-1].lag

    @property
    def began(self) -> int:
        return self.windows[0].time if self.windows else 0

    @property
    def lag(self) -> int:
        """The smallest lag within the last complete window, in offsets."""
        seen = self.complete
        return seen[-1].lag if seen else 0

    def inflow(self) -> float:
        """Offsets per second that producers add to the partition."""
        first, last = self.windows[0], self.windows[-1]
        return max(0, last.end - first.end) * SECOND / max(1, last.time - first.time)

    def drain(self) -> float:
        """Number of offsets per second that the consumer reads."""
        first, last = self.windows[0], self.windows[-1]
        read = (last.end - last.lag) - (first.end - first.lag)
        return max(0, read) * SECOND / max(1, last.time - first.time)


class Use(NamedTuple):
    """How a consumer spent a window.

    `waited` (ns) is the time waiting for responses, `paused` (ns) the time from a response to the next request,
    `answers` the number of responses, `full` the number of those that were full.
    """

    number: int
    waited: int
    paused: int
    answers: int
    full: int


class Reading:
    """The reading of one partition over one connection."""

    __slots__ = ("at", "first", "offset", "part", "trend", "uses")

    def __init__(self, at: At, part: FetchedPartition) -> None:
        self.first = self.at = at
        self.part = part
        self.offset: int | None = None
        """The latest fetch offset; None until a request has named one."""
        self.trend = Trend()
        self.uses: list[Use] = []

    @property
    def client(self) -> Client:
        return self.at.client_id, self.at.peer

    @property
    def lag(self) -> int | None:
        """Number of offsets from the fetch offset to the high watermark; None if one of the two is unknown."""
        if self.offset is None or self.part.high_watermark is None:
            return None
        return max(0, self.part.high_watermark - self.offset)

    @property
    def held(self) -> int:
        """Number of offsets that open transactions hold back: from the last stable offset to the high watermark."""
        high, stable = self.part.high_watermark, self.part.last_stable
        return 0 if high is None or stable is None else max(0, high - stable)

    def add(self, fact: Fetched, part: FetchedPartition) -> bool:
        """Add a response; returns True if it begins a new window of the lag."""
        at, before = fact.at, self.at
        waited = max(0, at.time - max(at.asked, before.time)) if self.uses else 0
        paused = max(0, at.asked - before.time) if self.uses else 0
        by_part = part.most is not None and part.size >= FULL * part.most
        full = by_part or (fact.max_bytes is not None and fact.size >= FULL * fact.max_bytes)
        number = at.time // WINDOW
        use = Use(number, waited, paused, 1, int(full))
        if self.uses and self.uses[-1].number >= number:
            last = self.uses[-1]
            use = Use(last.number, *(one + more for one, more in zip(last[1:], use[1:], strict=True)))
            self.uses[-1] = use
        else:
            append(self.uses, use, WINDOWS + 1)
        self.at, self.part = at, part
        if part.offset is not None:
            self.offset = part.offset
        lag = self.lag
        return lag is not None and self.trend.add(at.time, lag, part.high_watermark or 0)


class Verdict(NamedTuple):
    """What limits a consumer, whether that is `sure`, and the shares on which the verdict is based.

    `throttled`, `waited` and `paused` are shares of the time, `full` is a share of the responses; 0 to 1.
    """

    limiter: Limiter
    sure: bool
    throttled: float
    waited: float
    paused: float
    full: float


class Shares(NamedTuple):
    """Thresholds of the limiters, 0 to 1: shares of the responses (`full`), the lag (`held`), the time (others)."""

    throttled: float
    held: float
    paused: float
    full: float


class Readers:
    """The connections that read each partition. Beyond the limits of this module, forgets the oldest entries."""

    def __init__(self) -> None:
        self._readings: dict[Partition, dict[int, Reading]] = {}
        """Maps each partition to its readings, by connection number."""
        self._throttled: dict[int, list[tuple[int, int]]] = {}
        """Maps each connection to the (time, throttle time) of its throttled Fetch responses, both in ns."""
        self._latest: dict[Client, At] = {}
        """Maps each client to its latest Fetch response with records."""

    def add(self, fact: Fetched) -> Iterator[tuple[FetchedPartition, Reading]]:
        """Add a response; yields each reading (with its partition) for which the response begins a new window."""
        at = fact.at
        if fact.size:
            remember(self._latest, (at.client_id, at.peer), at, CLIENTS)
        for part in fact.parts:
            place = part.topic, part.partition
            readings = self._readings.get(place)
            if readings is None:
                readings = {}
                remember(self._readings, place, readings, PLACES)
            reading = readings.get(at.connection)
            if reading is None:
                reading = Reading(at, part)
                remember(readings, at.connection, reading, READERS)
            if reading.add(fact, part):
                yield part, reading

    def throttle(self, fact: Throttle) -> None:
        times = self._throttled.get(fact.at.connection)
        if times is None:
            times = []
            remember(self._throttled, fact.at.connection, times, CONNECTIONS)
        append(times, (fact.at.time, fact.ms * MILLISECOND), THROTTLINGS)

    def of(self, place: Partition, client: Client) -> Reading | None:
        """A client's latest reading of a partition, over any of its connections; None if it does not read it."""
        found = [one for one in self._readings.get(place, {}).values() if one.client == client]
        return max(found, key=lambda one: one.at.time, default=None)

    def latest(self, place: Partition) -> Iterator[At]:
        """The latest Fetch response of each connection that reads a partition."""
        return (one.at for one in self._readings.get(place, {}).values())

    def active(self, client: Client) -> At | None:
        """A client's latest Fetch response with records, from any partition."""
        return self._latest.get(client)

    def judge(self, reading: Reading, since: int, now: int, shares: Shares) -> Verdict:
        """What has limited a consumer from `since` to `now` (ns), judged by how it spent this time."""
        span = max(1, now - since)
        uses = [one for one in reading.uses if one.number >= since // WINDOW]
        silent = max(0, now - reading.at.time)
        throttled = (
            sum(time for at, time in self._throttled.get(reading.at.connection, ()) if since <= at <= now) / span
        )
        waited = min(1.0, sum(one.waited for one in uses) / span)
        paused = min(1.0, (sum(one.paused for one in uses) + silent) / span)
        full = sum(one.full for one in uses) / max(1, sum(one.answers for one in uses))
        lag = reading.lag or 0
        limiter, sure = Limiter.PROCESSING if paused >= waited else Limiter.BROKER, False
        if throttled >= shares.throttled:
            limiter, sure = Limiter.QUOTA, True
        elif lag and reading.held >= shares.held * lag:
            limiter, sure = Limiter.TRANSACTION, True
        elif paused >= shares.paused:
            limiter, sure = Limiter.PROCESSING, True
        elif full >= shares.full:
            limiter, sure = Limiter.FETCH_SIZE, True
        return Verdict(limiter, sure, min(1.0, throttled), waited, paused, full)
