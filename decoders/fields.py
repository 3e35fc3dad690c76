"""The table of an exchange's attributes.

A row of FIELDS is one attribute. The fields of filters with their completion, help and docs, the columns of the list
and of CSV files, and the stored columns of an index all follow from it, so that a new attribute is one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kproxy.decoders.body_path import Path
    from kproxy.decoders.exchange_row import ExchangeRow


class Type(StrEnum):
    """The type of a field's values; it decides which literals and operators a filter accepts."""

    API = "api"
    CLASS = "class"
    ERROR = "error"
    STATUS = "status"
    ROLE = "role"
    NUMBER = "number"
    TEXT = "text"
    ADDRESS = "address"
    BROKER = "broker"
    """A broker's address, or its node id."""
    DURATION = "duration"
    SIZE = "size"
    TIME = "time"
    FLAG = "flag"
    ANY = "scalar"
    """A value of a body whose type differs between messages: text, number or boolean."""
    STRUCT = "struct"
    """A field with fields of its own; a filter can only test whether it is present."""


class Cost(StrEnum):
    """Whether a row's value is in the index, or needs a decoded body."""

    INDEX = "index"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of the list; its width is at least `width` characters, and up to `most` if there is room."""

    title: str
    width: int
    most: int = 0
    right: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute of an exchange, or a field of its bodies, under the name that it has in filters.

    `of(row)` returns the attribute's value, None if the exchange has none. It may raise `Unavailable`, and may read the
    bodies: `row.body("request")` and `row.body("response")` are decoded bodies as dicts, with field names as Kafka's
    message definitions have them in camel case (tests/architecture/test_attributes.py adds such a row). Without `of`,
    the value is the sum of the `attributes` of the row.

    `many`: an exchange may have several values (see `decoders.filters.expression`). `path` is the path of a field in a
    body, and `scale` the factor for its value. If `stored`, the index has a column with the values of `of`, and filters
    and the list read that column. This is possible only if the type is in STORABLE and the value depends on this
    exchange alone. `csv` is the name of the column in CSV files, `cell` describes the column of the list.
    """

    name: str
    type: Type
    doc: str
    attributes: tuple[str, ...] = ()
    cost: Cost = Cost.INDEX
    many: bool = False
    path: Path | None = None
    scale: int = 1
    of: Callable[[ExchangeRow], int | str | None] | None = None
    stored: bool = False
    csv: str = ""
    cell: Cell | None = None

    def __post_init__(self) -> None:
        if self.of is not None:
            object.__setattr__(self, "attributes", (self.name,))
            object.__setattr__(self, "cost", Cost.INDEX if self.stored else Cost.DECODE)


STORABLE = frozenset({Type.NUMBER, Type.DURATION, Type.SIZE, Type.TIME, Type.FLAG})
"""Types whose values are integers of 64 bits (a flag: 0 or 1), so that the index can store them."""

_DECODE = Cost.DECODE

FIELDS: tuple[Field, ...] = (
    Field("api", Type.API, "API of the request, by its name, an older name or its key", ("api_key",),
          cell=Cell("API", 15, 27)),
    Field("class", Type.CLASS, "kind of API: core, group, transaction, admin, …", ("api_class",)),
    Field("protocol", Type.TEXT, "kafka, or the name of a dialect", ("protocol",)),
    Field("version", Type.NUMBER, "API version of the request", ("api_version",)),
    Field("client.id", Type.TEXT, "client id of the request", ("client_id",), cell=Cell("Client", 10, 24)),
    Field("client", Type.ADDRESS, "address of the client: host, host:port or :port", ("client",)),
    Field("broker", Type.BROKER, "node id of the broker, or its address: host, host:port or :port", ("broker",),
          cell=Cell("Br", 3, right=True)),
    Field("connection", Type.NUMBER, "number of the connection, counted from 1", ("connection",),
          cell=Cell("Conn", 5, right=True)),
    Field("topic", Type.TEXT, "a topic that request or response names", ("topics",), many=True),
    Field("group", Type.TEXT, "a group that request or response names", ("groups",), many=True),
    Field("txn", Type.TEXT, "a transactional id that request or response names", ("txns",), many=True),
    Field("acks", Type.NUMBER, "acks of a Produce request: 0, 1 or -1 (all)", ("acks",)),
    Field("fetch.role", Type.ROLE, "who fetches: a consumer, or a follower that replicates", ("fetch_role",)),
    Field("error", Type.ERROR, "any error code of the response, by its name, an older name or its number",
          ("error_codes",), many=True),
    Field("error.retriable", Type.FLAG, "clients retry after at least one error of the response",
          ("retriable",)),
    Field("status", Type.STATUS, "outcome of the exchange, such as ok or no_response", ("status",)),
    Field("latency", Type.DURATION, "time from the request's last byte to the response's", ("latency",),
          cell=Cell("ms", 7, right=True)),
    Field("first.byte", Type.DURATION, "time from the request's last byte to the response's first",
          of=lambda row: x.response.first_time - x.request.time if (x := row.exchange).request and x.response else None,
          stored=True, csv="first_byte_ms"),
    Field("throttle", Type.DURATION, "how long the broker asked the client to wait, if it did", ("throttle",)),
    Field("size", Type.SIZE, "bytes of request and response together",
          ("request_size", "response_size")),
    Field("request.size", Type.SIZE, "bytes of the request with its length field",
          ("request_size",), cell=Cell("req B", 6, right=True)),
    Field("response.size", Type.SIZE, "bytes of the response with its length field",
          ("response_size",), cell=Cell("rsp B", 6, right=True)),
    Field("records", Type.NUMBER, "number of records that a Produce, Fetch or ShareFetch carries", ("records",),
          cell=Cell("Rec", 5, right=True)),
    Field("time", Type.TIME, "time of the request; a time of day matches any day, -60s counts back from the end of "
          "the capture", ("time",), cell=Cell("Time", 12)),
    Field("correlation", Type.NUMBER, "correlation id", ("correlation_id",)),
    Field("exchange", Type.NUMBER, "number of the exchange, counted from 1", ("number",),
          cell=Cell("No.", 7, right=True)),
    Field("problem", Type.FLAG, "something could not be decoded, paired or reassembled", ("problem",)),
    Field("partial", Type.FLAG, "bytes of a frame are missing from the capture", ("partial",)),
    Field("modified", Type.FLAG, "kproxy changed bytes of a frame", ("modified",)),
    Field("commented", Type.FLAG, "a frame of the exchange has packet comments", ("commented",)),
    Field("text", Type.TEXT, "a text in request or response, without records", ("texts",), _DECODE, many=True),
    Field("batch.codec", Type.TEXT, "compression of a record batch: none, gzip, snappy, lz4, zstd", ("batch_codecs",),
          _DECODE, many=True),
    Field("batch.size", Type.SIZE, "bytes of a record batch, as it is compressed", ("batch_sizes",), _DECODE,
          many=True),
    Field("batch.magic", Type.NUMBER, "format of a record batch: 2, or of a message of old clients: 0 or 1",
          ("batch_magics",), _DECODE, many=True),
    Field("record", Type.TEXT, 'key, value or header ("name: value") of a record, as text', ("record_texts",), _DECODE,
          many=True),
    Field("record.key", Type.TEXT, "key of a record, as text", ("record_keys",), _DECODE, many=True),
    Field("record.value", Type.TEXT, "value of a record, as text", ("record_values",), _DECODE, many=True),
    Field("record.header", Type.TEXT, 'header of a record, as "name: value"', ("record_headers",), _DECODE, many=True),
    Field("record.offset", Type.NUMBER, "offset of a record, as in its batch", ("record_offsets",), _DECODE,
          many=True),
    Field("record.timestamp", Type.TIME, "timestamp of a record", ("record_timestamps",), _DECODE, many=True),
)  # fmt: skip

STORED = tuple(field for field in FIELDS if field.stored)
"""The fields that have a column of their own in the index, in the order of the columns."""
BY_NAME: dict[str, Field] = {field.name: field for field in FIELDS}


def attribute(name: str) -> Callable[[Any], Any]:
    """A function that reads the attribute `name` from a row."""
    field = BY_NAME.get(name)
    return attrgetter(name) if field is None or field.of is None else field.of
