"""Which fields of which responses carry addresses of brokers, and where those fields are in a frame.

CARRIERS names the fields; LEFT_ALONE names fields that look like addresses, with the reason why they are not rewritten.
Everything else comes from Kafka's message definitions. A test finds every address field of the definitions in one of
the two tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kproxy.decoders.plurals import counted
from kproxy.decoders.problems import Code, DecodeError
from kproxy.decoders.schema.model import Field, Message


@dataclass(frozen=True, slots=True)
class Carrier:
    """The fields with addresses in one response: in the entries of `array`, or at the message's top level if "".

    With `listeners`, host and port are a level deeper, in an array of that name in each entry. With `whole`, the
    response is held at any size until it is whole; without, only up to the hold limit. The addresses are those of
    controllers if `controllers` is True or names a field before the array whose value is CONTROLLERS, else of brokers.
    """

    array: str
    node_id: str
    host: str = "host"
    port: str = "port"
    listeners: str = ""
    whole: bool = True
    controllers: bool | str = False


CARRIERS: Mapping[str, tuple[Carrier, ...]] = {
    "MetadataResponse": (Carrier("brokers", "nodeId"),),
    "FindCoordinatorResponse": (Carrier("", "nodeId"), Carrier("coordinators", "nodeId")),
    "DescribeClusterResponse": (Carrier("brokers", "brokerId", controllers="endpointType"),),
    "ProduceResponse": (Carrier("nodeEndpoints", "nodeId", whole=False),),
    "FetchResponse": (Carrier("nodeEndpoints", "nodeId", whole=False),),
    "ShareFetchResponse": (Carrier("nodeEndpoints", "nodeId"),),
    "ShareAcknowledgeResponse": (Carrier("nodeEndpoints", "nodeId"),),
    "DescribeQuorumResponse": (Carrier("nodes", "nodeId", listeners="listeners", controllers=True),),
}
"""By message name. Where a message has several carriers, the one whose fields the version has is used."""

ONLY_WHEN_ASKED = frozenset({"DescribeQuorumResponse"})
"""Rewritten only with --controllers: it names the controllers' own listeners, and no client connects to them for it."""

LEFT_ALONE: Mapping[str, str] = {
    "VoteResponse.nodeEndpoints": "between controllers",
    "BeginQuorumEpochResponse.nodeEndpoints": "between controllers",
    "EndQuorumEpochResponse.nodeEndpoints": "between controllers",
    "FetchSnapshotResponse.nodeEndpoints": "between controllers",
    "UpdateRaftVoterResponse.currentLeader": "between controllers",
    "StreamsGroupHeartbeatResponse.partitionsByUserEndpoint.userEndpoint": "an application's own endpoint",
    "StreamsGroupDescribeResponse.groups.members.userEndpoint": "an application's own endpoint",
    "DescribeGroupsResponse.groups.members.clientHost": "where a client came from",
    "ConsumerGroupDescribeResponse.groups.members.clientHost": "where a client came from",
    "ShareGroupDescribeResponse.groups.members.clientHost": "where a client came from",
    "StreamsGroupDescribeResponse.groups.members.clientHost": "where a client came from",
    "DescribeAclsResponse.resources.acls.host": "a pattern for clients' addresses",
    "DeleteAclsResponse.filterResults.matchingAcls.host": "a pattern for clients' addresses",
}
"""Hosts in responses that are not rewritten, and why. Requests are never rewritten: no client receives them."""

API_KEYS: Mapping[int, str] = {
    0: "ProduceResponse",
    1: "FetchResponse",
    3: "MetadataResponse",
    10: "FindCoordinatorResponse",
    55: "DescribeQuorumResponse",
    60: "DescribeClusterResponse",
    78: "ShareFetchResponse",
    79: "ShareAcknowledgeResponse",
}
"""APIs whose responses carry addresses in known versions, and so may in unknown ones."""

MOST_READ = 20_000
"""Most entries and tagged fields that are read from one response; reading them takes some tenths of a second."""
FRAME_HEAD = 8
"""Bytes of the length field and the correlation id."""
CONTROLLERS = 2
"""DescribeCluster's endpoint type (KIP-919)."""

FIXED = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


class TooMuchError(Exception):
    """A response has more entries than may be read while other connections wait; the text says how many."""


class Endpoint(NamedTuple):
    """One address in a frame; offsets count from the start of the bytes that were read.

    The host's span includes its length field; the port's span has two or four bytes. `path` names the entry
    ("brokers[0].").
    """

    node_id: int
    host: str
    host_start: int
    host_end: int
    port: int
    port_start: int
    port_end: int
    path: str


@dataclass(frozen=True, slots=True)
class TagSection:
    """The top-level tagged fields of a message at [start, end), and the addresses in them."""

    start: int
    end: int
    tags: tuple[tuple[int, int, int, int], ...]
    """(tag, start of its tag number, start of its value, end of its value)"""
    endpoints: tuple[Endpoint, ...] = ()


def carrier(message: Message, version: int) -> tuple[Carrier, Field | None] | None:
    """(carrier, array field) of a version of a message; the field is None where the addresses are at top level."""
    for candidate in CARRIERS.get(message.name, ()):
        if not candidate.array:
            if any(field.name == candidate.host and version in field.versions for field in message.fields):
                return candidate, None
            continue
        for field in message.fields:
            if field.name == candidate.array and version in field.versions:
                return candidate, field
    return None


class Reader:
    """Reads primitives one after the other and checks every length against the bytes that remain.

    Over the whole reading, `many` allows at most MOST_READ entries.
    """

    __slots__ = ("_left", "buffer", "end", "flexible", "position")

    def __init__(self, buffer: bytes | memoryview, position: int, end: int, *, flexible: bool) -> None:
        self.buffer = buffer
        self.position = position
        self.end = end
        self.flexible = flexible
        self._left = MOST_READ

    def within(self, start: int, end: int) -> Reader:
        """A reader of [start, end) with what is left of the entry limit."""
        inner = Reader(self.buffer, start, end, flexible=self.flexible)
        inner._left = self._left
        return inner

    def many(self, count: int, what: str) -> range:
        """range(count) for a loop over entries; counts them against MOST_READ. Raises TooMuchError."""
        self._left -= max(count, 0)
        if self._left < 0:
            raise TooMuchError(f"it has {count:,} {what}, and no more than {MOST_READ:,} are read")
        return range(count)

    def fail(self, code: Code, message: str) -> DecodeError:
        return DecodeError(code, message, self.position)

    def skip(self, size: int) -> int:
        """Skips `size` bytes and returns the position before them. Raises DecodeError."""
        start = self.position
        if size < 0 or start + size > self.end:
            raise self.fail(Code.TRUNCATED, f"{counted(size, 'byte')} wanted, {self.end - start} there")
        self.position = start + size
        return start

    def integer(self, size: int) -> int:
        start = self.skip(size)
        return int.from_bytes(self.buffer[start : start + size], "big", signed=True)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.buffer[self.skip(1)]
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7
            if shift > 28:
                raise self.fail(Code.BAD_VARINT, "varint of more than five bytes")

    def length(self, size: int) -> int:
        """Reads a length of `size` bytes, or a compact one in flexible versions; -1 for null. Raises DecodeError."""
        value = self.varint() - 1 if self.flexible else self.integer(size)
        if value < -1 or value > self.end - self.position:
            raise self.fail(Code.BAD_LENGTH, f"length {value}, {counted(self.end - self.position, 'byte')} there")
        return value

    def tags(self) -> list[tuple[int, int, int, int]]:
        """Reads a section of tagged fields; shaped as `TagSection.tags`. Raises DecodeError, TooMuchError."""
        found = []
        count = self.varint()
        if 2 * count > self.end - self.position:
            left = self.end - self.position
            raise self.fail(Code.BAD_LENGTH, f"{counted(count, 'tagged field')}, {counted(left, 'byte')} there")
        for _ in self.many(count, "tagged fields"):
            start = self.position
            tag = self.varint()
            size = self.varint()
            value = self.skip(size)
            found.append((tag, start, value, value + size))
        return found


def _skip(reader: Reader, field: Field, version: int) -> None:
    if field.array:
        for _ in reader.many(reader.length(4), field.name):
            _skip_one(reader, field, version)
    else:
        _skip_one(reader, field, version)


def _skip_one(reader: Reader, field: Field, version: int) -> None:
    size = FIXED.get(field.type)
    if size is not None:
        reader.skip(size)
    elif field.type in {"string", "bytes", "records"}:
        length = reader.length(2 if field.type == "string" else 4)
        reader.skip(max(length, 0))
    elif field.struct is not None:
        if version in field.nullable and not field.array and reader.integer(1) < 0:
            return
        for inner in field.struct.fields:
            if version in inner.versions and version not in inner.tagged:
                _skip(reader, inner, version)
        if reader.flexible:
            reader.tags()


@dataclass(slots=True)
class _Entry:
    """The parts of an address that were read so far; listeners get the node id from the entry that holds them."""

    node_id: int | None = None
    host: str | None = None
    host_span: tuple[int, int] = (0, 0)
    port: int | None = None
    port_span: tuple[int, int] = (0, 0)

    def endpoint(self, path: str) -> Endpoint | None:
        """The address; None if node id, host or port is missing."""
        if self.node_id is None or self.host is None or self.port is None:
            return None
        return Endpoint(self.node_id, self.host, *self.host_span, self.port, *self.port_span, path)


def _endpoints(
    reader: Reader, fields: tuple[Field, ...], version: int, carried: Carrier, path: str, node_id: int | None = None
) -> list[Endpoint]:
    """Reads the fields of an entry and returns its addresses: its own, or those of its listeners."""
    entry = _Entry(node_id)
    found: list[Endpoint] = []
    for field in fields:
        if version not in field.versions or version in field.tagged:
            continue
        start = reader.position
        if field.name == carried.node_id:
            entry.node_id = reader.integer(FIXED[field.type])
        elif field.name == carried.host and not field.array:
            size = reader.length(2)
            text = reader.skip(max(size, 0))
            entry.host = bytes(reader.buffer[text : reader.position]).decode("utf-8", "replace")
            entry.host_span = (start, reader.position)
        elif field.name == carried.port and not field.array:
            size = FIXED[field.type]
            entry.port = reader.integer(size) & 0xFFFF if field.type == "uint16" else reader.integer(size)
            entry.port_span = (start, reader.position)
        elif field.name == carried.listeners:
            found += _array(reader, field, version, carried, path, entry.node_id)
        else:
            _skip(reader, field, version)
    own = entry.endpoint(path)
    return found if own is None else [*found, own]


def _array(
    reader: Reader, field: Field, version: int, carried: Carrier, path: str = "", node_id: int | None = None
) -> list[Endpoint]:
    found = []
    fields = field.struct.fields if field.struct is not None else ()
    for index in reader.many(reader.length(4), field.name):
        found += _endpoints(reader, fields, version, carried, f"{path}{field.name}[{index}].", node_id)
        if reader.flexible:
            reader.tags()
    return found


def endpoints(message: Message, version: int, data: bytes | memoryview, start: int) -> list[Endpoint]:
    """The addresses that begin at `start`, where `walker` stopped: in an array, or at the message's top level.

    Raises DecodeError and TooMuchError.
    """
    found = carrier(message, version)
    if found is None:
        return []
    carried, field = found
    reader = Reader(data, start, len(data), flexible=version in message.flexible)
    if field is not None:
        return _array(reader, field, version, carried)
    rest = tuple(field for field in message.fields if version not in field.tagged)
    names = [field.name for field in rest]
    return _endpoints(reader, rest[names.index(carried.node_id) :], version, carried, "")


def names_controllers(message: Message, version: int, header_version: int, data: bytes | memoryview) -> bool:
    """Whether the addresses in a whole frame are controllers'. Raises DecodeError and TooMuchError."""
    found = carrier(message, version)
    asked = found[0].controllers if found is not None else False
    if isinstance(asked, bool):
        return asked
    reader = Reader(data, FRAME_HEAD, len(data), flexible=version in message.flexible)
    if header_version >= 1:
        reader.tags()
    for field in message.fields:
        if version in field.versions and version not in field.tagged:
            if field.name == asked:
                return reader.integer(FIXED[field.type]) == CONTROLLERS
            _skip(reader, field, version)
    return False


def tag_section(message: Message, version: int, data: bytes | memoryview, start: int) -> TagSection:
    """The message's top-level tagged fields, from `start` to the end of `data`. Raises DecodeError and TooMuchError."""
    reader = Reader(data, start, len(data), flexible=True)
    tags = reader.tags()
    if reader.position != len(data):
        raise reader.fail(Code.TRAILING_BYTES, f"{counted(len(data) - reader.position, 'byte')} after the last field")
    found = carrier(message, version)
    inside: list[Endpoint] = []
    if found is not None and found[1] is not None:
        carried, field = found[0], found[1]
        for tag, _, value, end in tags:
            if tag == field.tag:
                inner = reader.within(value, end)
                inside += _array(inner, field, version, carried)
                if inner.position != end:
                    raise inner.fail(Code.TRAILING_BYTES, f"{counted(end - inner.position, 'byte')} after {field.name}")
    return TagSection(start, len(data), tuple(tags), tuple(inside))
