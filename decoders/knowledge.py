"""Facts from earlier messages that later ones leave out: topic names by id, protocols of groups, node ids.

One object serves all connections of a reading. It gathers facts from bodies in the order in which exchanges complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kproxy.decoders.primitives import Buffer
from kproxy.decoders.schema import api_keys
from kproxy.decoders.schema.layout import Layout, Shape, per_version
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message

RESERVED: Final = {bytes(15) + b"\1": "__cluster_metadata"}
"""Names by topic id for topics whose id is the same in every cluster (`Uuid.METADATA_TOPIC_ID`)."""

MOST: Final = 100_000
"""Maximum number of facts of each kind that are kept: a capture may name any number of topics and groups."""

TEACHING: Final = frozenset(
    {
        api_keys.METADATA,
        api_keys.LEADER_AND_ISR,
        api_keys.UPDATE_METADATA,
        api_keys.JOIN_GROUP,
        api_keys.SYNC_GROUP,
        api_keys.DESCRIBE_GROUPS,
        api_keys.LIST_GROUPS,
        api_keys.CREATE_TOPICS,
        api_keys.DELETE_TOPICS,
        api_keys.CONSUMER_GROUP_DESCRIBE,
        api_keys.DESCRIBE_TOPIC_PARTITIONS,
        api_keys.SHARE_GROUP_DESCRIBE,
        api_keys.DESCRIBE_SHARE_GROUP_OFFSETS,
        api_keys.ALTER_SHARE_GROUP_OFFSETS,
        api_keys.DELETE_SHARE_GROUP_OFFSETS,
    }
)
"""API keys of the messages that hold names for topic ids, or protocols of groups."""


TOPIC_ID: Final = "topicId"
"""Name of the fields that hold a topic id, in all definitions."""

_NO_ID: Final = bytes(16)
_TOPIC_NAMES: Final = ("name", "topicName", "topic")
_PROTOCOL_NAMES: Final = ("protocolName", "protocolData")

Values = Mapping[str, Any]


class Fact(StrEnum):
    """Kinds of facts: the name of a topic id, the protocol type of a group, the protocol of a group."""

    TOPIC = "topic"
    PROTOCOL_TYPE = "protocolType"
    PROTOCOL = "protocol"


class Knowledge:
    """Topic names by topic id; protocol types ("consumer", "connect") and protocols ("range") by group id.

    `tell(kind, about, value)` is called with each new fact; `about` is the topic id (as hex digits) or the group. At
    most `most` facts of each kind are kept.
    """

    def __init__(self, tell: Callable[[Fact, str, str], None] | None = None, *, most: int = MOST) -> None:
        self._tell = tell
        self._most = most
        self._known: dict[Fact, dict[str, str]] = {fact: {} for fact in Fact}
        self._known[Fact.TOPIC] |= {topic_id.hex(): name for topic_id, name in RESERVED.items()}

    def take(self, fact: Fact, about: str, known: str) -> None:
        """Store a fact about the topic id (as hex digits) or group `about`; a new value replaces the old one."""
        facts = self._known[fact]
        if facts.get(about) == known or (len(facts) >= self._most and about not in facts):
            return
        facts[about] = known
        if self._tell is not None:
            self._tell(fact, about, known)

    @property
    def facts(self) -> dict[Fact, dict[str, str]]:
        """All facts: by kind, then by topic id (as hex digits) or group.

        Returns a copy; setting it does not call `tell`.
        """
        return {fact: dict(known) for fact, known in self._known.items()}

    @facts.setter
    def facts(self, facts: Mapping[Fact, Mapping[str, str]]) -> None:
        self._known = {fact: dict(facts[fact]) for fact in Fact}

    def learn_topic(self, topic_id: Buffer, name: str) -> None:
        if name and topic_id != _NO_ID:
            self.take(Fact.TOPIC, topic_id.hex(), name)

    def learn_protocol_type(self, group: str, protocol_type: str) -> None:
        if protocol_type:
            self.take(Fact.PROTOCOL_TYPE, group, protocol_type)

    def learn_protocol(self, group: str, protocol: str) -> None:
        if protocol:
            self.take(Fact.PROTOCOL, group, protocol)

    def learn(self, message: Message, version: int, values: Values, asked: Values | None = None) -> None:
        """Store the facts in a message's values; for a response, `asked` is the body of its request."""
        teaching = _teaching(message, version)
        if teaching is None:
            return
        for struct in _structs(values, teaching):
            self._learn(struct, None)
        if asked is not None and values.get("protocolName"):
            self._learn(values, asked.get("groupId"))

    def _learn(self, struct: Values, group: Any) -> None:
        name = next((struct[name] for name in _TOPIC_NAMES if struct.get(name)), None)
        if isinstance(name, str) and TOPIC_ID in struct:
            self.learn_topic(struct[TOPIC_ID], name)
        group = struct.get("groupId", group)
        if not isinstance(group, str):
            return
        self.learn_protocol_type(group, struct.get("protocolType") or "")
        protocol = next((struct[name] for name in _PROTOCOL_NAMES if struct.get(name)), None)
        self.learn_protocol(group, protocol or "")

    def topic(self, topic_id: Buffer) -> str | None:
        return self._known[Fact.TOPIC].get(topic_id.hex())

    def protocol_type(self, group: str) -> str | None:
        return self._known[Fact.PROTOCOL_TYPE].get(group)

    def protocol(self, group: str) -> str | None:
        """The protocol on which the members of a group agreed: for consumer groups, the assignor's name."""
        return self._known[Fact.PROTOCOL].get(group)


class Nodes:
    """Node ids by broker address "host:port", from Metadata; newer ones replace older ones."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, api_key: int | None, answered: Values) -> None:
        """Store the node ids in the body of a response, if its API is Metadata."""
        if api_key != api_keys.METADATA:
            return
        for broker in answered.get("brokers") or ():
            host, port, node = broker.get("host"), broker.get("port"), broker.get("nodeId")
            if isinstance(host, str) and isinstance(node, int):
                self.take(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", node)

    def take(self, broker: str, node: int) -> None:
        """Store the node id of the broker at "host:port"."""
        if len(self._known) < MOST:
            self._known[broker] = node

    def of(self, broker: str) -> int | None:
        """The node id of the broker at "host:port"; None if unknown.

        Captures hold IP addresses, but Metadata often has host names. So a broker is also found by its port, if no
        other broker has that port.
        """
        known = self._known.get(broker)
        if known is not None:
            return known
        port = broker.rpartition(":")[2]
        same = {node for address, node in self._known.items() if address.rpartition(":")[2] == port}
        return same.pop() if len(same) == 1 else None


@dataclass(frozen=True, slots=True)
class Ways:
    """Paths from a struct to the wanted structs in it. `here` says that the struct itself is wanted.

    `fields` holds (field name, paths in it) for each field that leads to a wanted struct.
    """

    here: bool
    fields: tuple[tuple[str, Ways], ...]


def ways(layout: Layout, wanted: Callable[[frozenset[str]], bool]) -> Ways | None:
    """The paths to the structs whose set of field names satisfies `wanted`; None if there are none."""
    here = wanted(frozenset(layout.order))
    fields = tuple(
        (slot.name, way)
        for slot in layout.every()
        if slot.shape in {Shape.ARRAY, Shape.STRUCT} and slot.layout is not None
        if (way := ways(slot.layout, wanted)) is not None
    )
    return Ways(here, fields) if here or fields else None


def _structs(values: Values, way: Ways) -> Iterator[Values]:
    if way.here:
        yield values
    for name, below in way.fields:
        value = values.get(name)
        if isinstance(value, list):
            for element in value:
                yield from _structs(element, below)
        elif value is not None:
            yield from _structs(value, below)


def _tells(names: frozenset[str]) -> bool:
    return (
        (TOPIC_ID in names and not names.isdisjoint(_TOPIC_NAMES))
        or "protocolType" in names
        or ("protocolName" in names)
    )


@per_version
def _teaching(message: Message, version: int) -> Ways | None:
    return ways(layout_of(message, version), _tells)


@per_version
def _with_topic_ids(message: Message, version: int) -> Ways | None:
    return ways(layout_of(message, version), lambda names: TOPIC_ID in names)


@per_version
def concerns(message: Message, version: int) -> bool:
    """Whether a message has fields with facts for Knowledge, or with topic ids."""
    return _teaching(message, version) is not None or _with_topic_ids(message, version) is not None


def topic_ids(values: Values, message: Message, version: int) -> Iterator[Buffer]:
    """The topic ids in a message's values, in order, without zero ids."""
    way = _with_topic_ids(message, version)
    if way is not None:
        for struct in _structs(values, way):
            if struct.get(TOPIC_ID, _NO_ID) != _NO_ID:
                yield struct[TOPIC_ID]
