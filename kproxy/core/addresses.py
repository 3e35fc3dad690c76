"""Which fields of which responses carry addresses of brokers, and where they lie in bytes.

One table names the fields, another those that look alike and why they are left alone; everything else is read off
Kafka's message definitions. A test finds every address of every definition in one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kproxy.decoders.problems import Code, DecodeError
from kproxy.decoders.schema.model import Field, Message


@dataclass(frozen=True, slots=True)
class Carrier:
    """A response that carries addresses: in `array` ("" where they stand in the message itself).

    With `listeners` they are a level deeper, in an array of that name in each entry. `whole` says that it is held until
    it is whole at any size; others only up to the hold limit. They are brokers', or controllers' where `controllers` is
    True or names a field before the array that is 2.
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
"""By message; of several carriers, that whose fields a version has counts."""

ONLY_WHEN_ASKED = frozenset({"DescribeQuorumResponse"})
"""It describes the controllers' own listeners; no client connects to them because of it."""

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
"""Hosts in responses that are not rewritten, and why. Requests go to brokers: what they carry reaches no client."""

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
"""For telling what a response of an unknown version may hold."""

MOST_READ = 20_000
"""Entries and tagged fields that are read of one response, which takes some tenths of a second."""
FRAME_HEAD = 8
"""Length field and correlation id."""
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
    """A response has more in it than may be read while others wait; the text says how much."""


class Endpoint(NamedTuple):
    """One address as it stands in a frame; offsets count from the start of the bytes that were read.

    The host's span covers its length field, the port's its two or four bytes. `path` names the entry ("brokers[0].").
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
    """A message's own tagged fields: [start, end), and the addressed field among them, if there."""

    start: int
    end: int
    tags: tuple[tuple[int, int, int, int], ...]
    """(tag, start of its tag number, start of its value, end of its value)"""
    endpoints: tuple[Endpoint, ...] = ()


def carrier(message: Message, version: int) -> tuple[Carrier, Field | None] | None:
    """The carrier that a version of a message has, with its array field (None: the message's own fields)."""
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
    """Reads primitives at a position of whole bytes; every length is checked against what is there.

    What is counted (`many`) is MOST_READ at most over the whole reading.
    """

    __slots__ = ("_left", "buffer", "end", "flexible", "position")

    def __init__(self, buffer: bytes | memoryview, position: int, end: int, *, flexible: bool) -> None:
        self.buffer = buffer
        self.position = position
        self.end = end
        self.flexible = flexible
        self._left = MOST_READ

    def within(self, start: int, end: int) -> Reader:
        """A reader of a part of it, which counts on."""
        inner = Reader(self.buffer, start, end, flexible=self.flexible)
        inner._left = self._left
        return inner

    def many(self, count: int, what: str) -> range:
        """For a loop over so many of something. Raises TooMuchError."""
        self._left -= max(count, 0)
        if self._left < 0:
            raise TooMuchError(f"it has {count:,} {what}, and no more than {MOST_READ:,} are read")
        return range(count)

    def fail(self, code: Code, message: str) -> DecodeError:
        return DecodeError(code, message, self.position)

    def skip(self, size: int) -> int:
        """Moves on and returns where it was."""
        start = self.position
        if size < 0 or start + size > self.end:
            raise self.fail(Code.TRUNCATED, f"{size} bytes wanted, {self.end - start} there")
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
        """A length field of `size` bytes, or a compact one; -1 for null."""
        value = self.varint() - 1 if self.flexible else self.integer(size)
        if value < -1 or value > self.end - self.position:
            raise self.fail(Code.BAD_LENGTH, f"length {value}, {self.end - self.position} bytes there")
        return value

    def tags(self) -> list[tuple[int, int, int, int]]:
        """A section of tagged fields, as in `TagSection.tags`."""
        found = []
        count = self.varint()
        if 2 * count > self.end - self.position:
            raise self.fail(Code.BAD_LENGTH, f"{count} tagged fields, {self.end - self.position} bytes there")
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
    """What of an address was read so far; a level deeper the node's id is known from outside."""

    node_id: int | None = None
    host: str | None = None
    host_span: tuple[int, int] = (0, 0)
    port: int | None = None
    port_span: tuple[int, int] = (0, 0)

    def endpoint(self, path: str) -> Endpoint | None:
        """None where one of its three parts is not there."""
        if self.node_id is None or self.host is None or self.port is None:
            return None
        return Endpoint(self.node_id, self.host, *self.host_span, self.port, *self.port_span, path)


def _endpoints(
    reader: Reader, fields: tuple[Field, ...], version: int, carried: Carrier, path: str, node_id: int | None = None
) -> list[Endpoint]:
    """Reads fields that hold an address among others, or an array of such."""
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
    """The addresses that begin at `start`, where `walker` stopped: an array, or the message's own fields.

    Raises DecodeError, and TooMuchError.
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
    """Whether a whole frame's addresses are controllers'. Raises DecodeError, and TooMuchError."""
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
    """The message's own tagged fields, from `start` to the end of `data`. Raises DecodeError, and TooMuchError."""
    reader = Reader(data, start, len(data), flexible=True)
    tags = reader.tags()
    if reader.position != len(data):
        raise reader.fail(Code.TRAILING_BYTES, f"{len(data) - reader.position} bytes after the last field")
    found = carrier(message, version)
    inside: list[Endpoint] = []
    if found is not None and found[1] is not None:
        carried, field = found[0], found[1]
        for tag, _, value, end in tags:
            if tag == field.tag:
                inner = reader.within(value, end)
                inside += _array(inner, field, version, carried)
                if inner.position != end:
                    raise inner.fail(Code.TRAILING_BYTES, f"{end - inner.position} bytes after {field.name}")
    return TagSection(start, len(data), tuple(tags), tuple(inside))
