"""Statistics of a reading's exchanges by API, client, broker or topic: number, failures, latency, size.

A Fetch that the broker held until its maximum wait was over (a long poll) says nothing about speed, so long polls have
lines of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.captures.analysis.histogram import Histogram
from kproxy.captures.analysis.overtime import OverTime, Span
from kproxy.captures.bodies import Bodies
from kproxy.captures.tables.places import parts
from kproxy.decoders.exchange import Exchange, Health, Status
from kproxy.decoders.frames import codes
from kproxy.decoders.jsonform import uuid_json
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.learning import learn_both
from kproxy.decoders.meanings.remarks import wait_over
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Side, Source

NANOSECONDS: Final = 1_000_000
"""Nanoseconds in a millisecond, the output's unit of latencies."""
MOST: Final = 512
"""Maximum number of names with counts of their own; damaged traffic may contain thousands of names."""
MOST_OVER_TIME: Final = 128
"""Maximum number of names if they are also counted over time."""
OTHERS: Final = "(others)"
NO_TOPIC: Final = "(none)"
_FETCHES: Final = frozenset({api_keys.FETCH, api_keys.SHARE_FETCH})


@dataclass(slots=True)
class Line:
    """Counts for one name: of its long polls, or of its other exchanges.

    `errors` counts exchanges whose response has an error code; `codes` counts each code. Bytes are those of whole
    frames, their length fields included. `undecodable` counts undecodable responses. `over_time` has the same counts
    over time, None if these are not wanted.
    """

    name: str
    long_poll: bool
    count: int = 0
    errors: int = 0
    unanswered: int = 0
    undecodable: int = 0
    latency: Histogram = field(default_factory=Histogram)
    request_bytes: int = 0
    response_bytes: int = 0
    throttled: int = 0
    throttle_ms: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    over_time: OverTime | None = None

    def to_json(self, by: str) -> dict[str, Any]:
        """The JSON object "kproxy.stats/1"; latencies are in milliseconds, null without a response."""
        shares = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
        return {
            "schema": "kproxy.stats/1",
            by: self.name,
            "long_poll": self.long_poll,
            "count": self.count,
            "errors": self.errors,
            "unanswered": self.unanswered,
            "undecodable": self.undecodable,
            **{name: _milliseconds(self.latency.percentile(share)) for name, share in shares.items()},
            "max_ms": _milliseconds(self.latency.largest),
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "throttled": self.throttled,
            "throttle_ms": self.throttle_ms,
            "error_codes": dict(self.codes.most_common()),
        }


def _milliseconds(value: int | None) -> float | None:
    return None if value is None else round(value / NANOSECONDS, 3)


@dataclass(frozen=True, slots=True)
class Measured:
    """The values of an exchange that `Stats.take` counts; `errors` are names of error codes.

    `records` is the number of records that the exchange carries, 0 unless they are counted over time.
    """

    exchange: Exchange
    bodies: Bodies
    long_poll: bool
    undecodable: bool
    errors: list[str]
    throttle_ms: int
    records: int = 0


def measure(exchange: Exchange, bodies: Bodies, definitions: Definitions, *, records: int = 0) -> Measured:
    """The values of a complete exchange that `Stats.take` counts; `records` as in Measured."""
    asked, answered = bodies.asked or {}, bodies.answered or {}
    waited = exchange.api_key in _FETCHES and wait_over(asked.get("maxWaitMs"), exchange.latency_ns)
    answer = bodies.response
    found = [] if answer is None else codes(answer, exchange, definitions)
    key, version, protocol = exchange.api_key, exchange.api_version, exchange.protocol
    names = [definitions.error_name(code, key, version, protocol) for code in found]
    # Trailing bytes show that the body was read in a wrong layout, so its numbers are meaningless.
    sound = answer is not None and not answer.problems and protocol is None
    throttle = answered.get("throttleTimeMs") if sound else None
    return Measured(exchange, bodies, waited, _undecodable(exchange, bodies), names, max(0, throttle or 0), records)


class Stats:
    """Counts exchanges by name; memory grows only with the number of names."""

    def __init__(
        self, definitions: Definitions, by: str = "api", health: Health | None = None, *, span: Span | None = None
    ) -> None:
        """`by` is the grouping, a key of BY; `health`, if given, counts undecodable frames.

        With a `span`, which the caller extends, lines are also counted over time.
        """
        self._health = health or Health()
        self._span = span
        self._definitions = definitions
        self._names = BY[by]
        self._knowledge = Knowledge()
        self._lines: dict[tuple[str, bool], Line] = {}

    def add(self, exchange: Exchange, source: Source) -> None:
        """Count a complete exchange."""
        bodies = Bodies(exchange, source, self._definitions)
        self._health.undecoded += bodies.undecoded
        self.take(measure(exchange, bodies, self._definitions))

    def take(self, measured: Measured) -> None:
        """Count an exchange from the result of `measure`."""
        exchange = measured.exchange
        for name in self._names(self, exchange, measured.bodies):
            line = self._line(name, long_poll=measured.long_poll)
            self._count(line, exchange)
            line.undecodable += measured.undecodable
            line.errors += bool(measured.errors)
            line.codes.update(measured.errors)
            line.throttled += measured.throttle_ms > 0
            line.throttle_ms += measured.throttle_ms
            if line.over_time is not None:
                count_over_time(line.over_time, measured, exchange.latency_ns)

    def lines(self) -> list[Line]:
        """The lines of all names, the most frequent name first."""
        return sorted(self._lines.values(), key=lambda line: (-line.count, line.name, line.long_poll))

    def api(self, exchange: Exchange) -> str:
        """The API's name as in the exchange JSON; "Key 31000" for an unknown key, "(unmatched)" for an orphan."""
        if exchange.token:
            return "SaslToken"
        if exchange.api_key is None:
            return "(tls)" if exchange.status is Status.TLS else "(unmatched)"
        return self._definitions.shown_api_name(exchange.api_key, exchange.protocol)

    def topics(self, exchange: Exchange, bodies: Bodies) -> Iterable[str]:
        """The topics that an exchange names, each once; `NO_TOPIC` alone if it names none."""
        found: dict[str, None] = {}
        if exchange.protocol is None:
            learn_both(bodies.request, bodies.response, self._knowledge)
            for decoded in (bodies.request, bodies.response):
                if decoded is not None and decoded.body is not None and decoded.message is not None:
                    for topic, topic_id, *_ in parts(decoded.body, decoded.message, decoded.version, len):
                        name = topic or (topic_id and self._knowledge.topic(topic_id))
                        found[name or uuid_json(topic_id or bytes(16))] = None
        return found or (NO_TOPIC,)

    def _count(self, line: Line, exchange: Exchange) -> None:
        line.count += 1
        line.unanswered += exchange.status is Status.NO_RESPONSE
        if exchange.request is not None:
            line.request_bytes += exchange.request.length
        if exchange.response is not None:
            line.response_bytes += exchange.response.length
        if (latency := exchange.latency_ns) is not None:
            line.latency.add(latency)

    def _line(self, name: str, *, long_poll: bool) -> Line:
        line = self._lines.get((name, long_poll))
        if line is None:
            if len(self._lines) >= (MOST if self._span is None else MOST_OVER_TIME):
                name = OTHERS
            line = self._lines.setdefault((name, long_poll), Line(name, long_poll))
            if self._span is not None and line.over_time is None:
                line.over_time = OverTime(self._span)
        return line


def count_over_time(over_time: OverTime, measured: Measured, latency: int | None) -> None:
    """Count an exchange over time; `latency` in ns, None if it must not count in percentiles."""
    frames = (measured.exchange.request, measured.exchange.response)
    over_time.add(
        time_of(measured.exchange),
        latency,
        failed=bool(measured.errors),
        throttle_ms=measured.throttle_ms,
        size=sum(frame.length for frame in frames if frame is not None),
        records=measured.records,
    )


def time_of(exchange: Exchange) -> int:
    """The time of an exchange's last captured frame, in nanoseconds since the epoch."""
    frame = exchange.response or exchange.request
    return 0 if frame is None else frame.time


def _undecodable(exchange: Exchange, bodies: Bodies) -> bool:
    if exchange.response is None or exchange.token or exchange.status is Status.TLS:
        return False
    return bodies.response is None or bodies.response.body is None


def _client(exchange: Exchange) -> str:
    """The client id; the client's address if there is no id, or if a broker sent the request."""
    host = exchange.connection.client.rpartition(":")[0]
    return (exchange.client_id if exchange.asked_by is Side.CLIENT else None) or host


BY: Final[dict[str, Callable[[Stats, Exchange, Bodies], Iterable[str]]]] = {
    "api": lambda stats, exchange, _: (stats.api(exchange),),
    "client": lambda _stats, exchange, _bodies: (_client(exchange),),
    "broker": lambda _stats, exchange, _bodies: (exchange.connection.broker,),
    "topic": lambda stats, exchange, bodies: stats.topics(exchange, bodies),
}
"""By grouping, the function that gives the names under which an exchange is counted."""
