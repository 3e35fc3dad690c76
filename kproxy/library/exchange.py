"""An exchange and a record, as the library gives them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kproxy.decoders.exchange_json import SASL_TOKEN
from kproxy.decoders.exchange_row import ExchangeRow, Unavailable
from kproxy.decoders.tree import Node
from kproxy.library.json_object import JsonObject

if TYPE_CHECKING:
    from kproxy.decoders.exchange import Exchange as Found
    from kproxy.decoders.exchange import Frame
    from kproxy.library.reading import Reading

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Exchange(JsonObject):
    """A request and its response; one of them may be missing.

    As a mapping it is the exchange JSON of `kproxy export` (docs/exchange-json.md): `exchange["latency_ms"]`.
    Attributes from the headers (all up to `status_seen`) are there at once; the others decode the bodies when they are
    first used, and the capture must then still be open.
    """

    __slots__ = ("_attributes", "_found", "_json", "_reading")

    def __init__(self, found: Found, reading: Reading) -> None:
        self._found = found
        self._reading = reading
        self._json: dict[str, Any] | None = None
        self._attributes: ExchangeRow | None = None

    # --- from the headers ---

    @property
    def number(self) -> int:
        """The number of the exchange in the capture, from 1, in the order in which requests began."""
        return self._found.number

    @property
    def connection(self) -> int:
        """The number of the TCP connection, from 1."""
        return self._found.connection.number

    @property
    def client(self) -> str:
        """The client's address, "host:port"."""
        return self._found.connection.client

    @property
    def broker(self) -> str:
        """The broker's address, "host:port"."""
        return self._found.connection.broker

    @property
    def client_id(self) -> str | None:
        """The client id in the request's header."""
        return self._found.client_id

    @property
    def api(self) -> str | None:
        """The name of the API, such as "Produce"; None for a response whose request was not captured."""
        found = self._found
        if found.token:
            return SASL_TOKEN
        if found.api_key is None:
            return None
        return self._reading.reader.definitions.api_name(found.api_key, found.protocol)

    @property
    def api_key(self) -> int | None:
        """The API key in the request's header."""
        return self._found.api_key

    @property
    def api_version(self) -> int | None:
        """The API version in the request's header."""
        return self._found.api_version

    @property
    def correlation_id(self) -> int | None:
        """The correlation id, which a response repeats from its request."""
        return self._found.correlation_id

    @property
    def time_ns(self) -> int:
        """Time of the request's last byte (without a request, of the response's) in ns since the epoch."""
        frame = self._found.request or self._found.response
        return 0 if frame is None else frame.time

    @property
    def time(self) -> datetime:
        """`time_ns` as a datetime in UTC, rounded down to microseconds.

        Raises OverflowError for a time after the year 9999, which a damaged capture may have.
        """
        return _EPOCH + timedelta(microseconds=self.time_ns // 1000)

    @property
    def latency_ms(self) -> float | None:
        """Milliseconds from the request's last byte to the response's; None if one of them is missing."""
        latency = self._found.latency_ns
        return None if latency is None else latency / 1_000_000

    @property
    def request_size(self) -> int | None:
        """Bytes of the request without its length field; None without a request."""
        return None if self._found.request is None else self._found.request.size

    @property
    def response_size(self) -> int | None:
        """Bytes of the response without its length field; None without a response."""
        return None if self._found.response is None else self._found.response.size

    @property
    def status_seen(self) -> str:
        """`status` as far as the headers tell it: "ok" may turn out to be "undecodable" or "cut"."""
        return self._found.status.value

    # --- from the bodies ---

    @property
    def json(self) -> Mapping[str, Any]:
        """The object "kproxy.exchange/1" (docs/exchange-json.md)."""
        if self._json is None:
            self._json = self._reading.json(self._found)
        return self._json

    @property
    def status(self) -> str:
        """What became of the exchange: "ok", "no_response", "undecodable", "cut" … (docs/exchange-json.md)."""
        return str(self.json["status"])

    @property
    def request(self) -> dict[str, Any] | None:
        """The request's body by field names; None without a request, or if it cannot be decoded."""
        return self._body("request")

    @property
    def response(self) -> dict[str, Any] | None:
        """The response's body by field names; None without a response, or if it cannot be decoded."""
        return self._body("response")

    @property
    def errors(self) -> tuple[str, ...]:
        """Names of the error codes in the response, each once: ("NOT_LEADER_OR_FOLLOWER",)."""
        return tuple(dict.fromkeys(self.json["error_codes"]))

    @property
    def problems(self) -> tuple[dict[str, Any], ...]:
        """What is wrong with the bytes, each with its offset and the path of the field."""
        return tuple(self.json["problems"])

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics in the exchange; topic ids without a known name are left out."""
        return _known(self._row().topics)

    @property
    def groups(self) -> tuple[str, ...]:
        """Ids of the consumer, share and streams groups in the exchange."""
        return _known(self._row().groups)

    @property
    def throttle_ms(self) -> int:
        """How long the broker asked the client to wait, in milliseconds; 0 if it did not, or if that is unknown."""
        try:
            throttle = self._row().throttle
        except Unavailable:
            return 0
        return 0 if throttle is None else throttle // 1_000_000

    def records(self) -> Iterator[Record]:
        """The records of the exchange: those that a Produce sends or a Fetch receives, one after the other."""
        return map(Record, self._reading.records(self._found))

    # --- bytes ---

    @property
    def request_bytes(self) -> bytes:
        """The request as it was sent, length field included; secrets too. b"" without a request."""
        return self._bytes(self._found.request)

    @property
    def response_bytes(self) -> bytes:
        """The response as it was sent, length field included; secrets too. b"" without a response."""
        return self._bytes(self._found.response)

    @property
    def tree(self) -> Tree:
        """Request and response field by field, each with its bytes; `print(exchange.tree)` shows them."""
        return Tree(self._found, self._reading)

    def _row(self) -> ExchangeRow:
        """The attributes that filters use; the row decodes each body once."""
        self._reading.check_open()
        if self._attributes is None:
            self._attributes = self._reading.row(self._found)
        return self._attributes

    def _body(self, side: str) -> dict[str, Any] | None:
        shown = self.json[side]
        body: dict[str, Any] | None = None if shown is None else shown["body"]
        return body

    def _bytes(self, frame: Frame | None) -> bytes:
        return b"" if frame is None else self._reading.data(frame)

    def __repr__(self) -> str:
        latency = self.latency_ms
        took = "" if latency is None else f", {latency:g} ms"
        version = "" if self.api_version is None else f" v{self.api_version}"
        return f"<Exchange {self.number}: {self.api}{version} {self.client} → {self.broker}, {self.status_seen}{took}>"

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]:
        yield "number", self.number
        yield "api", self.api
        yield "api_version", self.api_version
        yield "client", self.client
        yield "broker", self.broker
        yield "latency_ms", self.latency_ms
        yield "status", self.status_seen

    def _repr_html_(self) -> str:
        from kproxy.library.notebook import exchange_html

        return exchange_html(self.json)


class Tree:
    """The fields of an exchange's frames with their bytes; as a string, a line for each field.

    `request` and `response` are the roots, `kproxy.decoders.tree.Node`: a node has `name`, `type`, `value`, `start` and
    `end` (the bytes [start, end) of the frame, length field included) and `children`. They are None for a frame that is
    missing, for TLS, and for a SASL token.
    """

    __slots__ = ("_lines", "request", "response")

    request: Node | None
    response: Node | None

    def __init__(self, found: Found, reading: Reading) -> None:
        from kproxy.captures.export.nodes import tree_lines
        from kproxy.decoders.exchange import Status

        roots: list[Node | None] = []
        self._lines: list[str] = []
        for name, frame in (("request", found.request), ("response", found.response)):
            root = None
            if frame is not None and found.status is not Status.TLS:
                shown = reading.fields(found, frame)
                root = shown.root
                if root is not None:
                    guess = f" ({shown.guess})" if shown.guess else ""
                    self._lines += [f"{name}{guess}", *tree_lines(root, shown.data, shown.style)]
            roots.append(root)
        self.request, self.response = roots

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def __repr__(self) -> str:
        return f"<Tree of {len(self._lines)} lines: print it>"


class Record(JsonObject):
    """A record of a Produce request, of a Fetch response, or of a log segment.

    As a mapping it is the object "kproxy.record/1" of `kproxy export --format records` (docs/exchange-json.md).
    """

    __slots__ = ("_json",)

    def __init__(self, json: dict[str, Any]) -> None:
        self._json = json

    @property
    def json(self) -> Mapping[str, Any]:
        """The object "kproxy.record/1"."""
        return self._json

    @property
    def exchange(self) -> int | None:
        """The number of the exchange that carries the record; None in a log segment."""
        number: int | None = self._json.get("exchange")
        return number

    @property
    def topic(self) -> str | None:
        """The topic's name; None if only its id is known."""
        topic: str | None = self._json["topic"]
        return topic

    @property
    def partition(self) -> int | None:
        """The partition's index; None in a log segment outside of a partition's directory."""
        partition: int | None = self._json["partition"]
        return partition

    @property
    def offset(self) -> int:
        """The offset in the batch as it is on the wire: for a Produce, it counts from 0."""
        return int(self._json["offset"])

    @property
    def assigned_offset(self) -> int | None:
        """For a Produce, the offset that the broker's answer gave the record; None if there is none."""
        offset: int | None = self._json.get("assignedOffset")
        return offset

    @property
    def timestamp_ms(self) -> int | None:
        """The record's timestamp in milliseconds since the epoch; None in the oldest format, which has none."""
        timestamp: int | None = self._json["timestamp"]
        return timestamp

    @property
    def key(self) -> bytes | None:
        """The key's bytes; None for a null key, and where `json` withholds it."""
        return _payload(self._json["key"])

    @property
    def value(self) -> bytes | None:
        """The value's bytes; None for a null value (a tombstone), and where `json` withholds it."""
        return _payload(self._json["value"])

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The record's headers in their order; names may repeat."""
        return [(one["key"], _payload(one["value"])) for one in self._json["headers"]]

    @property
    def skipped(self) -> str | None:
        """Why consumers skip the record, such as an aborted transaction; None if they do not."""
        reason: str | None = self._json.get("skipped")
        return reason

    def __repr__(self) -> str:
        return f"<Record {self.topic}-{self.partition}@{self.offset}: key {self.key!r}, value {_short(self.value)}>"


def _known(values: Iterable[str]) -> tuple[str, ...]:
    """The values before the first unknown one (decoders.exchange_row), each once."""
    found: list[str] = []
    with suppress(Unavailable):
        found.extend(values)
    return tuple(dict.fromkeys(found))


def _payload(value: Any) -> bytes | None:
    """The bytes of a key, value or header value in the form of the exchange JSON."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, Mapping) and isinstance(value.get("base64"), str):
        return b64decode(value["base64"])
    return None


def _short(value: bytes | None, most: int = 40) -> str:
    if value is None or len(value) <= most:
        return repr(value)
    return f"{value[:most]!r}… ({len(value)} bytes)"
