"""The JSON objects of a reading: one for each exchange and stream problem, and one for its health.

The schemas are "kproxy.exchange/1", "kproxy.problem/1" and "kproxy.health/1". Bodies are decoded here, on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from kproxy.decoders import embedded, secrets
from kproxy.decoders.dialects.decoding import names, supposed
from kproxy.decoders.embedded import Scope
from kproxy.decoders.exchange import Exchange, Frame, Health, Status, StreamProblem
from kproxy.decoders.frames import codes, decode_frame, where_of
from kproxy.decoders.guessing import guess
from kproxy.decoders.inner_problems import problems_inside, record_problems
from kproxy.decoders.jsonform import base64, body_json, uuid_json, with_records
from kproxy.decoders.knowledge import concerns, topic_ids
from kproxy.decoders.message import Decoded, may_tell_a_secret
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code, Problem, limited
from kproxy.decoders.records import skipped
from kproxy.decoders.sasl.session import Session
from kproxy.decoders.schema import api_keys
from kproxy.decoders.schema.layout import per_version
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.schema.model import Message
from kproxy.decoders.stream import Side, Source
from kproxy.decoders.view import PLAIN, View

EXCHANGE = "kproxy.exchange/1"
PROBLEM = "kproxy.problem/1"
HEALTH = "kproxy.health/1"
SASL_TOKEN = "SaslToken"  # noqa: S105  # the name of an API
MICROSECONDS, NANOSECONDS = 6, 9

_SECOND = 1_000_000_000


@lru_cache(maxsize=64)
def _seconds(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    except (OverflowError, ValueError, OSError):
        # Times in a capture may lie in any year, but RFC 3339 has four digits for the year.
        return "9999-12-31T23:59:59" if seconds > 0 else "0001-01-01T00:00:00"


def timestamp(time: int, precision: int = MICROSECONDS) -> str:
    """A time in ns since the epoch as RFC 3339 text in UTC, with `precision` digits after the decimal point."""
    seconds, rest = divmod(time, _SECOND)
    return f"{_seconds(seconds)}.{str(_SECOND + rest)[1 : 1 + precision]}Z"


def milliseconds(time: int, precision: int = MICROSECONDS) -> float:
    """A duration in nanoseconds as milliseconds, rounded to the capture's `precision` (decimal places of a second)."""
    return round(time / 1_000_000, precision - 3)


def exchange_json(
    exchange: Exchange,
    source: Source,
    definitions: Definitions,
    *,
    view: View = PLAIN,
    precision: int = MICROSECONDS,
    health: Health | None = None,
) -> dict[str, Any]:
    """One exchange as the JSON object "kproxy.exchange/1".

    `precision` is the number of decimal places of a second in the capture's times, 6 or 9. `health`, if given, counts
    the frames that cannot be decoded.
    """
    frames = _Frames(exchange, source, definitions, view, precision)
    request = frames.side(exchange.request)
    response = frames.side(exchange.response)
    fetch = exchange.api_key == api_keys.FETCH and exchange.protocol is None
    if view.open_batches and fetch and request is not None and response is not None:
        skipped.mark(request["body"], response["body"])
    if health is not None:
        health.undecoded += frames.undecoded
    connection = exchange.connection
    key = exchange.api_key
    status = exchange.status
    if status is Status.OK and (frames.cut or frames.undecoded):
        status = Status.CUT if frames.cut else Status.UNDECODABLE
    line: dict[str, Any] = {
        "schema": EXCHANGE,
        "exchange": exchange.number,
        "connection": connection.number,
        "client": connection.client,
        "broker": connection.broker,
        "api_key": key,
        "api": SASL_TOKEN if exchange.token else None if key is None else definitions.api_name(key, exchange.protocol),
        "api_version": exchange.api_version,
        "correlation_id": exchange.correlation_id,
        "client_id": exchange.client_id,
        "request": request,
        "response": response,
        "status": status.value,
    }
    if exchange.protocol is not None:
        line["protocol"] = exchange.protocol
        if exchange.asked_by is Side.BROKER:
            line["asked_by"] = "broker"
    if exchange.session is not None:
        line["sasl"] = session_json(exchange.session, precision)
    if exchange.reason is not None:
        line["reason"] = exchange.reason
    if frames.definitions_used is not None:
        line["definitions"] = frames.definitions_used
    latency = exchange.latency_ns
    line["latency_ms"] = None if latency is None else milliseconds(latency, precision)
    line["error_codes"] = frames.errors
    line["problems"] = [problem.to_json() for problem in (*exchange.problems, *frames.problems)]
    line["findings"] = list(view.findings.get(exchange.number, ()))
    if frames.topic_ids and (topics := frames.topics()):
        line["topics"] = topics
    return line


class _Reach(NamedTuple):
    """The parts of a message that need further work: topic ids and facts, decodable bytes fields, records fields."""

    knowledge: bool
    inside: bool
    records: bool


@per_version
def _reach(message: Message, version: int) -> _Reach | None:
    inside, records = bool(embedded.places(message, version)), with_records(message, version) is not None
    reach = _Reach(concerns(message, version), inside, records)
    return reach if any(reach) else None


class _Frames:
    """Decodes the two frames of an exchange and collects their problems and facts."""

    def __init__(
        self, exchange: Exchange, source: Source, definitions: Definitions, view: View, precision: int
    ) -> None:
        self.exchange = exchange
        self.source = source
        self.definitions = definitions
        self.view = view
        self.precision = precision
        self.problems: list[Problem] = []
        self.errors: list[str] = []
        self.definitions_used: str | None = None
        self.undecoded = 0
        self.cut = False
        self.asked: Mapping[str, Any] | None = None
        """The body of the frame decoded before: the request's, while the response is decoded."""
        self.topic_ids: list[Buffer] = []

    def side(self, frame: Frame | None) -> dict[str, Any] | None:
        """The member "request" or "response" for a frame; None if the frame is missing."""
        if frame is None:
            return None
        shown: dict[str, Any] = {
            "timestamp": timestamp(frame.time, self.precision),
            "size": frame.size,
            "body": None,
        }
        if frame.comments:
            shown["comments"] = list(frame.comments)
        exchange = self.exchange
        if exchange.status is Status.TLS:
            return shown
        data = frame.data(self.source)
        lost = frame.captured - len(data)
        if lost > 0:
            self.cut = True
            text = f"{counted(lost, 'byte')} {are(lost)} no longer stored"
            self.problems.append(Problem(where_of(exchange, frame), len(data), "", text, Code.TRUNCATED))
        if exchange.token and not frame.missing and not lost:
            shown["body"] = {"token": self._token(data[4:])}
            return shown
        decoded = None if frame.missing or lost > 0 else self._decode(frame, data)
        if decoded is None or decoded.body is None or decoded.message is None:
            self.undecoded += decoded is not None
            if decoded is not None and frame is exchange.response:
                self._errors(decoded)
            shown["raw"] = self._secret(data) if self._may_hold_secrets(frame, data) else base64(data)
            if exchange.status is Status.ORPHAN_RESPONSE and exchange.protocol is None and not frame.missing + lost > 0:
                self._guess(data, shown)
            return shown
        self._body(frame, data, decoded, shown)
        self.asked = decoded.body
        if decoded.guessed_version is not None:
            shown["guessed_version"] = decoded.guessed_version
        if frame is exchange.response:
            self._errors(decoded)
        dialect = None if exchange.protocol is None else self.definitions.dialects[exchange.protocol]
        if dialect is not None and supposed(decoded, dialect):
            shown["supposed"] = True
        if dialect is not None and (named := names(decoded.body, decoded.message, decoded.version)):
            shown["names"] = named
        return shown

    def _guess(self, data: bytes | memoryview, shown: dict[str, Any]) -> None:
        """Add the member "guess" to an orphan, if its API can be guessed. Guesses never add to the knowledge."""
        found = guess(data, self.definitions)
        if found is None or found.decoded.body is None or found.decoded.message is None:
            return
        scope = Scope(self.view, self.definitions)
        body = body_json(found.decoded.body, found.decoded.message, found.decoded.version, self.view, scope)
        shown["guess"] = {
            "api_key": found.api_key,
            "api": self.definitions.api_name(found.api_key),
            "api_versions": list(found.versions),
            "body": body,
        }

    def _body(self, frame: Frame, data: bytes | memoryview, decoded: Decoded, shown: dict[str, Any]) -> None:
        """Add the member "body" for a decoded frame."""
        body, message, version, view = decoded.body, decoded.message, decoded.version, self.view
        if body is None or message is None:
            return
        # These steps are for Kafka's messages only; a dialect may use the same message names for other ones.
        reach = _reach(message, version) if self.exchange.protocol is None else None
        if reach is None:
            shown["body"] = body_json(body, message, version, view)
            return
        if reach.knowledge:
            view.knowledge.learn(message, version, body, self.asked)
            self.topic_ids += topic_ids(body, message, version)
        scope = Scope(view, self.definitions, self.asked)
        shown["body"] = body_json(body, message, version, view, scope)
        if scope.found.own or (reach.records and not view.open_batches):
            self.problems += record_problems(data, decoded, shown["body"], where_of(self.exchange, frame))
        if reach.inside:
            self.problems += problems_inside(data, decoded, scope, where_of(self.exchange, frame))

    def topics(self) -> dict[str, str]:
        """Topic names by topic id, for the topic ids in both bodies whose names are known."""
        names = ((topic_id, self.view.knowledge.topic(topic_id)) for topic_id in self.topic_ids)
        return {uuid_json(topic_id): name for topic_id, name in names if name is not None}

    def _decode(self, frame: Frame, data: bytes | memoryview) -> Decoded | None:
        decoded = decode_frame(data, where_of(self.exchange, frame), self.exchange, self.definitions)
        if decoded is None:
            return None
        self.problems += limited(decoded.problems)
        if decoded.definitions is not None:
            self.definitions_used = decoded.definitions
        return decoded

    def _errors(self, decoded: Decoded) -> None:
        exchange = self.exchange
        for code in codes(decoded, exchange, self.definitions):
            name = self.definitions.error_name(code, exchange.api_key, exchange.api_version, exchange.protocol)
            self.errors.append(name)

    def _may_hold_secrets(self, frame: Frame, data: bytes | memoryview) -> bool:
        exchange = self.exchange
        if exchange.protocol is not None:
            return False
        if exchange.api_key is None and frame.side is Side.BROKER:
            return frame.missing > 0 or self.cut or may_tell_a_secret(data, self.definitions)
        return exchange.token or secrets.in_frame(exchange.api_key, data, response=frame.side is Side.BROKER)

    def _token(self, data: bytes | memoryview) -> Any:
        scope = Scope(self.view, self.definitions)
        inside = embedded.token(data, scope)
        plain = self._secret(data)
        return plain if inside is None else embedded.form(plain, data, inside, body_json, scope)

    def _secret(self, data: bytes | memoryview) -> Any:
        return base64(data) if self.view.show_secrets else secrets.redacted(data)


def session_json(session: Session, precision: int = MICROSECONDS) -> dict[str, Any]:
    """The state of a connection's authentication as JSON; times are RFC 3339 text."""
    shown = session.to_json()
    for name, time in (("since", session.since), ("ends", session.ends)):
        if time is not None:
            shown[name] = timestamp(time, precision)
    return shown


def problem_json(problem: StreamProblem, *, precision: int = MICROSECONDS) -> dict[str, Any]:
    """A stream problem as the JSON object "kproxy.problem/1"; `where` is the side that sent the bytes."""
    connection = problem.connection
    return {
        "schema": PROBLEM,
        "connection": connection.number,
        "client": connection.client,
        "broker": connection.broker,
        "timestamp": timestamp(problem.time, precision),
        "where": "client" if problem.side is Side.CLIENT else "broker",
        "offset": problem.offset,
        "size": problem.size,
        "code": problem.code.value,
        "message": problem.message,
    }


def health_json(health: Health) -> dict[str, Any]:
    """The counters of a reading as the JSON object "kproxy.health/1", the last line of the output."""
    return {"schema": HEALTH, **asdict(health)}
