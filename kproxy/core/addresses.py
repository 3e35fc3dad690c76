"""Finds broker addresses in responses: which fields carry them, and where these fields are in a frame.

CARRIERS lists the fields to rewrite; LEFT_ALONE lists fields that look like addresses, with the reason why they are not
rewritten. Everything else comes from Kafka's message definitions. A test checks that every address field of the
definitions is in one of the two tables.
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
    """Names the address fields of one response: in the entries of array `array`, or top-level fields if that is "".

    With `listeners`, host and port are one level deeper, in an array of that name in each entry. With `whole`, the
    response is held until it is whole whatever its size; without it, only up to the hold limit. `controllers` is True
    if the addresses are controllers', False if they are brokers'. If `controllers` is a string, it names a top-level
    field before the array; the addresses are controllers' if that field's value is CONTROLLERS.
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
"""Carriers by message name. If a message has several carriers, the one whose fields exist in the version is used."""

ONLY_WHEN_ASKED = frozenset({"DescribeQuorumResponse"})
"""Responses that are rewritten only with --controllers: they hold addresses of controllers."""

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
"""Address fields of responses that are not rewritten, and why. Fields of requests are never rewritten."""

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
"""Messages by API key whose known versions carry addresses, so that their unknown versions may carry addresses too."""

MOST_READ = 20_000
"""Maximum number of array entries and tagged fields read from one response; reading so many takes some 0.1 s."""
FRAME_HEAD = 8
"""Size in bytes of the length field and the correlation id at the start of a response."""
CONTROLLERS = 2
"""Value of DescribeCluster's field endpointType that stands for controllers (KIP-919)."""

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
    """A response has more entries than kproxy reads while other connections wait; the text says how many."""


class Endpoint(NamedTuple):
    """The host and port of one node in a frame. Offsets count from the start of the bytes passed to `endpoints`.

    [host_start, host_end) includes the host's length field; [port_start, port_end) has two or four bytes. `path` is the
    path of the entry, with a dot ("brokers[0].").
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
    """The section of top-level tagged fields, bytes [start, end) of a message, and the addresses in it."""

    start: int
    end: int
    tags: tuple[tuple[int, int, int, int], ...]
    """(tag, start of its tag number, start of its value, end of its value)"""
    endpoints: tuple[Endpoint, ...] = ()


def carrier(message: Message, version: int) -> tuple[Carrier, Field | None] | None:
    """Finds the address fields of a message's version; returns (carrier, array field), or None if there are none.

    The array field is None if the addresses are top-level fields.
    """
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
    """Reads primitive values in sequence and checks every length against the remaining bytes.

    `many` limits all reads from one reader to MOST_READ entries together.
    """

    __slots__ = ("_left", "buffer", "end", "flexible", "position")

    def __init__(self, buffer: bytes | memoryview, position: int, end: int, *, flexible: bool) -> None:
        self.buffer = buffer
        self.position = position
        self.end = end
        self.flexible = flexible
        self._left = MOST_READ

    def within(self, start: int, end: int) -> Reader:
        """A reader of the bytes [start, end) of the same buffer; its limit is what is left of this reader's MOST_READ
        entries.
        """
        inner = Reader(self.buffer, start, end, flexible=self.flexible)
        inner._left = self._left
        return inner

    def many(self, count: int, what: str) -> range:
        """Returns range(count) and counts these entries against MOST_READ; raises TooMuchError beyond it.

        `what` names the entries in the error.
        """
        self._left -= max(count, 0)
        if self._left < 0:
            raise TooMuchError(f"the response has {count:,} {what}; kproxy reads at most {MOST_READ:,}")
        return range(count)

    def fail(self, code: Code, message: str) -> DecodeError:
        return DecodeError(code, message, self.position)

    def skip(self, size: int) -> int:
        """Skips `size` bytes; returns the position before them. Raises DecodeError if fewer bytes remain."""
        start = self.position
        if size < 0 or start + size > self.end:
            raise self.fail(Code.TRUNCATED, f"{counted(size, 'byte')} expected, {self.end - start} left")
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
        """Reads a length field; -1 stands for null. Raises DecodeError if fewer bytes than that remain.

        The field has `size` bytes, or is an unsigned varint of length + 1 in flexible versions.
        """
        value = self.varint() - 1 if self.flexible else self.integer(size)
        if value < -1 or value > self.end - self.position:
            raise self.fail(Code.BAD_LENGTH, f"length {value}, {counted(self.end - self.position, 'byte')} left")
        return value

    def tags(self) -> list[tuple[int, int, int, int]]:
        """Reads a section of tagged fields; returns tuples like those of `TagSection.tags`.

        Raises DecodeError and TooMuchError.
        """
        found = []
        count = self.varint()
        if 2 * count > self.end - self.position:
            left = self.end - self.position
            raise self.fail(Code.BAD_LENGTH, f"{counted(count, 'tagged field')}, {counted(left, 'byte')} left")
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
    """Collects the fields of one address while they are read; a listener takes its node id from the enclosing entry."""

    node_id: int | None = None
    host: str | None = None
    host_span: tuple[int, int] = (0, 0)
    port: int | None = None
    port_span: tuple[int, int] = (0, 0)

    def endpoint(self, path: str) -> Endpoint | None:
        """The address with `path`; None if node id, host or port is missing."""
        if self.node_id is None or self.host is None or self.port is None:
            return None
        return Endpoint(self.node_id, self.host, *self.host_span, self.port, *self.port_span, path)


def _endpoints(
    reader: Reader, fields: tuple[Field, ...], version: int, carried: Carrier, path: str, node_id: int | None = None
) -> list[Endpoint]:
    """Reads the fields of an entry; returns the entry's own address, or the addresses of its listeners."""
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
    """Reads the addresses that begin at offset `start`, as found by `walker`: an array, or top-level fields.

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
    """Whether the addresses in a whole frame belong to controllers. Raises DecodeError and TooMuchError."""
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
    """Reads the message's top-level tagged fields, from `start` to the end of `data`.

    Raises DecodeError and TooMuchError.
    """
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
