"""The subject of an exchange: the topics, groups and transactional ids in it, a Fetch's sender, and acks.

Kafka's definitions mark the fields that hold names (`entityType`); for FindCoordinator's keys and the names of configs,
another field gives the kind of name.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from kproxy.decoders.knowledge import TOPIC_ID
from kproxy.decoders.message import Decoded
from kproxy.decoders.schema import api_keys
from kproxy.decoders.schema.layout import Layout, Shape, Slot, per_version
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message

_NO_ID: Final = bytes(16)


class Role(StrEnum):
    """The sender of a Fetch: a follower replica or another client (KIP-903 moved the field)."""

    CONSUMER = "consumer"
    FOLLOWER = "follower"


_Named = tuple[tuple[str, ...], tuple[bytes, ...], tuple[str, ...], tuple[str, ...], int | None, Role | None]


@dataclass(frozen=True, slots=True)
class Subject:
    """Names in an exchange, each once, in order of appearance.

    `ids` are topic ids (16 bytes) that come without a name.
    """

    topics: tuple[str, ...] = ()
    ids: tuple[bytes, ...] = ()
    groups: tuple[str, ...] = ()
    txns: tuple[str, ...] = ()
    acks: int | None = None
    role: Role | None = None

    def to_text(self) -> str:
        """The subject as JSON text, without empty members."""
        return _text(self.topics, self.ids, self.groups, self.txns, self.acks, self.role)

    @classmethod
    def from_text(cls, text: str) -> Subject:
        """Parse the result of `to_text`."""
        fields = json.loads(text)
        role = fields.get("role")
        return cls(
            tuple(fields.get("topic", ())),
            tuple(b64decode(one) for one in fields.get("id", ())),
            tuple(fields.get("group", ())),
            tuple(fields.get("txn", ())),
            fields.get("acks"),
            None if role is None else Role(role),
        )


@lru_cache(maxsize=1024)
def _text(
    topics: tuple[str, ...],
    ids: tuple[bytes, ...],
    groups: tuple[str, ...],
    txns: tuple[str, ...],
    acks: int | None,
    role: Role | None,
) -> str:
    # The result is cached, because most exchanges name what earlier ones named.
    shown = {
        "topic": topics,
        "id": [b64encode(one).decode() for one in ids],
        "group": groups,
        "txn": txns,
        "acks": acks,
        "role": role,
    }
    return json.dumps({name: value for name, value in shown.items() if value not in (None, (), [])},
                      separators=(",", ":"))  # fmt: skip


NOTHING: Final = Subject().to_text()
"""The result of `to_text` for a subject without names."""


def subject(api_key: int | None, *sides: Decoded | None) -> Subject:
    """The subject of a Kafka exchange; `sides` are its decoded request and response, None for a missing one."""
    return Subject(*_named(api_key, sides))


def subject_text(api_key: int | None, *sides: Decoded | None) -> str:
    """The subject of a Kafka exchange as the text of `to_text`; the arguments are those of `subject`."""
    return _text(*_named(api_key, sides))


def _named(api_key: int | None, sides: tuple[Decoded | None, ...]) -> _Named:
    topics: dict[str, None] = {}
    ids: dict[bytes, None] = {}
    groups: dict[str, None] = {}
    txns: dict[str, None] = {}
    for side in sides:
        if side is not None and side.body is not None and side.message is not None:
            gather = _gatherer(side.message, side.version)
            if gather is not None:
                gather(side.body, topics, ids, groups, txns)
    asked = sides[0].body if sides and sides[0] is not None and sides[0].message is not None else None
    return (
        tuple(topics),
        tuple(ids),
        tuple(groups),
        tuple(txns),
        asked.get("acks") if asked is not None and api_key == api_keys.PRODUCE else None,
        _role(asked) if asked is not None and api_key == api_keys.FETCH else None,
    )


def _role(asked: Mapping[str, Any]) -> Role:
    state = asked.get("replicaState")
    replica = asked.get("replicaId", -1) if state is None else state.get("replicaId", -1)
    return Role.FOLLOWER if replica >= 0 else Role.CONSUMER


_KINDS: Final[Mapping[str, str]] = {"topicName": "topics", "groupId": "groups", "transactionalId": "txns"}
"""By entity type in Kafka's definitions: the attribute of Subject that holds such names."""


@dataclass(frozen=True, slots=True)
class _Typed:
    """Fields of a struct whose kind of name depends on the value of another field, `by`.

    `kinds` maps that value to the kind; other values stand for no name.
    """

    message: str
    struct: str
    by: str
    names: tuple[str, ...]
    kinds: Mapping[int, str]


_COORDINATORS: Final = {0: "groups", 1: "txns", 2: "groups"}
_TYPED: Final = (
    _Typed("FindCoordinatorRequest", "", "keyType", ("key", "coordinatorKeys"), _COORDINATORS),
    _Typed("DescribeConfigsRequest", "resources", "resourceType", ("resourceName",), {2: "topics", 32: "groups"}),
    _Typed("DescribeConfigsResponse", "results", "resourceType", ("resourceName",), {2: "topics", 32: "groups"}),
    _Typed("AlterConfigsRequest", "resources", "resourceType", ("resourceName",), {2: "topics", 32: "groups"}),
    _Typed("IncrementalAlterConfigsRequest", "resources", "resourceType", ("resourceName",),
           {2: "topics", 32: "groups"}),
)  # fmt: skip
"""The fields whose kind of name depends on another field.

Source: `CoordinatorType` of FindCoordinator (a share coordinator's keys begin with the group) and the types of
`ConfigResource`.
"""


@per_version
def _gatherer(message: Message, version: int) -> Callable[..., None] | None:
    """A compiled function that collects the names in a message, and visits only the fields that hold names.

    None if there are none.

    Its arguments are the values and, for each kind of name, the collection to which it adds the names.
    """
    lines: list[str] = []
    typed: list[_Typed] = []
    _visit(layout_of(message, version), message.name, "", 1, lines, typed)
    if not lines:
        return None
    text = "def gather(v1, topics, ids, groups, txns):\n" + "".join(f"{line}\n" for line in lines)
    names: dict[str, Any] = {"typed": typed, "of_type": _of_type, "NO_ID": _NO_ID}
    exec(compile(text, f"<subjects of {message.name} v{version}>", "exec"), names)  # noqa: S102
    gather: Callable[..., None] = names["gather"]
    return gather


def _visit(layout: Layout, message: str, struct: str, depth: int, lines: list[str], typed: list[_Typed]) -> None:
    """Append the source lines that collect the names in a struct; the variable of this depth holds the struct."""
    values, inner, indent = f"v{depth}", f"v{depth + 1}", "    " * depth
    slots = layout.every()
    naming: list[str] = []
    for slot in slots:
        kind = _kind(slot) if slot.type == "string" else None
        if kind is None:
            continue
        value = f"{values}_{len(naming)}"
        lines += [f"{indent}{value} = {values}.get({slot.name!r})", f"{indent}if {value}:"]
        if slot.shape is Shape.ARRAY:
            lines.append(f"{indent}    for one in {value}: {kind}[one] = None")
        else:
            lines.append(f"{indent}    {kind}[{value}] = None")
        if kind == "topics":
            naming.append(value)
    if any(slot.name == TOPIC_ID for slot in slots):
        lines += [
            f"{indent}if not ({' or '.join(naming) or False}):",
            f"{indent}    one = bytes({values}.get({TOPIC_ID!r}, NO_ID))",
            f"{indent}    if one != NO_ID: ids[one] = None",
        ]
    row = next((row for row in _TYPED if (row.message, row.struct) == (message, struct)), None)
    if row is not None:
        lines += [
            f"{indent}for kind, one in of_type({values}, typed[{len(typed)}]):",
            f"{indent}    (topics if kind == 'topics' else groups if kind == 'groups' else txns)[one] = None",
        ]
        typed.append(row)
    for slot in slots:
        if slot.shape not in {Shape.ARRAY, Shape.STRUCT} or slot.layout is None:
            continue
        below: list[str] = []
        _visit(slot.layout, message, slot.name, depth + 1, below, typed)
        if below and slot.shape is Shape.ARRAY:
            lines += [f"{indent}for {inner} in {values}.get({slot.name!r}) or ():", *below]
        elif below:
            lines += [f"{indent}{inner} = {values}.get({slot.name!r})", f"{indent}if {inner} is not None:", *below]


def _kind(slot: Slot) -> str | None:
    # The group id in messages between brokers about share groups has no entityType.
    return "groups" if slot.name == "groupId" else _KINDS.get(slot.field.entity or "")


def _of_type(values: Mapping[str, Any], typed: _Typed) -> Iterator[tuple[str, str]]:
    by = values.get(typed.by, 0)
    kind = typed.kinds.get(by)
    if kind is None:
        return
    for name in typed.names:
        value = values.get(name)
        for text in value if isinstance(value, list) else (value,):
            if text:
                # a share coordinator's key is "group:topic id:partition"
                yield kind, text.partition(":")[0] if typed.by == "keyType" and by == 2 else text
