"""Collects the topics and partitions in a message's values, for every API, by the message's definition.

The code for each message is compiled from its layout and visits no other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kproxy.decoders.knowledge import TOPIC_ID
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.records.places import PLACES
from kproxy.decoders.schema.layout import RANGES, Layout, Shape, Slot, per_version
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message

Values = Mapping[str, Any]
Part: TypeAlias = tuple[
    str | None, bytes | None, int | None, int | None, int | None, int | None, int | None, int | None, Any
]
"""The values that a message has for a topic or partition.

(topic, topic id, partition, error code, base offset, fetch offset, high watermark, last stable offset, records). The
topic id is None if it is missing or zero; the partition is None if the message names only the topic. The last value is
None for a message without records, else the result of `made` (see `parts`).
"""

_ENTITY: Final = "topicName"
_INDEXES: Final = ("index", "partition", "partitionIndex", "partitionId")
_LISTS: Final = "artition"
"""A text that the name of every list of partitions contains ("partitions", "resultsByPartition")."""
_NOT_ASKED: Final = frozenset({"forgottenTopicsData"})
"""Names of lists with partitions that a request removes from a fetch session; these partitions are not in use."""
_NUMBERS: Final = (
    ("errorCode", "partitionErrorCode"),
    ("baseOffset",),
    ("fetchOffset", "committedOffset", "offset"),
    ("highWatermark",),
    ("lastStableOffset",),
)
"""For each number of a Part, the names of fields that may hold it; the first one that a struct has is used."""
_KNOWN: Final = frozenset({"highWatermark"})
"""Fields whose value is -1 if the sender does not know it."""


def parts(values: Values, message: Message, version: int, made: Callable[[Buffer], Any]) -> list[Part]:
    """A Part for every topic and partition in `values`, in order; a partition that is named twice has two.

    `made` converts the bytes of a partition's records to the last value of the Part.
    """
    gather = _gatherer(message, version)
    return [] if gather is None else gather(values, made)


@per_version
def _gatherer(message: Message, version: int) -> Callable[[Values, Callable[[Buffer], Any]], list[Part]] | None:
    lists = PLACES.get(-1 if message.api_key is None else message.api_key)
    lines = _visit(layout_of(message, version), None if lists is None else lists.field, 0)
    if not lines:
        return None
    lines = ["def gather(v0, made):", "    found = []", "    add = found.append", *lines, "    return found", ""]
    names: dict[str, Any] = {"NO_ID": bytes(16)}
    exec(compile("\n".join(lines), f"<topics of {message.name} v{version}>", "exec"), names)  # noqa: S102
    gather: Callable[[Values, Callable[[Buffer], Any]], list[Part]] = names["gather"]
    return gather


def _visit(layout: Layout, records: str | None, depth: int) -> list[str]:
    """Lines of Python code that append the Parts of a struct to `found`; no line if the struct has no topics.

    The struct is in the variable "v" + `depth`; `records` is the name of the field with records.
    """
    values, inner, indent = f"v{depth}", f"v{depth + 1}", "    " * (depth + 1)
    slots = [slot for slot in layout.every() if slot.name not in _NOT_ASKED]
    strings = [slot for slot in slots if slot.one.shape is Shape.STRING and slot.field.entity == _ENTITY]
    name = next((slot for slot in strings if slot.shape is Shape.STRING), None)
    topic_id = next((slot for slot in slots if slot.name == TOPIC_ID), None)
    topic: list[str] = []
    below: list[str] = []
    for slot in slots:
        array = slot.shape is Shape.ARRAY
        each = f"for {inner} in {_get(slot, values)} or ():"
        if (name or topic_id) and array and _LISTS in slot.name:
            values_text = _partition(slot, inner, records)
            if values_text is not None:
                topic += [each, f"    add((t, i, {values_text}))"]
                continue
        lines = [] if slot.layout is None else _visit(slot.layout, records, depth + 1)
        if lines and array:
            below += [indent + each, *lines]
        elif lines:
            below += [f"{indent}{inner} = {_get(slot, values)}", f"{indent}if {inner} is not None:", *lines]
    begin: list[str] = []
    if name or topic_id:
        begin = [
            f"t = {_get(name, values) if name else None} or None",
            f"i = {_get(topic_id, values) if topic_id else None}",
            "if i == NO_ID: i = None",
            "if t is not None or i is not None:",
            "    n = len(found)",
            *(f"    {line}" for line in topic),
            f"    if len(found) == n: add((t, i, None, {_numbers(layout, values, records)}))",
        ]
    for slot in strings:
        if slot.shape is Shape.ARRAY:
            begin.append(f"for {inner} in {_get(slot, values)} or (): add(({inner}, None, None, {_NOTHING}))")
    return [*(indent + line for line in begin), *below]


def _get(slot: Slot, values: str) -> str:
    return f"{values}[{slot.name!r}]" if slot.tag is None else f"{values}.get({slot.name!r})"


_NOTHING: Final = ", ".join(["None"] * (len(_NUMBERS) + 1))


def _partition(slot: Slot, values: str, records: str | None) -> str | None:
    """An expression for the partition's number and all further values of a Part, from an element of the list `slot`.

    The element is in the variable `values`. None if it is no partition.
    """
    if slot.layout is None:
        return f"{values}, {_NOTHING}" if slot.type == "int32" else None
    numbers = {one.name: one for one in slot.layout.every()}
    index = next((numbers[name] for name in _INDEXES if name in numbers), None)
    return None if index is None else f"{_get(index, values)}, {_numbers(slot.layout, values, records)}"


def _numbers(layout: Layout, values: str, records: str | None) -> str:
    """An expression for the values of a Part behind the partition's number."""
    slots = {slot.name: slot for slot in layout.every()}
    values_text = [
        _first([slots[name] for name in names if name in slots and slots[name].type_name in RANGES], values)
        for names in _NUMBERS
    ]
    held = slots.get(records or "")
    values_text.append("None" if held is None else f"None if (r := {_get(held, values)}) is None else made(r)")
    return ", ".join(values_text)


def _first(slots: list[Slot], values: str) -> str:
    """An expression for the first of some fields that the struct in `values` has."""
    if not slots:
        return "None"
    slot, get = slots[0], _get(slots[0], values)
    if slot.name in _KNOWN:
        return f"{get} if ({get} or 0) >= 0 else None"
    return get if slot.tag is None else f"{_first(slots[1:], values)} if {get} is None else {get}"
