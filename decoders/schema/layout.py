"""The layout of one version of a message: its fields, in wire order, and the encoding of each.

The compiler, the tree, the writer and the JSON form all use these layouts.
Source: KIP-482 (compact lengths and tagged fields) and Kafka's message generator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from kproxy.decoders.schema.model import Field, Message

T = TypeVar("T")

UNKNOWN_TAGS = "_unknownTaggedFields"
"""Name in decoded values for tagged fields that the definition does not have: [(tag, bytes)]."""


class Shape(Enum):
    """The five ways in which a value is encoded."""

    FIXED = "fixed"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    STRUCT = "struct"


FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Format character of the struct module and size in bytes, for each type of fixed size."""

RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


@dataclass(frozen=True, slots=True)
class Slot:
    """The encoding of one field in one version.

    `compact` says that the field's length is an unsigned varint of length + 1; `minimum` is the smallest number of
    bytes that the field takes.
    """

    name: str
    shape: Shape
    type: str
    field: Field
    nullable: bool
    compact: bool
    minimum: int
    format: str = ""
    count: str = "i"
    """Format character of the struct module for an array's count, if the count is not compact."""
    tag: int | None = None
    element: Slot | None = None
    layout: Layout | None = None

    @property
    def one(self) -> Slot:
        """For an array, the slot of an element; for any other field, the slot itself."""
        return self if self.element is None else self.element

    @property
    def struct(self) -> Layout:
        """The layout of the field's struct, or of an array's structs. Raises TypeError for other fields."""
        if self.layout is None:
            raise TypeError(f"{self.name} holds no struct")
        return self.layout

    @property
    def type_name(self) -> str:
        """The type as the definition writes it: "int32", "[]Topic"."""
        return f"[]{self.type}" if self.shape is Shape.ARRAY else self.type


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a struct in one version: `slots` in wire order, then, if `flexible`, the `tagged` ones."""

    name: str
    slots: tuple[Slot, ...]
    tagged: dict[int, Slot]
    order: tuple[str, ...]
    """Names of all fields, including tagged ones, in the order of the definition."""
    flexible: bool
    minimum: int

    def every(self) -> list[Slot]:
        """The slots of all fields, including tagged ones, in the order of the definition."""
        by_name = {slot.name: slot for slot in (*self.slots, *self.tagged.values())}
        return [by_name[name] for name in self.order]


def per_version(build: Callable[[Message, int], T]) -> Callable[[Message, int], T]:
    """Cache the result of `build` per definition and version, by the definition's identity.

    Hashing a definition by value would visit all of its fields at each call.
    """
    made: dict[tuple[int, int], tuple[Message, T]] = {}

    def get(message: Message, version: int) -> T:
        key = (id(message), version)
        entry = made.get(key)
        if entry is None:
            entry = made[key] = (message, build(message, version))
        return entry[1]

    return get


def _slot(field: Field, version: int, *, flexible: bool, element: bool = False) -> Slot:
    compact = flexible if field.flexible is None else version in field.flexible
    nullable = not element and version in field.nullable
    tag = field.tag if not element and flexible and version in field.tagged else None
    if field.array and not element:
        inner = _slot(field, version, flexible=flexible, element=True)
        return Slot(
            field.name,
            Shape.ARRAY,
            field.type,
            field,
            nullable,
            compact,
            1 if compact else FIXED[field.count][1],
            count=FIXED[field.count][0],
            tag=tag,
            element=inner,
            layout=inner.layout,
        )
    if field.struct is not None:
        layout = _layout(field.struct.name, field.struct.fields, version, flexible=flexible)
        minimum = 1 if nullable else layout.minimum
        return Slot(field.name, Shape.STRUCT, field.type, field, nullable, compact, minimum, tag=tag, layout=layout)
    if field.type == "string":
        return Slot(field.name, Shape.STRING, field.type, field, nullable, compact, 1 if compact else 2, tag=tag)
    if field.type in {"bytes", "records"}:
        return Slot(field.name, Shape.BYTES, field.type, field, nullable, compact, 1 if compact else 4, tag=tag)
    code, size = FIXED[field.type]
    return Slot(field.name, Shape.FIXED, field.type, field, nullable, compact, size, format=code, tag=tag)


def _layout(name: str, fields: tuple[Field, ...], version: int, *, flexible: bool) -> Layout:
    present = [_slot(field, version, flexible=flexible) for field in fields if version in field.versions]
    slots = tuple(slot for slot in present if slot.tag is None)
    tagged = {slot.tag: slot for slot in sorted(present, key=lambda slot: slot.tag or 0) if slot.tag is not None}
    return Layout(
        name,
        slots,
        tagged,
        tuple(slot.name for slot in present),
        flexible,
        sum(slot.minimum for slot in slots) + flexible,
    )


@per_version
def layout(message: Message, version: int) -> Layout:
    """The layout of a message in `version`. Raises KeyError for a type that Kafka does not have."""
    return _layout(message.name, message.fields, version, flexible=version in message.flexible)
