"""What an exchange is about: the topics, groups and transactional ids that it names, who asked and for which acks.

Which fields name what is in Kafka's definitions (`entityType`); FindCoordinator's keys and the names of configs say it
in a field beside them.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from decoders.knowledge import TOPIC_ID
from decoders.layout import Layout, Shape, Slot, per_version
from decoders.layout import layout as layout_of
from decoders.message import Decoded
from decoders.schema.model import Message

PRODUCE: Final = 0
FETCH: Final = 1
_NO_ID: Final = bytes(16)


class Role(StrEnum):
    """Who sends a Fetch: a replica that follows the leader, or anybody else (KIP-903 moved the field)."""

    CONSUMER = "consumer"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True)
class Subject:
    """Names each once, in order of appearance; `ids` are topic ids (16 bytes) that come without a name."""

    topics: tuple[str, ...] = ()
    ids: tuple[bytes, ...] = ()
    groups: tuple[str, ...] = ()
    txns: tuple[str, ...] = ()
    acks: int | None = None
    role: Role | None = None

    def to_text(self) -> str:
        """As JSON, what is empty left out."""
        return _text(self)

    @classmethod
    def from_text(cls, text: str) -> Subject:
        """What `to_text` wrote."""
        told = json.loads(text)
        role = told.get("role")
        return cls(
            tuple(told.get("topic", ())),
            tuple(b64decode(one) for one in told.get("id", ())),
            tuple(told.get("group", ())),
            tuple(told.get("txn", ())),
            told.get("acks"),
            None if role is None else Role(role),
        )


@lru_cache(maxsize=1024)
def _text(subject: Subject) -> str:
    # Most exchanges name what others have named.
    shown = {
        "topic": subject.topics,
        "id": [b64encode(one).decode() for one in subject.ids],
        "group": subject.groups,
        "txn": subject.txns,
        "acks": subject.acks,
        "role": subject.role,
    }
    return json.dumps({name: value for name, value in shown.items() if value not in (None, (), [])},
                      separators=(",", ":"))  # fmt: skip


NOTHING: Final = Subject().to_text()
"""The text of a subject that names nothing."""


def subject(api_key: int | None, *sides: Decoded | None) -> Subject:
    """What the frames of an exchange in Kafka's protocol name, request first; None for one that is not there."""
    found: dict[str, dict[Any, None]] = {kind: {} for kind in (*_KINDS.values(), _IDS)}
    for side in sides:
        if side is not None and side.body is not None and side.message is not None:
            plan = _plan(side.message, side.version)
            if plan is not None:
                _collect(side.body, plan, found)
    asked = sides[0].body if sides and sides[0] is not None and sides[0].message is not None else None
    return Subject(
        tuple(found["topic"]),
        tuple(found[_IDS]),
        tuple(found["group"]),
        tuple(found["txn"]),
        asked.get("acks") if asked is not None and api_key == PRODUCE else None,
        _role(asked) if asked is not None and api_key == FETCH else None,
    )


def _role(asked: Mapping[str, Any]) -> Role:
    state = asked.get("replicaState")
    replica = asked.get("replicaId", -1) if state is None else state.get("replicaId", -1)
    return Role.FOLLOWER if replica >= 0 else Role.CONSUMER


_KINDS: Final[Mapping[str, str]] = {"topicName": "topic", "groupId": "group", "transactionalId": "txn"}
"""What definitions call what a field names, to what we call it."""
_IDS: Final = "id"


@dataclass(frozen=True, slots=True)
class _Typed:
    """Fields of a struct whose kind another field of it says, by that one's value."""

    message: str
    struct: str
    by: str
    names: tuple[str, ...]
    kinds: Mapping[int, str]


_COORDINATORS: Final = {0: "group", 1: "txn", 2: "group"}
_TYPED: Final = (
    _Typed("FindCoordinatorRequest", "", "keyType", ("key", "coordinatorKeys"), _COORDINATORS),
    _Typed("DescribeConfigsRequest", "resources", "resourceType", ("resourceName",), {2: "topic", 32: "group"}),
    _Typed("DescribeConfigsResponse", "results", "resourceType", ("resourceName",), {2: "topic", 32: "group"}),
    _Typed("AlterConfigsRequest", "resources", "resourceType", ("resourceName",), {2: "topic", 32: "group"}),
    _Typed("IncrementalAlterConfigsRequest", "resources", "resourceType", ("resourceName",),
           {2: "topic", 32: "group"}),
)  # fmt: skip
"""Source: `CoordinatorType` of FindCoordinator (a share coordinator's keys begin with the group) and the types of
`ConfigResource`."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A struct's fields that name something, whether it has a topic id, and its fields with more of both."""

    names: tuple[tuple[str, str], ...]
    with_id: bool
    typed: _Typed | None
    below: tuple[tuple[str, _Plan], ...]


@per_version
def _plan(message: Message, version: int) -> _Plan | None:
    return _make(layout_of(message, version), message.name, "")


def _make(layout: Layout, message: str, struct: str) -> _Plan | None:
    slots = layout.every()
    names = tuple((slot.name, kind) for slot in slots if slot.type == "string" and (kind := _kind(slot)) is not None)
    with_id = any(slot.name == TOPIC_ID for slot in slots)
    typed = next((row for row in _TYPED if (row.message, row.struct) == (message, struct)), None)
    below = tuple(
        (slot.name, plan)
        for slot in slots
        if slot.shape in {Shape.ARRAY, Shape.STRUCT} and slot.layout is not None
        if (plan := _make(slot.layout, message, slot.name)) is not None
    )
    return _Plan(names, with_id, typed, below) if names or with_id or typed or below else None


def _kind(slot: Slot) -> str | None:
    # The messages between brokers about share groups do not say that their group is one.
    return "group" if slot.name == "groupId" else _KINDS.get(slot.field.entity or "")


def _collect(values: Mapping[str, Any], plan: _Plan, found: dict[str, dict[Any, None]]) -> None:
    named = False
    for name, kind in plan.names:
        value = values.get(name)
        if value:
            named = named or kind == "topic"
            for one in value if isinstance(value, list) else (value,):
                found[kind][one] = None
    if plan.with_id and not named:
        topic_id = bytes(values.get(TOPIC_ID, _NO_ID))
        if topic_id != _NO_ID:
            found[_IDS][topic_id] = None
    if plan.typed is not None:
        for kind, text in _of_type(values, plan.typed):
            found[kind][text] = None
    for name, below in plan.below:
        value = values.get(name)
        if isinstance(value, list):
            for element in value:
                _collect(element, below, found)
        elif value is not None:
            _collect(value, below, found)


def _of_type(values: Mapping[str, Any], typed: _Typed) -> Iterator[tuple[str, str]]:
    by = values.get(typed.by, 0)
    kind = typed.kinds.get(by)
    if kind is None:
        return
    for name in typed.names:
        value = values.get(name)
        for text in value if isinstance(value, list) else (value,):
            if text:
                # "group:topic id:partition" of a share coordinator
                yield kind, text.partition(":")[0] if typed.by == "keyType" and by == 2 else text
