"""Answers about captures, each a JSON object of bounded size.

Lists come in pages: `next` is the cursor for the next page, null at the end. Secrets are withheld, and no method
changes anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from kproxy.agents import journey
from kproxy.captures.definitions import definitions
from kproxy.core.differences import differing
from kproxy.decoders.canonical import Canonical
from kproxy.decoders.exchange_json import timestamp
from kproxy.decoders.schema.described import message_json
from kproxy.decoders.schema.naming import by_version, named
from kproxy.library.capture import Capture
from kproxy.library.exchange import Exchange

LONGEST: Final = 40_000
"""Maximum number of characters of an answer's JSON, so that it fits into an agent's context."""
MOST: Final = 200
"""Maximum number of elements of a page."""
FEW: Final = 10
"""Number of elements that a list inside of an exchange keeps if the exchange is too long."""
LONGEST_TEXT: Final = 200
"""Number of characters that a text inside of an exchange keeps if the exchange is too long."""

FIGURES: Final = ("api", "long_poll", "count", "errors", "p50_ms", "p99_ms", "max_ms")
"""The members of an API's figures that a summary shows."""

Object = dict[str, Any]


class Answers:
    """Answers questions about captures; `open_capture` opens them for each question, because they may grow.

    `open_capture` uses `strict` false: an answer covers what could be read, and "capture_errors" says what could not.
    """

    def __init__(self, open_capture: Callable[[], Capture]) -> None:
        self._open = open_capture

    def summary(self) -> Object:
        """What the captures hold: times, APIs with counts, errors and latencies, clients, brokers, gaps, findings.

        Ask this first.
        """
        with self._capture() as (capture, answer):
            answer.update(capture.summary())
            for name in ("clients", "brokers"):
                answer[name] = dict(islice(answer[name].items(), MOST))
            answer["apis"] = [{name: line[name] for name in FIGURES} for line in answer["apis"]]
            return _bounded(answer)

    def findings(self, severity: str = "note", cursor: int = 0) -> Object:
        """What is wrong, the worst and most costly first: cause, evidence (exchange numbers), fixes, how to verify.

        `severity` is the lowest severity that is listed: error, warn, note or info.
        """
        with self._capture() as (capture, answer):
            return _page(answer, "findings", capture.findings(severity), cursor, MOST)

    def exchanges(self, where: str = "", limit: int = 50, cursor: int = 0) -> Object:
        """Requests with their responses, a line each: number, time, API, client, latency, errors, topics, groups.

        `where` is a display filter, such as `api == JoinGroup and group == billing`, `error`, `latency > 1s`.
        """
        with self._capture(where) as (capture, answer):
            found = [_line(one) for one in islice(capture, cursor, cursor + _limit(limit) + 1)]
            if capture.undecided:
                answer["undecided"] = capture.undecided
            return _page(answer, "exchanges", found, cursor, _limit(limit), skipped=cursor)

    def exchange(self, number: int) -> Object:
        """One exchange with all fields of request and response; lists and texts are cut if the answer is too long."""
        with self._capture(f"exchange == {number}") as (capture, answer):
            for one in capture:
                answer["exchange"] = dict(one)
                return _bounded(answer)
            raise ValueError(f"there is no exchange {number}")

    def records(self, where: str = "", limit: int = 50, cursor: int = 0) -> Object:
        """Records that producers sent or consumers received: topic, partition, offset, key, value, headers.

        `where` is a display filter, such as `api == Produce and topic == orders`.
        """
        with self._capture(where) as (capture, answer):
            page = islice(capture.records(), cursor, cursor + _limit(limit) + 1)
            found = [{name: value for name, value in one.items() if name != "batch"} for one in page]
            return _page(answer, "records", found, cursor, _limit(limit), skipped=cursor)

    def stats(self, by: str = "api", where: str = "", cursor: int = 0) -> Object:
        """Counts, errors, latency percentiles, bytes and throttling by api, client, broker or topic."""
        with self._capture(where) as (capture, answer):
            return _page(answer, "stats", capture.stats(by), cursor, MOST)

    def view(self, name: str, where: str = "", cursor: int = 0) -> Object:
        """What happened across exchanges: groups (members, generations, why each rebalance happened), topics (who
        produces and consumes), transactions, connections, clients (what each does, how far it came), or cluster
        (leaders, ISRs, traffic of each partition).
        """
        with self._capture(where) as (capture, answer):
            return _page(answer, name, capture.view(name), cursor, MOST)

    def journey(self, topic: str, partition: int, offset: int, cursor: int = 0) -> Object:
        """What became of one record: the Produce that wrote it, each Fetch that delivered it and to whom, and the first
        commit of each group that went past it.
        """
        with self._capture() as (capture, answer):
            return _page(answer, "steps", list(journey.steps(capture, topic, partition, offset)), cursor, MOST)

    def diff(self, first: int, second: int) -> Object:
        """The fields in which two exchanges differ, such as a request before and after something changed.

        What differs from run to run (member ids, correlation ids, times, the order of topics) is made alike first.
        """
        forms: dict[int, Object] = {}
        with self._capture(f"exchange in ({first}, {second})") as (capture, answer):
            for one in capture:
                forms[one.number] = Canonical().exchange(one)
            missing = {first, second} - set(forms)
            if missing:
                raise ValueError(f"there is no exchange {min(missing)}")
            changes = differing(forms[first], forms[second])
            answer["differences"] = [{"path": one.path, "first": one.old, "second": one.new} for one in changes]
            return _bounded(answer)

    @staticmethod
    def schema(name: str, version: int | None = None) -> Object:
        """The fields of a message by Kafka's definitions: "Fetch", "FetchRequest", or a message inside others."""
        known = definitions()
        found = named(name, known)
        if found is None:
            raise ValueError(f"no API and no message is called {name!r}")
        answers = []
        for messages in found.messages(known):
            at = by_version(messages, known)
            if version is not None and version not in at:
                raise ValueError(f"{name} has versions {min(at)} to {max(at)}, not {version}")
            answers.append(message_json(at, version, known))
        return _bounded({"messages": answers})

    @contextmanager
    def _capture(self, where: str = "") -> Iterator[tuple[Capture, Object]]:
        """A context with (filtered captures, empty answer); at its end it adds "capture_errors" to the answer."""
        answer: Object = {}
        with self._open() as opened:
            capture = opened.where(where) if where.strip() else opened
            yield capture, answer
            if capture.errors:
                answer["capture_errors"] = [str(error) for error in capture.errors[:FEW]]


def _line(one: Exchange) -> Object:
    line: Object = {
        "exchange": one.number,
        "time": timestamp(one.time_ns),
        "connection": one.connection,
        "api": one.api,
        "version": one.api_version,
        "client_id": one.client_id,
        "client": one.client,
        "broker": one.broker,
        "latency_ms": one.latency_ms,
        "status": one.status,
    }
    for name, values in (("errors", one.errors), ("topics", one.topics), ("groups", one.groups)):
        if values:
            line[name] = list(values[:FEW])
    return line


def _limit(limit: int) -> int:
    return max(1, min(limit, MOST))


def _page(answer: Object, name: str, found: list[Object], cursor: int, limit: int, skipped: int = 0) -> Object:
    """Adds one page of `found` to an answer as the member `name`, and the cursor of the next page as `next`.

    The page begins at element number `cursor` and has at most `limit` elements and about LONGEST characters of JSON.
    `skipped` is the number of the first element in `found`.
    """
    begin = cursor - skipped
    page: list[Object] = []
    size = len(json.dumps(answer))
    for one in found[begin : begin + limit]:
        shown = _shortened(one, LONGEST // 2)
        size += len(json.dumps(shown)) + 2
        if page and size > LONGEST:
            break
        page.append(shown)
    reached = cursor + len(page)
    answer[name] = page
    answer["next"] = reached if len(found) + skipped > reached else None
    return answer


def _bounded(answer: Object) -> Object:
    """Shortens an answer in place to at most LONGEST characters of JSON; returns it."""
    shortened = dict(_shortened(answer, LONGEST))
    answer.clear()
    answer.update(shortened)
    return answer


def _shortened(value: Object, longest: int) -> Object:
    """The object, with lists and texts cut until its JSON has at most `longest` characters, or else only a note."""
    few = FEW
    while len(json.dumps(value)) > longest and few:
        value = _cut(value, few)
        few //= 3
    return value if len(json.dumps(value)) <= longest else {"left_out": "this is too long to be shown"}


def _cut(value: Any, few: int) -> Any:
    """A value with the first `few` elements of lists, the beginnings of texts, and how much is left out of each."""
    if isinstance(value, Mapping):
        return {name: _cut(one, few) for name, one in value.items()}
    if isinstance(value, list):
        left_out = len(value) - few
        return [_cut(one, few) for one in value[:few]] + ([f"({left_out} more left out)"] if left_out > 0 else [])
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}… ({len(value) - LONGEST_TEXT} characters left out)"
    return value
