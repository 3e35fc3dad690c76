"""The topics and partitions that a message's values name, found by its definition whatever the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from decoders.knowledge import TOPIC_ID
from decoders.layout import Layout, Shape, per_version
from decoders.layout import layout as layout_of
from decoders.schema.model import Message

Values = Mapping[str, Any]

_ENTITY: Final = "topicName"
_INDEXES: Final = ("index", "partition", "partitionIndex", "partitionId")
_LISTS: Final = "artition"
"""What the names of lists of partitions have in common ("partitions", "resultsByPartition")."""
_NOT_ASKED: Final = frozenset({"forgottenTopicsData"})
"""Lists of what a message takes back."""


class Named(NamedTuple):
    """A topic, or one partition of it; `values` are the struct's of the partition, else of the topic.

    `topic_id` is None where there is none, or only zeros.
    """

    topic: str | None
    topic_id: bytes | None
    partition: int | None
    values: Values


@dataclass(frozen=True, slots=True)
class _Place:
    """What a struct has of topics: names of its fields, and the fields of structs below."""

    name: str | None
    topic_id: bool
    partitions: tuple[tuple[str, str | None], ...]
    """Lists of partitions with the field that has the number; None where the elements are the numbers."""
    names: tuple[str, ...]
    """Lists of topics' names."""
    below: tuple[tuple[str, bool, _Place], ...]
    """Fields with structs, and whether they are lists."""


def named(values: Values, message: Message, version: int) -> Iterator[Named]:
    """Every topic and partition that a message names, in order; one that it names twice comes twice."""
    place = _place(message, version)
    if place is not None:
        yield from _walk(values, place)


@per_version
def _place(message: Message, version: int) -> _Place | None:
    return _of(layout_of(message, version))


def _of(layout: Layout) -> _Place | None:
    slots = [slot for slot in layout.every() if slot.name not in _NOT_ASKED]
    strings = [slot for slot in slots if slot.one.shape is Shape.STRING and slot.field.entity == _ENTITY]
    name = next((slot.name for slot in strings if slot.shape is Shape.STRING), None)
    topic_id = TOPIC_ID in layout.order
    partitions: list[tuple[str, str | None]] = []
    below: list[tuple[str, bool, _Place]] = []
    for slot in slots:
        array = slot.shape is Shape.ARRAY
        if (name or topic_id) and array and _LISTS in slot.name:
            index = None if slot.layout is None else next((one for one in _INDEXES if one in slot.layout.order), None)
            if index is not None or (slot.layout is None and slot.type == "int32"):
                partitions.append((slot.name, index))
                continue
        inner = None if slot.layout is None else _of(slot.layout)
        if inner is not None:
            below.append((slot.name, array, inner))
    names = tuple(slot.name for slot in strings if slot.shape is Shape.ARRAY)
    if not (name or topic_id or names or below):
        return None
    return _Place(name, topic_id, tuple(partitions), names, tuple(below))


def _walk(values: Values, place: _Place) -> Iterator[Named]:
    if place.name or place.topic_id:
        yield from _topic(values, place)
    for listed in place.names:
        for name in values.get(listed) or ():
            yield Named(name, None, None, {})
    for field, array, inner in place.below:
        value = values.get(field)
        if value is None:
            continue
        for element in value if array else (value,):
            yield from _walk(element, inner)


def _topic(values: Values, place: _Place) -> Iterator[Named]:
    topic = (values.get(place.name) if place.name else None) or None
    raw = values.get(TOPIC_ID) if place.topic_id else None
    topic_id = bytes(raw) if raw is not None and any(raw) else None
    if topic is None and topic_id is None:
        return
    found = False
    for field, index in place.partitions:
        for element in values.get(field) or ():
            found = True
            if index is None:
                yield Named(topic, topic_id, element, {})
            else:
                yield Named(topic, topic_id, element[index], element)
    if not found:
        yield Named(topic, topic_id, None, values)
