"""The time rules of a dialect on one connection: finds exchanges that are late, in capture time.

A rule is evaluated at the first frame or end that was captured after its time limit, so the result does not depend on
how the capture is read.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from kproxy.decoders.dialects.memory import Memory
from kproxy.decoders.exchange import Connection, Exchange, Status, StreamProblem
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.schema.dialect import Dialect, TimeRule
from kproxy.decoders.stream import Side

MILLISECOND = 1_000_000
MOST_OVER = 1024
"""Maximum number of complete exchanges that may stay in the heap of deadlines."""


class Punctuality:
    """Checks the time rules of a dialect. The conversation passes every request and response to it; `check` reports
    late ones.
    """

    def __init__(self, dialect: Dialect, connection: Connection, memory: Memory) -> None:
        self._dialect = dialect
        self._connection = connection
        self._memory = memory
        self._rules = {kind: [one for one in dialect.rules if one.rule == kind] for kind in ("asked", "unanswered")}
        self._within = {one.type: one for one in dialect.rules if one.rule == "answered"}
        self._due: list[tuple[int, TimeRule, Exchange]] = []
        """(deadline, rule, exchange) of requests that must come after a message; the deadline is a capture time."""
        self._answers: list[tuple[int, int, Exchange]] = []
        """A heap of (deadline, count, exchange): responses that must come by a capture time.

        Some have come meanwhile.
        """
        self._count = 0
        self._over = 0
        """Upper bound of the number of complete exchanges in the heap `_answers`."""
        self._late: set[Exchange] = set()
        """Waiting exchanges that were reported because their response is late."""
        self._in_a_row: dict[int, int] = {}
        """By request type: how many of the latest requests in a row were not answered in time."""

    def asked(self, exchange: Exchange, message: str) -> None:
        """Called when a request was captured; `message` is the name of its message."""
        frame = exchange.request
        if frame is None:
            return
        self._due = [one for one in self._due if one[1].type != exchange.api_key]
        for rule in self._rules["asked"]:
            limit = self._memory.get(rule.limit)
            if rule.after == message and limit is not None:
                self._due = [one for one in self._due if one[1] is not rule]
                self._due.append((frame.time + limit * MILLISECOND, rule, exchange))
        due = self._due_time(exchange)
        if due is not None:
            self._count += 1
            heappush(self._answers, (due, self._count, exchange))

    def answered(self, exchange: Exchange) -> None:
        """Called when the response to a request was captured."""
        if exchange.api_key is not None and exchange not in self._late:
            self._in_a_row[exchange.api_key] = 0

    def over(self, exchange: Exchange) -> None:
        """Called when an exchange is complete, so that nothing in it can be late any more."""
        self._late.discard(exchange)
        self._over += 1
        if self._over > MOST_OVER and 2 * self._over > len(self._answers):
            self._answers = [one for one in self._answers if one[2].status is Status.WAITING]
            heapify(self._answers)
            self._over = 0

    def overdue(self, exchange: Exchange, time: int) -> bool:
        """Whether the response to a request should have come before this capture time."""
        due = self._due_time(exchange)
        return due is not None and time > due

    def _due_time(self, exchange: Exchange) -> int | None:
        rule = None if exchange.api_key is None else self._within.get(exchange.api_key)
        limit = None if rule is None else self._memory.get(rule.limit)
        return None if limit is None or exchange.request is None else exchange.request.time + limit * MILLISECOND

    def check(self, key: int, time: int) -> list[StreamProblem]:
        """Add problems to waiting exchanges that are late at capture time `time`.

        Returns problems of the stream: requests that a rule expected and that never came.
        """
        while self._answers and self._answers[0][0] < time:
            _, _, exchange = heappop(self._answers)
            if exchange.status is Status.WAITING:
                self._late.add(exchange)
                self._note(exchange)
        missed = [one for one in self._due if time > one[0]]
        self._due = [one for one in self._due if time <= one[0]]
        return [self._never(key, *one) for one in missed]

    def _note(self, exchange: Exchange) -> None:
        number = exchange.api_key
        if number is None:
            return
        name = self._dialect.requests[number].name
        limit = self._memory.get(self._within[number].limit)
        self._add(exchange, f"no answer within {limit} ms", self._within[number])
        self._in_a_row[number] = row = self._in_a_row.get(number, 0) + 1
        for rule in self._rules["unanswered"]:
            most = self._memory.get(rule.limit)
            if rule.type == number and most is not None and row > most:
                self._add(
                    exchange,
                    f"{row} {name} requests in a row without an answer in time; at most {most} are allowed",
                    rule,
                )

    @staticmethod
    def _add(exchange: Exchange, text: str, rule: TimeRule) -> None:
        means = f": {rule.means}" if rule.means else ""
        exchange.problems.append(Problem("request", 0, "", text + means, Code.LATE))

    def _never(self, key: int, due: int, rule: TimeRule, after: Exchange) -> StreamProblem:
        name = self._dialect.requests[rule.type].name
        limit = (due - (after.request.time if after.request else due)) // MILLISECOND
        means = f": {rule.means}" if rule.means else ""
        asker = Side(1 - after.asked_by)
        text = f"no {name} within {limit} ms of {rule.after}{means}"
        return StreamProblem(self._connection, asker, due, 0, 0, Code.LATE, text, key)
