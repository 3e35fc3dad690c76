"""The attributes of an exchange, as filters and outputs read them.

A filter takes the values of `Field.attributes` from a row, which is an exchange in any representation: `ExchangeRow`
here, a row of an index in captures/index/values.py, the start of a request in kproxy/core/selection.py. A value that
the exchange does not have is None. A value that exists but is unknown (bytes are missing, a body cannot be decoded)
raises `Unavailable`, which the caller counts and shows. An iterable of several values gives the known ones first and
may then raise `Unavailable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kproxy.decoders.exchange import Status
from kproxy.decoders.knowledge import Knowledge, Nodes

if TYPE_CHECKING:
    from kproxy.decoders.batches.record import Record
    from kproxy.decoders.body_path import Path
    from kproxy.decoders.dialects.decoding import Where
    from kproxy.decoders.exchange import Exchange, Frame
    from kproxy.decoders.message import Decoded
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Source
    from kproxy.decoders.subjects import Subject


KAFKA = "kafka"
"""Value of `protocol` for an exchange that is not in a dialect."""
LENGTH = 4
"""Size in bytes of the length field before a frame, which a frame's `size` does not include."""
_MILLISECOND = 1_000_000


class Why(StrEnum):
    """Why a row's value is unknown; in messages, a count follows the text."""

    ORPHAN = "request not captured"
    TLS = "TLS"
    MISSING = "bytes missing from the capture"
    GONE = "bytes no longer stored"
    UNDECODABLE = "body not decodable"
    RECORDS = "records not readable"
    SECRET = "secret withheld"  # noqa: S105  # no password
    TOPIC_ID = "topic id without name"
    NODE = "node id not known"
    END = "end of the capture not known"
    NOT_INDEXED = "not in the index"


class Unavailable(Exception):  # noqa: N818 (a state of the row, not an error of the filter)
    """A value of the row is unknown, for the reason `why`, so that a filter may have no result."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.value)
        self.why = why


def left_out(counts: Mapping[Why, int]) -> str | None:
    """A sentence about the exchanges for which a filter had no result, with reasons; None if there are none."""
    total = sum(counts.values())
    if not total:
        return None
    return (
        f"{total:,} exchange{'s' if total > 1 else ''} left out because the filter could not decide: {reasons(counts)}"
    )


def reasons(counts: Mapping[Why, int]) -> str:
    """The numbers of undecided rows by reason, most frequent first: "TLS (4), secret withheld (2)"."""
    found = sorted(((count, why) for why, count in counts.items() if count), key=lambda one: (-one[0], one[1]))
    return ", ".join(f"{why} ({count:,})" for count, why in found)


DECODED_STATUSES = frozenset({Status.OK.value, Status.UNDECODABLE.value, Status.CUT.value})
"""The statuses that decoding the bodies can give an exchange whose `status_seen` is "ok"."""


class Learnt:
    """Facts from exchanges that help to read later ones: names of topic ids, node ids of addresses."""

    def __init__(self, knowledge: Knowledge | None = None, nodes: Nodes | None = None) -> None:
        self.knowledge = knowledge or Knowledge()
        self.nodes = Nodes() if nodes is None else nodes

    def learn(self, exchange: Exchange, source: Source, definitions: Definitions) -> None:
        """Add the facts of an exchange. Never raises on bad bytes."""
        from kproxy.decoders.learning import learn

        learn(exchange, source, definitions, self.knowledge, self.nodes)


def retriable(codes: Sequence[int], api_key: int | None, api_version: int | None) -> bool | None:
    """Whether clients retry after at least one of these error codes of a response; None if there are none."""
    from kproxy.decoders.schema import errors, irregular

    if not codes:
        return None
    unusual = api_key is not None and api_version is not None
    return any(
        errors.retriable(code) and not (unusual and irregular.error_meaning(api_key, api_version, code))  # type: ignore[arg-type]  # both are not None
        for code in codes
    )


def api_class(api_key: int | None, protocol: str | None, definitions: Definitions) -> str | None:
    """The class of an API ("core", "group", …); None if the API is unknown or belongs to a dialect."""
    api = None if api_key is None or protocol is not None else definitions.api(api_key)
    return None if api is None else str(api.klass)


def topics_of(subject: Subject, knowledge: Knowledge) -> Iterator[str]:
    """The topic names of a subject. Raises Unavailable, after all known names, if a topic id has no known name."""
    yield from subject.topics
    unknown = False
    for topic_id in subject.ids:
        name = knowledge.topic(topic_id)
        if name is None:
            unknown = True
        elif name not in subject.topics:
            yield name
    if unknown:
        raise Unavailable(Why.TOPIC_ID)


class ExchangeRow:
    """An `Exchange` as a row for filters; its frames are decoded only if the filter needs their bodies.

    Times and durations are in nanoseconds; sizes are in bytes and are those of whole frames.
    """

    __slots__ = ("_bodies", "_codes", "_decoded", "_definitions", "_learnt", "_source", "exchange")

    def __init__(
        self,
        exchange: Exchange,
        source: Source,
        definitions: Definitions,
        learnt: Learnt | None = None,
        decoded: dict[Where, Decoded | Unavailable | None] | None = None,
    ) -> None:
        """`decoded` maps "request" and "response" to frames that are decoded already; the row adds what it decodes."""
        self.exchange = exchange
        self._source = source
        self._definitions = definitions
        self._learnt = learnt or Learnt()
        self._codes: Sequence[int] | None = None
        self._decoded = decoded if decoded is not None else {}
        self._bodies: dict[tuple[Where, bool, bool], Any] = {}

    # --- from the headers ---

    @property
    def number(self) -> int:
        return self.exchange.number

    @property
    def connection(self) -> int:
        return self.exchange.connection.number

    @property
    def client(self) -> str:
        """The address "host:port" of the side that opened the connection; `broker` is the other side's."""
        return self.exchange.connection.client

    @property
    def broker(self) -> str:
        return self.exchange.connection.broker

    @property
    def node(self) -> int:
        """The broker's node id."""
        node = self._learnt.nodes.of(self.exchange.connection.broker)
        if node is None:
            raise Unavailable(Why.NODE)
        return node

    @property
    def api_key(self) -> int | None:
        return self.exchange.api_key

    @property
    def api_class(self) -> str | None:
        """The class of a Kafka API (`decoders.schema.apis.Api.klass`)."""
        return api_class(self.exchange.api_key, self.exchange.protocol, self._definitions)

    @property
    def api_version(self) -> int | None:
        return self.exchange.api_version

    @property
    def correlation_id(self) -> int | None:
        return self.exchange.correlation_id

    @property
    def client_id(self) -> str | None:
        """The client id; None if it is missing or empty."""
        return self.exchange.client_id or None

    @property
    def protocol(self) -> str:
        """The name of the exchange's dialect, or "kafka"."""
        return self.exchange.protocol or KAFKA

    @property
    def status_seen(self) -> str:
        """The status before bodies are decoded; decoding may turn "ok" into any of DECODED_STATUSES."""
        return self.exchange.status.value

    @property
    def time(self) -> int:
        """Time of the request's last byte, or without a request of the response's last byte."""
        frame = self.exchange.request or self.exchange.response
        return 0 if frame is None else frame.time

    @property
    def latency(self) -> int | None:
        return self.exchange.latency_ns

    @property
    def request_size(self) -> int | None:
        return None if self.exchange.request is None else self.exchange.request.size + LENGTH

    @property
    def response_size(self) -> int | None:
        return None if self.exchange.response is None else self.exchange.response.size + LENGTH

    @property
    def partial(self) -> bool:
        return any(frame.missing for frame in self._frames)

    @property
    def modified(self) -> bool:
        from kproxy.decoders.conversation.comments import CHANGED

        return any(comment.startswith(CHANGED) for frame in self._frames for comment in frame.comments)

    @property
    def commented(self) -> bool:
        return any(frame.comments for frame in self._frames)

    # --- from the bodies ---

    @property
    def status(self) -> str:
        """The status after decoding, one of decoders.exchange.Status."""
        exchange = self.exchange
        if exchange.status is not Status.OK or exchange.token:
            return exchange.status.value
        if any(not frame.missing and self._gone(frame) for frame in self._frames):
            return Status.CUT.value
        decoded = [self._try("request"), self._try("response")]
        undecodable = any(not isinstance(one, Unavailable) and one is not None and one.body is None for one in decoded)
        return Status.UNDECODABLE.value if undecodable else Status.OK.value

    @property
    def error_codes(self) -> Sequence[int]:
        """The response's non-zero error codes that could be decoded, each once, in order of appearance."""
        if self._codes is None:
            from kproxy.decoders.frames import codes

            decoded = self._try("response")
            if isinstance(decoded, Unavailable):
                raise decoded
            found = () if decoded is None else codes(decoded, self.exchange, self._definitions)
            if decoded is not None and decoded.body is None and not found:
                raise Unavailable(Why.UNDECODABLE)
            self._codes = found
        return self._codes

    @property
    def retriable(self) -> bool | None:
        """Whether clients retry after at least one of the response's errors; None if there is no error."""
        if self.exchange.protocol is not None:
            return None
        return retriable(self.error_codes, self.exchange.api_key, self.exchange.api_version)

    @property
    def throttle(self) -> int | None:
        """How long the broker asked the client to wait; None if it did not."""
        decoded = self._side("response")
        throttle = None if decoded is None or decoded.body is None else decoded.body.get("throttleTimeMs")
        return throttle * _MILLISECOND if isinstance(throttle, int) and throttle > 0 else None

    @property
    def records(self) -> int | None:
        from kproxy.decoders.records.counting import counted
        from kproxy.decoders.records.places import PLACES

        exchange = self.exchange
        place = None if exchange.api_key is None or exchange.protocol is not None else PLACES.get(exchange.api_key)
        if place is None:
            self._known()
            return None
        return counted(
            exchange.api_key,
            self.body("request") if place.in_request else None,
            None if place.in_request else self.body("response"),
        )[0]

    @property
    def problem(self) -> bool:
        if self.exchange.problems:
            return True
        if self.exchange.token or self.exchange.status is Status.TLS:
            return False
        decoded = (self._try("request"), self._try("response"))
        return any(one.problems for one in decoded if one is not None and not isinstance(one, Unavailable))

    @property
    def topics(self) -> Iterator[str]:
        """The names of the topics in the exchange, each once (`decoders.subjects`)."""
        subject, unknown = self._subject()
        yield from topics_of(subject, self._learnt.knowledge)
        if unknown is not None:
            raise unknown

    @property
    def groups(self) -> Iterator[str]:
        subject, unknown = self._subject()
        yield from subject.groups
        if unknown is not None:
            raise unknown

    @property
    def txns(self) -> Iterator[str]:
        subject, unknown = self._subject()
        yield from subject.txns
        if unknown is not None:
            raise unknown

    @property
    def acks(self) -> int | None:
        return self._asked().acks

    @property
    def fetch_role(self) -> str | None:
        role = self._asked().role
        return None if role is None else role.value

    @property
    def record_texts(self) -> Iterator[str]:
        """The keys, values and headers of all records, without nulls.

        The `record_` attributes do not include control records.
        """
        return self._record_texts(*_PARTS)

    @property
    def record_keys(self) -> Iterator[str]:
        return self._record_texts("key")

    @property
    def record_values(self) -> Iterator[str]:
        return self._record_texts("value")

    @property
    def record_headers(self) -> Iterator[str]:
        return self._record_texts("header")

    @property
    def record_offsets(self) -> Iterator[int]:
        return (record[0] for record, _ in self._records())

    @property
    def record_timestamps(self) -> Iterator[int]:
        return (at * _MILLISECOND for record, _ in self._records() if (at := record[1]) is not None and at >= 0)

    @property
    def batch_codecs(self) -> Iterator[str]:
        """The compression of each record batch; the `batch_` attributes do not include control batches."""
        return (batch["compression"] for batch in self._batches())

    @property
    def batch_sizes(self) -> Iterator[int]:
        return (batch["sizeInBytes"] for batch in self._batches())

    @property
    def batch_magics(self) -> Iterator[int]:
        return (batch["magic"] for batch in self._batches())

    @property
    def texts(self) -> Iterator[str]:
        """All texts in the bodies, as the exchange JSON has them. Records are not opened.

        Raises Unavailable, after all texts, if one was withheld or a body is unknown.
        """
        from kproxy.decoders.body_text import WITHHELD, texts

        unknown: Unavailable | None = None
        where: Where
        for where in ("request", "response"):
            try:
                decoded = self._side(where)
            except Unavailable as unavailable:
                unknown = unavailable
                continue
            for found in () if decoded is None else texts(self._json(where, decoded, opens=False, inside=True)):
                if found is WITHHELD:
                    unknown = Unavailable(Why.SECRET)
                else:
                    yield found
        if unknown is not None:
            raise unknown

    def at(self, path: Path) -> Iterator[Any]:
        where: Where = "request" if path.root == "request" else "response"
        decoded = self._side(where)
        if decoded is not None:
            yield from path.find(self._json(where, decoded, opens=path.opens, inside=path.inside))

    # --- decoding ---

    @property
    def _frames(self) -> list[Frame]:
        return [frame for frame in (self.exchange.request, self.exchange.response) if frame is not None]

    def _gone(self, frame: Frame) -> bool:
        return len(frame.data(self._source)) < frame.size + LENGTH

    def _known(self) -> None:
        """Raises Unavailable if the API is unknown because the request was not captured."""
        if self.exchange.api_key is None and not self.exchange.token:
            raise Unavailable(Why.ORPHAN)

    def _try(self, where: Where) -> Decoded | Unavailable | None:
        """The decoded request or response; None if it is missing.

        If it cannot be decoded, an Unavailable is returned, not raised.
        """
        if where not in self._decoded:
            try:
                self._decoded[where] = self._decode(where)
            except Unavailable as unavailable:
                self._decoded[where] = unavailable
        return self._decoded[where]

    def _decode(self, where: Where) -> Decoded | None:
        from kproxy.decoders.frames import decode_frame

        exchange = self.exchange
        if exchange.status is Status.TLS:
            raise Unavailable(Why.TLS)
        frame = exchange.request if where == "request" else exchange.response
        if exchange.token:
            return None
        if frame is None:
            self._known()
            return None
        if frame.missing:
            raise Unavailable(Why.MISSING)
        data = frame.data(self._source)
        if len(data) < frame.size + LENGTH:
            raise Unavailable(Why.GONE)
        decoded = decode_frame(data, where, exchange, self._definitions)
        if decoded is None:
            raise Unavailable(Why.ORPHAN)
        return decoded

    def _side(self, where: Where) -> Decoded | None:
        """The decoded request or response with its body; None if it is missing.

        Raises Unavailable if it cannot be decoded.
        """
        found = self._try(where)
        if isinstance(found, Unavailable):
            raise found
        if found is not None and found.body is None:
            raise Unavailable(Why.UNDECODABLE)
        return found

    def body(self, where: Where) -> Any:
        """The decoded body of "request" or "response"; None if there is none.

        Raises Unavailable if it cannot be decoded.
        """
        found = self._side(where)
        return None if found is None else found.body

    def _json(self, where: Where, decoded: Decoded, *, opens: bool, inside: bool) -> Any:
        """The JSON form of a body: with records if `opens`, with the decoded content of bytes if `inside`."""
        from kproxy.decoders.embedded import Scope
        from kproxy.decoders.jsonform import body_json
        from kproxy.decoders.view import View

        key = (where, opens, inside)
        if key not in self._bodies and decoded.body is not None and decoded.message is not None:
            asked = self._try("request") if where == "response" and inside else None
            view = View(open_batches=opens, inside=inside, knowledge=self._learnt.knowledge)
            scope = Scope(view, self._definitions, asked.body if asked and not isinstance(asked, Unavailable) else None)
            self._bodies[key] = body_json(decoded.body, decoded.message, decoded.version, view, scope)
        return self._bodies.get(key)

    def _subject(self) -> tuple[Subject, Unavailable | None]:
        """(known topics, groups and transactional ids of the exchange; the reason if some may be missing, else None)"""
        from kproxy.decoders.subjects import Subject, subject

        if self.exchange.protocol is not None:
            return Subject(), None
        sides: list[Decoded | None] = []
        unknown = None
        where: Where
        for where in ("request", "response"):
            try:
                sides.append(self._side(where))
            except Unavailable as unavailable:
                sides.append(None)
                unknown = unavailable
        return subject(self.exchange.api_key, *sides), unknown

    def _asked(self) -> Subject:
        from kproxy.decoders.subjects import Subject, subject

        if self.exchange.protocol is not None:
            return Subject()
        return subject(self.exchange.api_key, self._side("request"))

    def _record_texts(self, *parts: str) -> Iterator[str]:
        """The texts of these parts (keys of _PARTS) of all records that have them.

        Raises Unavailable, after all texts, if one was withheld.
        """
        from kproxy.decoders.records.internal import content_withheld

        withheld = False
        for record, topic in self._records():
            for part in parts:
                found = _PARTS[part](record)
                if found and content_withheld(topic, part, record):
                    withheld = True
                else:
                    yield from found
        if withheld:
            raise Unavailable(Why.SECRET)

    def _records(self) -> Iterator[tuple[Record, str | None]]:
        """(record, topic or None) for the records of the exchange, except control records.

        Raises Unavailable, after all readable records, if some are unreadable.
        """
        from kproxy.decoders.records.content import contents

        return self._carried(contents)

    def _batches(self) -> Iterator[Mapping[str, Any]]:
        """The headers of the record batches of the exchange, except control batches.

        Raises Unavailable, after all readable ones, if some are unreadable.
        """
        from kproxy.decoders.records.content import batches

        return self._carried(batches)

    def _carried(self, read: Callable[..., Iterator[Any]]) -> Iterator[Any]:
        """What `read` (a function of decoders.records.content) finds in the records fields of the exchange.

        Raises Unavailable at the end if it found something unreadable.
        """
        from kproxy.decoders.records.places import PLACES

        exchange = self.exchange
        place = None if exchange.api_key is None or exchange.protocol is not None else PLACES.get(exchange.api_key)
        if place is None:
            self._known()
            return
        asked = self.body("request") if place.in_request else None
        answered = None if place.in_request else self.body("response")
        shut = False
        for found in read(exchange.api_key, asked, answered, self._definitions, self._learnt.knowledge):
            if found is None:
                shut = True
            else:
                yield found
        if shut:
            raise Unavailable(Why.RECORDS)


def text(data: bytes | str) -> str:
    """A part of a record as text; U+FFFD replaces bytes that are not UTF-8."""
    return data if isinstance(data, str) else str(data, "utf-8", "replace")


_PARTS: Mapping[str, Callable[[Record], Sequence[str]]] = {
    "key": lambda record: () if record[2] is None else (text(record[2]),),
    "value": lambda record: () if record[3] is None else (text(record[3]),),
    "header": lambda record: [f"{text(name)}: {text(value or b'')}" for name, value in record[4]],
}
"""By part of a record, its texts."""
