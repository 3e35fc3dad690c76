"""Finds the elements of a body (topics, partitions, …) that the conditions of a rule select.

Kafka names the same field differently in different messages (index, partitionIndex, partition); a condition uses one
canonical name for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from kproxy.decoders.jsonform import uuid_json
from kproxy.decoders.schema import definitions
from kproxy.decoders.schema.layout import Layout, Shape, Slot
from kproxy.decoders.schema.model import Struct
from kproxy.faults.rule import At

PARTITION: Final = "partition"
TOPIC: Final = "topicName"
TOPIC_ID: Final = "topicId"
_PARTITION_NAMES: Final = frozenset(
    {"partition", "partitions", "partitionindex", "partitionindexes", "partitionid", "index"}
)
ALIASES: Final = {"topic": TOPIC, "partition": PARTITION, "group": "groupId", "txn": "transactionalId"}
"""Short names that conditions may use, and the canonical name of each."""

TopicName = Callable[[bytes], str | None]
"""A function from a topic id (16 bytes) to the topic's name, None if it is not known."""


def canonical_name(name: str) -> str:
    """The canonical name of a field: Kafka's messages name some things differently (index, partitionIndex)."""
    return PARTITION if name.lower() in _PARTITION_NAMES else name


@cache
def _canonical(name: str, entity: str | None) -> str:
    return entity if entity in {TOPIC, "groupId", "transactionalId"} else canonical_name(name)


def canonical(slot: Slot) -> str:
    """The canonical name of a field: its entity type in Kafka's definitions, or its name."""
    return _canonical(slot.name, slot.field.entity)


@cache
def fields_of_elements() -> frozenset[str]:
    """The names of all fields that a condition may name."""
    found: set[str] = set()

    def enter(struct: Struct) -> None:
        for field in struct.fields:
            if field.struct is not None:
                enter(field.struct)
            elif field.type != "records":
                found.add(field.name)

    for message in definitions().messages():
        if message.kind in {"request", "response"}:
            for field in message.fields:
                if field.struct is not None:
                    enter(field.struct)
                elif field.array:
                    found.add(field.name)
    return frozenset(found)


def shown(slot: Slot, value: Any) -> str:
    """The text of a value, as a condition writes it."""
    if slot.type == "uuid":
        return uuid_json(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def left_open(at: Sequence[At], layout: Layout, values: Mapping[str, Any], name_of: TopicName) -> tuple[At, ...] | None:
    """The conditions about fields that this struct lacks; None if the struct violates a condition on its own fields."""
    if not at:
        return ()
    remaining = []
    scalars = [slot for slot in layout.every() if slot.shape in {Shape.FIXED, Shape.STRING}]
    for one in at:
        wanted = ALIASES.get(one.name, one.name)
        fits: bool | None = None
        for slot in scalars:
            if slot.name not in values or values[slot.name] is None:
                continue
            if canonical(slot) == wanted or slot.name == one.name:
                if shown(slot, values[slot.name]) == one.value:
                    fits = True
                elif not (slot.type == "string" and not values[slot.name]):
                    fits = fits or False
            elif wanted == TOPIC and slot.name == TOPIC_ID and name_of(bytes(values[slot.name])) == one.value:
                fits = True
            elif wanted == TOPIC and slot.name == TOPIC_ID and any(bytes(values[slot.name])):
                fits = fits or False
        if fits is None:
            remaining.append(one)
        elif not fits:
            return None
    return tuple(remaining)


def scalar_fits(at: Sequence[At], slot: Slot, value: Any) -> tuple[At, ...] | None:
    """The conditions that are not about this element of an array of scalars; None if the element violates one."""
    remaining = []
    for one in at:
        if ALIASES.get(one.name, one.name) in {canonical(slot), slot.name}:
            if shown(slot.one, value) != one.value:
                return None
        else:
            remaining.append(one)
    return tuple(remaining)


def split(
    at: Sequence[At], layout: Layout, values: Mapping[str, Any], name_of: TopicName
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Divides a body into (elements that the conditions leave, elements that they select); None for an empty part.

    Both parts keep the fields outside these elements.
    """
    remaining = left_open(at, layout, values, name_of)
    if remaining is None:
        return dict(values), None
    if not remaining:
        return None, dict(values)
    kept, taken = dict(values), dict(values)
    some = any_kept = False
    for slot in layout.every():
        if slot.shape is not Shape.ARRAY or not values.get(slot.name):
            continue
        left: list[Any] = []
        gone: list[Any] = []
        for element in values[slot.name]:
            if slot.layout is not None:
                stays, goes = split(remaining, slot.layout, element, name_of)
                left += [] if stays is None else [stays]
                gone += [] if goes is None else [goes]
            else:
                (gone if scalar_fits(remaining, slot, element) == () else left).append(element)
        if gone:
            some = True
            kept[slot.name], taken[slot.name] = left, gone
            any_kept = any_kept or bool(left)
    if not some:
        return dict(values), None
    return (kept if any_kept else None), taken
