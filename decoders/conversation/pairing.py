"""Pairs responses with requests, by correlation id and never by position.

A request that wants no reply (Produce with acks=0) still waits for one, because some peers send it. It is complete as
`no_reply_expected` once a later request of its connection is answered (brokers answer in order), its id is used again,
`Limits.no_reply_time` of capture time has passed, or the connection ends, whichever comes first.

A dialect's request among Kafka's may have a response without a correlation id. Brokers answer in order, so it gets the
first response whose leading bytes are not the correlation id of an earlier waiting request; if they are the id of a
later one, the response must also fit the dialect's definition.

A response without a request waits `Limits.early_time` for its request, because a hole in the client's bytes delays the
requests after it, and because a capture can hold the two out of order; then it is an orphan. It is an orphan at once if
it was captured before the first request of a connection whose beginning the capture does not hold.

This is plain Python. If there is a C compiler, setup.py also compiles it as the extension `_pairing`, with the C types
of pairing.pxd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kproxy.decoders.conversation.items import BROKEN, IN_ORDER, NO_REPLY, ONE_WAY, RESPONSE, TOKEN, Item
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.conversation.overlap import told_by
from kproxy.decoders.exchange import Connection, Exchange, Frame, Status, StreamProblem
from kproxy.decoders.plurals import counted
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.stream import End

ACKS_0: Final = "acks=0"
NO_MORE_SASL: Final = "the last SASL token"
_NEVER: Final = 1 << 62
_CUT, _OK = Status.CUT, Status.OK

Done = list[tuple[int, Exchange | StreamProblem]]
Answer = tuple[Frame, "list[Problem] | None"]
"""(response, problems of the response or None)"""


class Pairing:
    """The requests in flight of one connection; complete exchanges are appended to `done` with their keys."""

    def __init__(
        self,
        connection: Connection,
        limits: Limits,
        started: list[tuple[int, Exchange]],
        fits: Callable[[Frame, Exchange], bool],
        *,
        opened: bool,
    ) -> None:
        """`fits(response, exchange)` returns whether a response fits a dialect's request to the last byte."""
        self.connection = connection
        self.limits = limits
        self.started = started
        self.done: Done = []
        self.outstanding: dict[int, Exchange] = {}
        # Lists, also where the first element goes first: an empty deque takes 0.7 kB, and limits keep these short.
        self.repeated: dict[int, list[Exchange]] = {}
        """By correlation id, the younger exchanges that wait with an id that is also in `outstanding`."""
        self.repeats = 0
        self.unanswered: list[Exchange] = []
        """The exchanges whose request wants no reply, oldest first; they are also in `outstanding`."""
        self.headless: list[Exchange] = []
        """Requests whose correlation id could not be read."""
        self.tokens: list[Exchange] = []
        self.in_order: list[Exchange] = []
        """Exchanges of dialects whose response has no correlation id."""
        self._fits = fits
        self.early: dict[int, list[Answer]] = {}
        """Responses that wait for their request, by correlation id."""
        self.earlies = 0
        self.broken: dict[int, Answer] = {}
        """A response that was incomplete when the connection ended, by correlation id."""
        self.deadline = _NEVER
        """Earliest capture time at which a waiting exchange or response can be overdue."""
        self.asked_from = 0 if opened else _NEVER
        """Capture time since which the capture holds the connection's requests."""

    def presume(self) -> None:
        """Make responses orphans at once until a request comes; for connections whose requests were not captured."""
        self.asked_from = _NEVER

    def take(
        self,
        answers: list[Item],
        asked: list[Item],
        index: int,
        ask: Callable[[Item], None],
        other: Callable[[int, Any], None],
        search: object,
    ) -> int:
        """Process `answers` and, before each, the items in `asked` with lower keys; returns the index of the next item
        in `asked`.

        Requests in `asked` are processed here, but during a `search` for responses they are passed to `ask`, as all
        other items in `asked` are; items in `answers` that are not responses are passed to `other`.
        """
        count = len(asked)
        upcoming = asked[index][0] if index < count else _NEVER
        for item in answers:
            key, kind, what, correlation_id = item
            while index < count and upcoming < key:
                asking = asked[index]
                if search is None and asking[1] < RESPONSE:
                    self.request(asking[0], asking[2], asking[1], asking[3])
                else:
                    ask(asking)
                index += 1
                if index < count:
                    upcoming = asked[index][0]
            if kind == RESPONSE:
                if type(what) is tuple:
                    self.response(key, what[0], what[1], correlation_id)
                else:
                    self.response(key, what, None, correlation_id)
            elif kind == BROKEN and correlation_id is not None:
                self.broken[correlation_id] = what
            else:
                other(key, what)
        return index

    def request(self, key: int, exchange: Exchange, kind: int, correlation_id: int | None) -> None:
        """Process a complete request; `key` is the item's key, `kind` the kind of item."""
        time = _request(exchange).time
        if time > self.deadline:
            self.expire(key, time)
        if self.asked_from == _NEVER:
            self.asked_from = _request(exchange).first_time
        if kind == TOKEN:
            self.tokens.append(exchange)
            self._bound(key)
            return
        if kind == ONE_WAY:
            self._finish(key, exchange, Status.NO_REPLY_EXPECTED, one_way(exchange))
            return
        if kind == IN_ORDER:
            self.in_order.append(exchange)
            self.deadline = min(self.deadline, time + self.limits.outstanding_time)
            self._bound(key)
            return
        if correlation_id is None:
            self.headless.append(exchange)
            self._bound(key)
            return
        if self.early and correlation_id in self.early:
            found = self._waiting_answer(correlation_id, time)
            if found is not None:
                self._answer(key, exchange, found[0], found[1])
                return
        outstanding = self.outstanding
        if correlation_id in outstanding:
            if outstanding[correlation_id] in self.unanswered:
                self._give_up_unanswered(key, outstanding[correlation_id])
            else:
                self._repeat(exchange, correlation_id)
                self._bound(key)
                return
        outstanding[correlation_id] = exchange
        if kind == NO_REPLY:
            self.unanswered.append(exchange)
            due = time + self.limits.no_reply_time
        else:
            due = time + self.limits.outstanding_time
        self.deadline = min(self.deadline, due)
        if len(outstanding) + self.repeats > self.limits.outstanding:
            self._bound(key)

    def _repeat(self, exchange: Exchange, correlation_id: int) -> None:
        text = f"correlation id {correlation_id} is used again while its first request waits"
        exchange.problems.append(Problem("request", 8, "correlationId", text, Code.REPEATED_CORRELATION_ID))
        self.repeated.setdefault(correlation_id, []).append(exchange)
        self.repeats += 1

    def response(self, key: int, frame: Frame, problems: list[Problem] | None, correlation_id: int | None) -> None:
        """Process a complete response; `key` is the item's key."""
        if frame.time > self.deadline:
            self.expire(key, frame.time)
        if frame.time < self.asked_from:
            self._orphan(key, frame, problems, correlation_id)
            return
        exchange = self.outstanding.get(correlation_id) if correlation_id is not None else None
        if self.tokens and (exchange is None or _before(exchange, self.tokens[0])):
            token = self.tokens.pop(0)
            self._answer(key, token, frame, problems)
            return
        if self.in_order and self._is_next(frame, exchange):
            self._answer(key, self.in_order.pop(0), frame, problems)
            return
        if exchange is None or correlation_id is None:
            self._unmatched(key, frame, problems, correlation_id)
            return
        if self.repeated and correlation_id in self.repeated:
            exchange = self._of_many(frame, exchange, correlation_id)
        if self.tokens or self.unanswered:
            self._pass(key, exchange)
        self._remove(exchange)
        exchange.response = frame
        if problems:
            exchange.problems += problems
        exchange.status = _CUT if frame.missing or _request(exchange).missing else _OK
        self.done.append((key, exchange))

    def _of_many(self, frame: Frame, oldest: Exchange, correlation_id: int) -> Exchange:
        """The oldest exchange with this correlation id whose request the response fits; if it fits none, `oldest`."""
        waiting = (oldest, *self.repeated[correlation_id])
        return next((one for one in waiting if not frame.missing and self._fits(frame, one)), oldest)

    def _answer(self, key: int, exchange: Exchange, frame: Frame, problems: list[Problem] | None) -> None:
        exchange.response = frame
        if problems:
            exchange.problems += problems
        self._finish(key, exchange, Status.OK, None)

    def _is_next(self, frame: Frame, exchange: Exchange | None) -> bool:
        """Whether a response answers the oldest request in `in_order` (whose responses have no correlation id) rather
        than `exchange`.

        The response's first bytes equal the correlation id of `exchange`.
        """
        oldest = self.in_order[0]
        if exchange is None or exchange in self.unanswered:
            return True
        return _before(oldest, exchange) and self._fits(frame, oldest)

    def _finish(self, key: int, exchange: Exchange, status: Status, reason: str | None) -> None:
        request, response = exchange.request, exchange.response
        cut = (request is not None and request.missing) or (response is not None and response.missing)
        exchange.status = Status.CUT if cut else status
        exchange.reason = reason
        self.done.append((key, exchange))

    def _next(self, correlation_id: int) -> None:
        """Put the next oldest exchange with this correlation id into `outstanding`."""
        waiting = self.repeated.get(correlation_id)
        if waiting:
            self.outstanding[correlation_id] = waiting.pop(0)
            self.repeats -= 1
            if not waiting:
                del self.repeated[correlation_id]

    def _pass(self, key: int, answered: Exchange) -> None:
        """Complete exchanges that expect no reply, if their requests were sent before the request of `answered`."""
        while self.tokens and _before(self.tokens[0], answered):
            self._finish(key, self.tokens.pop(0), Status.NO_REPLY_EXPECTED, NO_MORE_SASL)
        unanswered = self.unanswered
        while unanswered and _before(unanswered[0], answered):
            self._give_up_unanswered(key, unanswered[0])
        if answered in unanswered:
            unanswered.remove(answered)

    def _give_up_unanswered(self, key: int, exchange: Exchange) -> None:
        self.unanswered.remove(exchange)
        self._remove(exchange)
        self._finish(key, exchange, Status.NO_REPLY_EXPECTED, ACKS_0)

    def _remove(self, exchange: Exchange) -> None:
        """Remove a waiting exchange from the tables."""
        if exchange in self.in_order:
            self.in_order.remove(exchange)
            return
        correlation_id = exchange.correlation_id
        if correlation_id is None:
            return
        if self.outstanding.get(correlation_id) is exchange:
            del self.outstanding[correlation_id]
            self._next(correlation_id)
        elif (waiting := self.repeated.get(correlation_id)) is not None and exchange in waiting:
            waiting.remove(exchange)
            self.repeats -= 1
            if not waiting:
                del self.repeated[correlation_id]

    def _unmatched(self, key: int, frame: Frame, problems: list[Problem] | None, correlation_id: int | None) -> None:
        if correlation_id is None:
            self._orphan(key, frame, problems, correlation_id)
            return
        self.early.setdefault(correlation_id, []).append((frame, problems))
        self.earlies += 1
        self.deadline = min(self.deadline, frame.time + self.limits.early_time)
        if self.earlies > self.limits.early:
            oldest = next(iter(self.early))
            self._orphan(key, *self._take_early(oldest, 0), oldest)

    def overlap(self, key: int, found: StreamProblem) -> None:
        """Report a differing retransmission, on the waiting requests that it overlaps or else on the stream."""
        if found.time > self.deadline:
            self.expire(key, found.time)
        if not told_by((*self._waiting(), *self.tokens, *self.headless), found):
            self.done.append((key, found))

    def _waiting_answer(self, correlation_id: int, time: int) -> Answer | None:
        """The early response that belongs to a request captured at `time`; None if there is none.

        It is the first response after the request, else the last one before it.
        """
        answers = self.early[correlation_id]
        for earliest in (time, time - self.limits.disorder):
            for index, (frame, _) in enumerate(answers):
                if frame.time >= earliest:
                    return self._take_early(correlation_id, index)
        return None

    def _take_early(self, correlation_id: int, index: int) -> Answer:
        answers = self.early[correlation_id]
        answer = answers.pop(index)
        self.earlies -= 1
        if not answers:
            del self.early[correlation_id]
        return answer

    def _early_times(self) -> list[int]:
        return [frame.time for answers in self.early.values() for frame, _ in answers]

    def _orphan_early(self, key: int, before: int) -> None:
        """Make orphans of the early responses that were captured before time `before`."""
        for correlation_id in list(self.early):
            while (answers := self.early.get(correlation_id)) and answers[0][0].time < before:
                self._orphan(key, *self._take_early(correlation_id, 0), correlation_id)

    def _orphan(self, key: int, frame: Frame, problems: list[Problem] | None, correlation_id: int | None) -> None:
        exchange = Exchange(0, self.connection, None, None, correlation_id, None, None, frame)
        if correlation_id is None:
            text = f"a response of {counted(frame.size, 'byte')} has no header"
            exchange.problems.append(Problem("response", 0, "", text, Code.BAD_LENGTH))
        text = "no request with this correlation id waits"
        exchange.problems.append(Problem("response", 4, "correlationId", text, Code.UNMATCHED_RESPONSE))
        if problems:
            exchange.problems += problems
        exchange.status = Status.ORPHAN_RESPONSE
        self.started.append((key, exchange))
        self.done.append((key, exchange))

    def _bound(self, key: int) -> None:
        """Give up the oldest requests of each kind beyond the connection's limit."""
        self.keep(key, self.limits.outstanding, "on this connection")

    def keep(self, key: int, most: int, where: str) -> None:
        """Give up the oldest requests of each kind until at most `most` wait.

        `where` names the limit in the report.
        """
        while len(self.outstanding) + self.repeats > most:
            oldest = next(iter(self.outstanding.values()))
            if self.unanswered and self.unanswered[0] is oldest:
                self._give_up_unanswered(key, oldest)
            else:
                self._remove(oldest)
                self._evict(key, oldest, where)
        for others in (self.tokens, self.in_order, self.headless):
            while len(others) > most:
                self._evict(key, others.pop(0), where)

    def _evict(self, key: int, exchange: Exchange, where: str) -> None:
        reason = f"given up: too many requests waited {where}"
        exchange.problems.append(Problem("request", 0, "", reason, Code.EVICTED))
        self._finish(key, exchange, Status.NO_RESPONSE, reason)

    @property
    def waiting(self) -> int:
        """Number of requests in flight."""
        return len(self.outstanding) + self.repeats + len(self.tokens) + len(self.in_order) + len(self.headless)

    def tick(self, key: int, time: int) -> None:
        """Complete the requests that are overdue at capture time `time`; for connections without new events.

        Early responses keep waiting: a hole may delay their requests until the next event.
        """
        early, self.early = self.early, {}
        self.expire(key, time)
        self.early = early
        self.deadline = min(self.deadline, min(self._early_times(), default=_NEVER) + self.limits.early_time)

    def expire(self, key: int, time: int) -> None:
        """Complete all exchanges and early responses that are overdue at capture time `time`."""
        limits = self.limits
        limit = time - limits.no_reply_time
        for exchange in [one for one in self.unanswered if _time(one) < limit]:
            self._give_up_unanswered(key, exchange)
        if self.early:
            self._orphan_early(key, time - limits.early_time)
        limit = time - limits.outstanding_time
        reason = f"given up: no response within {limits.outstanding_time // 1_000_000_000} s"
        overdue = [one for one in self._waiting() if _time(one) < limit]
        for exchange in overdue:
            self._remove(exchange)
            self._finish(key, exchange, Status.NO_RESPONSE, reason)
        self.deadline = min(
            min((_time(one) for one in self._waiting()), default=_NEVER) + limits.outstanding_time,
            min((_time(one) for one in self.unanswered), default=_NEVER) + limits.no_reply_time,
            min(self._early_times(), default=_NEVER) + limits.early_time,
        )

    def _waiting(self) -> list[Exchange]:
        waiting = [*self.outstanding.values(), *self.in_order]
        for more in self.repeated.values():
            waiting += more
        return waiting

    def end(self, key: int, end: End, reason: str, *, over: bool) -> None:
        """Complete all requests, in order of their age, because no more responses can come after `end`.

        Unless the whole connection is `over`, early responses keep waiting: a hole may delay their requests.
        """
        if over:
            self._orphan_early(key, _NEVER)
        unanswered = set(map(id, self.unanswered))
        waiting = [*self._waiting(), *self.tokens, *self.headless]
        waiting.sort(key=_at)
        self.outstanding.clear()
        self.repeated.clear()
        self.repeats = 0
        self.unanswered.clear()
        self.tokens.clear()
        self.in_order.clear()
        self.headless.clear()
        self.deadline = min(self._early_times(), default=_NEVER) + self.limits.early_time
        for exchange in waiting:
            exchange.end = end
            if id(exchange) in unanswered:
                self._finish(key, exchange, Status.NO_REPLY_EXPECTED, ACKS_0)
            else:
                self._finish(key, exchange, Status.NO_RESPONSE, reason + self._came(exchange.correlation_id))
        if over:
            for correlation_id, (frame, problems) in self.broken.items():
                self._orphan(key, frame, problems, correlation_id)

    def _came(self, correlation_id: int | None) -> str:
        """Text that says how many bytes of a response came before the connection ended; "" if none did."""
        if correlation_id is None or correlation_id not in self.broken:
            return ""
        frame, _ = self.broken.pop(correlation_id)
        return f" {counted(frame.captured, 'byte')} into the response"


def one_way(exchange: Exchange) -> str:
    """Text that says why a dialect's request has no response."""
    return f"one-way request of dialect {exchange.protocol}"


def _request(exchange: Exchange) -> Frame:
    """The request of a waiting exchange, which always has one."""
    return exchange.request  # type: ignore[return-value]


def _at(exchange: Exchange) -> int:
    return _request(exchange).at


def _time(exchange: Exchange) -> int:
    return _request(exchange).time


def _before(one: Exchange, other: Exchange) -> bool:
    """Whether `one` was requested before `other`."""
    return _at(one) < _at(other)
