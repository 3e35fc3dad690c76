"""One TCP connection that speaks a dialect and nothing else: runs of bytes in, exchanges out.

It is used like a `decoders.conversation.Conversation`. Frames of both directions are processed in the order in which
they were captured. A frame is a request if its side is the one that asks, otherwise a response. If both are possible
(both sides ask, or the sides changed roles while requests waited), it is a response if it fits the waiting request.
After missing bytes, or if the capture began after the connection, a frame that fits only the other role changes the
roles of the sides.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from operator import itemgetter

from kproxy.decoders.conversation.conversation import Done
from kproxy.decoders.conversation.dialect_framer import DialectFramer
from kproxy.decoders.conversation.items import END, FRAME, Item
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.conversation.overlap import told_by
from kproxy.decoders.conversation.pairing import one_way
from kproxy.decoders.conversation.punctuality import Punctuality
from kproxy.decoders.dialects.decoding import decode, fits
from kproxy.decoders.dialects.memory import Memory
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health, Status
from kproxy.decoders.message import Decoded
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.schema.dialect import Dialect
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import End, Event, Side, Source

_key = itemgetter(0)
_MISSING = frozenset({Code.GAP, Code.CUT_BY_SNAPLEN, Code.TRUNCATED})


class DialectConversation:
    """A connection that speaks a dialect; has the methods of `Conversation`."""

    def __init__(
        self,
        client: str,
        broker: str,
        source: Source,
        definitions: Definitions,
        dialect: Dialect,
        *,
        first_time: int = 0,
        opened: bool = True,
        limits: Limits | None = None,
        health: Health | None = None,
    ) -> None:
        self.connection = Connection(0, client, broker, first_time, opened)
        self.source = source
        self.dialect = dialect
        self.limits = limits or Limits()
        self.health = health or Health()
        self.started: list[tuple[int, Exchange]] = []
        self.ignored = False
        """Always False: the port of the dialect carries no other protocol."""
        self.beginning = b""
        self._framers = [
            DialectFramer(
                side, self.connection, source, definitions, dialect, self.limits.frame, self.health, opened=opened
            )
            for side in Side
        ]
        self._waiting: tuple[dict[int, Exchange], dict[int, Exchange]] = ({}, {})
        """Waiting exchanges, one table for each side that asked.

        The keys are correlation ids or, if responses are paired by order, a running number.
        """
        self._places: dict[Exchange, int] = {}
        """The key that each waiting exchange has in the table of its side."""
        self._count = 0
        self._turned = False
        self._unsure = not opened
        """Whether it is only assumed which side sends the requests."""
        self._memory = Memory(dialect)
        self._punctuality = Punctuality(dialect, self.connection, self._memory)
        self._ended = [False, False]
        self._over = False
        self._last = 0
        """Highest key of an item so far (see Stretch)."""
        self._done: Done = []

    def feed(self, events: list[Event]) -> Done:
        """Process a batch of events of both directions.

        Returns (address, item) of complete exchanges and stream problems.

        Each direction's events are in stream order.
        """
        if self._over:
            return []
        found: tuple[list[Item], list[Item]] = ([], [])
        ends: list[Item] = []
        for event in events:
            concerned = [side for side in Side if event.side is None or event.side is side]
            for side in concerned:
                self._framers[side].feed(event, found[side])
            if isinstance(event, End):
                ends.append((max(event.at, *(self._framers[side].floor for side in concerned)), END, event, None))
        # A direction's end comes after its frames, because sorted() keeps the order of equal keys.
        for item in sorted(chain(*found, ends), key=_key):
            self._take(item)
        return self._take_done()

    def take_started(self) -> list[tuple[int, Exchange]]:
        """The exchanges that began since the last call, as (address of the frame's last byte, exchange)."""
        started = self.started.copy()
        self.started.clear()
        return started

    def tick(self, time: int, at: int) -> Done:
        """Give up the exchanges that have waited too long, with the capture at `time` and address `at`."""
        if not self._over:
            self._last = max(self._last, at)
            self._expire(self._last, time)
        return self._take_done()

    def _take_done(self) -> Done:
        done, self._done = self._done, []
        return done

    def _take(self, item: Item) -> None:
        key, kind, what, _ = item
        key = self._last = max(key, self._last)
        if kind == FRAME:
            frame, problems = what
            self._expire(key, frame.time)
            self._frame(key, frame, problems)
        elif kind == END:
            self._expire(key, what.time)
            self._end(key, what)
        elif what.code is Code.OVERLAP:
            self._expire(key, what.time)
            if not told_by(chain(*(waiting.values() for waiting in self._waiting)), what):
                self._done.append((key, what))
        else:
            self._unsure = True
            self._done.append((key, what))

    # --- roles of frames ---------------------------------------------------------------------------------------------

    def _frame(self, key: int, frame: Frame, problems: list[Problem]) -> None:
        data = self._data(frame, problems)
        side = frame.side
        asks = self.dialect.may_ask(side, turned=self._turned)
        answered = self._answered(Side(1 - side), frame, data)
        if answered is not None and (not asks or fits(self._as_answer(data, answered))):
            self._response(key, frame, problems, data, answered)
            return
        if self._unsure and self.dialect.asks != "both" and asks != fits(decode(data, "request", self.dialect)):
            turned = not asks or self._answers_something(data)
            self._turned ^= turned
            asks ^= turned
        self._unsure |= frame.missing > 0
        if asks:
            self._request(key, frame, problems, data)
        else:
            self._orphan(key, frame, problems, data)

    def _data(self, frame: Frame, problems: list[Problem]) -> bytes:
        """The bytes of a frame up to the first missing byte."""
        data = bytes(frame.data(self.source))
        return data[: min(one.offset for one in problems if one.code in _MISSING)] if frame.missing else data

    def _answers_something(self, data: bytes) -> bool:
        return any(
            fits(decode(data, "response", self.dialect, one.type))
            for one in self.dialect.requests.values()
            if one.response is not None
        )

    def _answered(self, asker: Side, frame: Frame, data: bytes) -> Exchange | None:
        """The request of `asker` that a frame of the other side would answer; None if there is none.

        If pairing is by order, it is the oldest waiting request that is not overdue, or the newest one if all are
        overdue.
        """
        waiting = self._waiting[asker]
        if self.dialect.by_order:
            exchange = None
            for exchange in waiting.values():
                if not self._punctuality.overdue(exchange, frame.time):
                    break
            return exchange
        number = self._correlation_id(data) if waiting else None
        return None if number is None else waiting.get(number)

    def _correlation_id(self, data: bytes) -> int | None:
        header = decode(data, "response", self.dialect).header
        number = self.dialect.response_header.get("correlationId", header)
        return number if isinstance(number, int) else None

    def _as_answer(self, data: bytes, asked: Exchange) -> Decoded:
        return decode(data, "response", self.dialect, asked.api_key, asked.api_version, asked.truths)

    # --- exchanges ---------------------------------------------------------------------------------------------------

    def _request(self, key: int, frame: Frame, problems: list[Problem], data: bytes) -> None:
        dialect = self.dialect
        decoded = decode(data, "request", dialect)
        get, values = dialect.request_header.get, decoded.header
        exchange = Exchange(
            0,
            self.connection,
            get("type", values),
            get("version", values),
            get("correlationId", values),
            get("clientId", values),
            frame,
            problems=[replace(problem, where="request") for problem in problems],
            protocol=dialect.name,
            asked_by=frame.side,
            truths=self._memory.truths,
        )
        self.started.append((key, exchange))
        request = None if exchange.api_key is None else dialect.requests.get(exchange.api_key)
        if request is None:
            self._wait(key, exchange)
            return
        self._memory.learn(request.request.name, decoded.body)
        self._punctuality.asked(exchange, request.request.name)
        if request.response is None:
            self._finish(key, exchange, Status.NO_REPLY_EXPECTED, one_way(exchange))
        else:
            self._wait(key, exchange)
        if request.turns:
            self._turned = not self._turned

    def _wait(self, key: int, exchange: Exchange) -> None:
        waiting = self._waiting[exchange.asked_by]
        number = None if self.dialect.by_order else exchange.correlation_id
        if number is None:
            self._count += 1
            # This key is below every correlation id, so that no response finds an exchange without one.
            number = self._count if self.dialect.by_order else -(1 << 32) - self._count
        elif number in waiting:
            text = f"correlation id {number} is used again while its first request waits"
            exchange.problems.append(Problem("request", 0, "", text, Code.REPEATED_CORRELATION_ID))
            self._give_up(key, waiting[number], "its correlation id was used again")
        waiting[number] = exchange
        self._places[exchange] = number
        if len(waiting) > self.limits.outstanding:
            self._evict(key, next(iter(waiting.values())), "on this connection")

    def _response(self, key: int, frame: Frame, problems: list[Problem], data: bytes, exchange: Exchange) -> None:
        if self.dialect.by_order:
            for older in list(self._waiting[exchange.asked_by].values()):
                if older is exchange:
                    break
                self._give_up(key, older, "no answer in time, and a later request was answered")
        self._punctuality.answered(exchange)
        self._forget(exchange)
        exchange.response = frame
        exchange.problems += [replace(problem, where="response") for problem in problems]
        request = None if exchange.api_key is None else self.dialect.requests.get(exchange.api_key)
        if request is not None and request.response is not None:
            self._memory.learn(request.response.name, self._as_answer(data, exchange).body)
        self._finish(key, exchange, Status.OK, None)

    def _orphan(self, key: int, frame: Frame, problems: list[Problem], data: bytes) -> None:
        number = None if self.dialect.by_order else self._correlation_id(data)
        exchange = Exchange(0, self.connection, None, None, number, None, None, frame)
        exchange.protocol, exchange.asked_by = self.dialect.name, Side(1 - frame.side)
        text = "no request waits for an answer" if number is None else "no request with this correlation id waits"
        exchange.problems = [Problem("response", 4, "", text, Code.UNMATCHED_RESPONSE)]
        exchange.problems += [replace(problem, where="response") for problem in problems]
        self.started.append((key, exchange))
        exchange.status = Status.ORPHAN_RESPONSE
        self._done.append((key, exchange))

    def _finish(self, key: int, exchange: Exchange, status: Status, reason: str | None) -> None:
        missing = any(frame.missing for frame in (exchange.request, exchange.response) if frame is not None)
        exchange.status = Status.CUT if missing else status
        exchange.reason = reason
        self._punctuality.over(exchange)
        self._done.append((key, exchange))

    def _forget(self, exchange: Exchange) -> None:
        del self._waiting[exchange.asked_by][self._places.pop(exchange)]

    def _give_up(self, key: int, exchange: Exchange, reason: str) -> None:
        self._forget(exchange)
        self._finish(key, exchange, Status.NO_RESPONSE, reason)

    def _evict(self, key: int, exchange: Exchange, where: str) -> None:
        reason = f"given up: too many requests waited {where}"
        exchange.problems.append(Problem("request", 0, "", reason, Code.EVICTED))
        self._give_up(key, exchange, reason)

    @property
    def waiting(self) -> int:
        """Number of requests in flight."""
        return sum(map(len, self._waiting))

    def keep(self, most: int, at: int) -> Done:
        """Give up the oldest requests until at most `most` are in flight.

        `at` is the present address in the capture.
        """
        while self.waiting > most:
            waiting = max(self._waiting, key=len)
            self._evict(at, next(iter(waiting.values())), "in all")
        return self._take_done()

    def _expire(self, key: int, time: int) -> None:
        """Report exchanges that are late at capture time `time`, and give up those that have waited too long."""
        self._done += ((key, problem) for problem in self._punctuality.check(key, time))
        limit = time - self.limits.outstanding_time
        reason = f"given up: no response within {self.limits.outstanding_time // 1_000_000_000} s"
        for waiting in self._waiting:
            # The table is ordered by age.
            while waiting and _asked_at(exchange := next(iter(waiting.values()))) < limit:
                self._give_up(key, exchange, reason)

    def _end(self, key: int, end: End) -> None:
        if end.side is None:
            self._ended = [True, True]
            self._over = True
        else:
            self._ended[end.side] = True
        waiting = [one for side in Side if self._ended[1 - side] for one in self._waiting[side].values()]
        for exchange in sorted(waiting, key=_asked_where):
            exchange.end = end
            self._give_up(key, exchange, f"the connection ended ({end.reason})")


def _asked_at(exchange: Exchange) -> int:
    """Capture time of an exchange's request."""
    return exchange.request.time if exchange.request is not None else 0


def _asked_where(exchange: Exchange) -> int:
    """Address of the last byte of an exchange's request; 0 without a request."""
    return exchange.request.at if exchange.request is not None else 0
