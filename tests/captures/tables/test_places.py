"""The compiled functions agree with a plain walk over the values of every message that Kafka's classes wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kproxy.captures.tables.places import Part, parts
from kproxy.decoders.knowledge import TOPIC_ID
from kproxy.decoders.records.places import PLACES
from kproxy.decoders.schema.layout import Layout, Shape, Slot, layout
from tests.decoders.support import RELEASES, decoded

NUMBERS = (("errorCode", "partitionErrorCode"), ("baseOffset",), ("fetchOffset", "committedOffset", "offset"))
INDEXES = ("index", "partition", "partitionIndex", "partitionId")


def walked(values: Mapping[str, Any], shape: Layout, records: str) -> Iterator[Part]:
    slots = [slot for slot in shape.every() if slot.name != "forgottenTopicsData"]
    topics = [slot for slot in slots if slot.type == "string" and slot.field.entity == "topicName"]
    topic = next((values.get(slot.name) for slot in topics if slot.shape is Shape.STRING), None) or None
    topic_id = values.get(TOPIC_ID)
    names = any(slot.shape is Shape.STRING for slot in topics) or TOPIC_ID in shape.order
    place = topic, topic_id if topic_id != bytes(16) else None
    lists = [slot for slot in slots if names and _of_partitions(slot)]
    if place != (None, None):
        found = [(*place, *_partition(element, records)) for slot in lists for element in values.get(slot.name) or ()]
        yield from found or [(*place, None, *_told(values, records))]
    for slot in topics:
        if slot.shape is Shape.ARRAY:
            yield from ((name, None, None, *_told({}, records)) for name in values.get(slot.name) or ())
    for slot in slots:
        below = values.get(slot.name)
        if slot.layout is not None and slot not in lists and below is not None:
            for element in below if slot.shape is Shape.ARRAY else [below]:
                yield from walked(element, slot.layout, records)


def _of_partitions(slot: Slot) -> bool:
    if slot.shape is not Shape.ARRAY or "artition" not in slot.name:
        return False
    return slot.type == "int32" if slot.layout is None else not set(INDEXES).isdisjoint(slot.layout.order)


def _partition(element: Any, records: str) -> tuple[Any, ...]:
    if isinstance(element, int):
        return element, *_told({}, records)
    return next(element[name] for name in INDEXES if name in element), *_told(element, records)


def _told(values: Mapping[str, Any], records: str) -> tuple[Any, ...]:
    numbers = [next((values[name] for name in names if isinstance(values.get(name), int)), None) for names in NUMBERS]
    high = values.get("highWatermark", -1)
    held = values.get(records)
    return (
        *numbers, high if high >= 0 else None, values.get("lastStableOffset"), None if held is None else bytes(held),
    )  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_what_every_golden_message_says_of_partitions(release: str) -> None:
    found = carried = 0
    for one, read in decoded(release):
        if read.body is None or read.message is None:
            continue
        lists = PLACES.get(one.api_key)
        records = "" if lists is None else lists.field
        expected = list(walked(read.body, layout(read.message, read.version), records))
        assert parts(read.body, read.message, read.version, bytes) == expected, one
        found += len(expected)
        carried += sum(part[-1] is not None for part in expected)
    assert found > 1000
    assert carried > 10
