"""Describes a message over its versions: its fields with types and versions, and differences between two versions.

The descriptions are derived from the layouts that the decoders use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kproxy.decoders.schema.layout import Layout, Shape, Slot
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message

if TYPE_CHECKING:
    from kproxy.decoders.schema.lookup import Definitions


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field over the versions that have it.

    `path` includes the structs around it ("topics[].partitions[].index"). `types` holds the type in each version, as
    the definition writes it, or "struct" or "[]struct". `nullable` lists the versions in which the field is nullable,
    `tagged` holds the tag in each version in which it is tagged.
    """

    path: str
    name: str
    depth: int
    types: Mapping[int, str]
    nullable: frozenset[int]
    tagged: Mapping[int, int]
    slot: Slot
    """The encoding of the field in the newest version that has it."""

    @property
    def versions(self) -> list[int]:
        return sorted(self.types)

    def to_json(self, every: Sequence[int]) -> dict[str, object]:
        """The row as JSON; `every` lists all versions of the message."""
        field = self.slot.field
        line: dict[str, object] = {
            "path": self.path,
            "type": self.types[max(self.types)],
            "versions": since(self.versions, every),
        }
        if len(set(self.types.values())) > 1:
            line["types"] = {
                type_: since(sorted(v for v, one in self.types.items() if one == type_), every)
                for type_ in dict.fromkeys(self.types.values())
            }
        if self.nullable:
            line["nullable"] = since(sorted(self.nullable), every)
        if self.tagged:
            line["tag"] = self.tagged[max(self.tagged)]
            line["tagged"] = since(sorted(self.tagged), every)
        if field.default is not None:
            line["default"] = field.default
        if field.map_key:
            line["map_key"] = True
        if field.ignorable:
            line["ignorable"] = True
        if field.entity is not None:
            line["entity"] = field.entity
        return line


def type_text(slot: Slot) -> str:
    kind = "struct" if slot.layout is not None else slot.type
    return f"[]{kind}" if slot.shape is Shape.ARRAY else kind


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as (first, last) of each sequence of consecutive numbers."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers as text: "0-3, 5"."""
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs(numbers))


def since(versions: Sequence[int], every: Sequence[int]) -> str:
    """Some versions of a message, as a definition writes them: "2+" up to the newest, "0-4", "3".

    `every` are all versions.
    """
    if not versions or not every or versions[-1] != every[-1]:
        return ranges(versions)
    *before, (low, _) = runs(versions)
    last = f"{low}+"
    return ", ".join([*(str(a) if a == b else f"{a}-{b}" for a, b in before), last])


def fields(messages: Mapping[int, Message]) -> list[FieldRow]:
    """All fields of a message in wire order; `messages` holds its definition in each version."""
    return list(_fields({v: layout_of(message, v).every() for v, message in messages.items()}, "", 0))


def _fields(slots: Mapping[int, list[Slot]], above: str, depth: int) -> Iterator[FieldRow]:
    by_name: dict[str, dict[int, Slot]] = {}
    for name in _order([[slot.name for slot in slots[version]] for version in sorted(slots, reverse=True)]):
        by_name[name] = {v: slot for v, every in slots.items() for slot in every if slot.name == name}
    for name, found in by_name.items():
        newest = found[max(found)]
        path = above + name
        yield FieldRow(
            path,
            name,
            depth,
            {v: type_text(slot) for v, slot in sorted(found.items())},
            frozenset(v for v, slot in found.items() if slot.nullable),
            {v: slot.tag for v, slot in found.items() if slot.tag is not None},
            newest,
        )
        inner = {v: slot.layout.every() for v, slot in found.items() if slot.layout is not None}
        if inner:
            array = "[]" if newest.shape is Shape.ARRAY else ""
            yield from _fields(inner, f"{path}{array}.", depth + 1)


def _order(lists: list[list[str]]) -> list[str]:
    """Merges lists of names. Each name follows the name before it in the first list that contains it."""
    order: list[str] = []
    for names in lists:
        at = 0
        for name in names:
            if name in order:
                at = order.index(name) + 1
            else:
                order.insert(at, name)
                at += 1
    return order


# --- differences -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two versions; `kind` is "added", "removed" or "changed".

    `before` and `after` describe the field or message in the two versions, "" if it is absent.
    """

    kind: str
    path: str
    before: str
    after: str

    def to_json(self) -> dict[str, str]:
        return {"change": self.kind, "path": self.path, "before": self.before, "after": self.after}


def differences(before: tuple[Message, int], after: tuple[Message, int]) -> list[Change]:
    """Differences between the encodings of two (message, version), in wire order; the path "" is the message itself.

    If only one of them is flexible, there is one change for the whole message, instead of one for each compact length.
    """
    old, new = (layout_of(message, version) for message, version in (before, after))
    changes = []
    if old.flexible != new.flexible:
        changes.append(Change("changed", "", _flexible(old), _flexible(new)))
    return [*changes, *_differences(old, new, "")]


def _flexible(layout: Layout) -> str:
    return "flexible" if layout.flexible else "not flexible"


def _differences(old: Layout, new: Layout, above: str) -> Iterator[Change]:
    ours = {slot.name: slot for slot in old.every()}
    theirs = {slot.name: slot for slot in new.every()}
    for name in _order([list(new.order), list(old.order)]):
        path = above + name
        if name not in ours:
            yield from _all(theirs[name], path, "added")
        elif name not in theirs:
            yield from _all(ours[name], path, "removed")
        else:
            before, after = ours[name], theirs[name]
            if _written(before) != _written(after):
                yield Change("changed", path, _written(before), _written(after))
            if before.layout is not None and after.layout is not None:
                array = "[]" if after.shape is Shape.ARRAY else ""
                yield from _differences(before.layout, after.layout, f"{path}{array}.")
    kept_old = [slot.name for slot in old.slots if slot.name in {one.name for one in new.slots}]
    kept_new = [slot.name for slot in new.slots if slot.name in {one.name for one in old.slots}]
    if kept_old != kept_new:
        yield Change("changed", above.rstrip("."), "order " + " ".join(kept_old), "order " + " ".join(kept_new))


def _all(slot: Slot, path: str, kind: str) -> Iterator[Change]:
    """The changes for a field that only one of the versions has, and for all fields below it."""
    text = _written(slot)
    yield Change(kind, path, "", text) if kind == "added" else Change(kind, path, text, "")
    if slot.layout is not None:
        array = "[]" if slot.shape is Shape.ARRAY else ""
        for inner in slot.layout.every():
            yield from _all(inner, f"{path}{array}.{inner.name}", kind)


def _written(slot: Slot) -> str:
    """How a field is encoded (type, nullable, tag), without differences that flexible versions make to all fields."""
    notes = [type_text(slot)]
    if slot.nullable:
        notes.append("nullable")
    if slot.tag is not None:
        notes.append(f"tag {slot.tag}")
    return ", ".join(notes)


# --- the grammar -----------------------------------------------------------------------------------------------------


def grammar(message: Message, version: int) -> list[str]:
    """The encoding of a version as grammar rules, with the names and types of Kafka's protocol guide.

    [a] is an array with an INT32 count, (a) one with an unsigned varint of the count + 1; ?[a] and ?(a) may be null, as
    may ?a of structs. `_tagged_fields` ends each struct of a flexible version.
    """
    return list(_rule(_title(message, version), layout_of(message, version), 0))


def _title(message: Message, version: int) -> str:
    for kind in ("Request", "Response"):
        if message.kind == kind.lower():
            return f"{message.name.removesuffix(kind)} {kind} (Version: {version})"
    return f"{message.name} (Version: {version})"


def _rule(name: str, layout: Layout, depth: int) -> Iterator[str]:
    slots = [*layout.slots, *layout.tagged.values()]
    words = [_mention(slot) for slot in slots]
    if layout.flexible:
        words.append("_tagged_fields")
    yield f"{'  ' * depth}{name} => {' '.join(words)}".rstrip()
    for slot in slots:
        if slot.layout is not None:
            yield from _rule(_name(slot), slot.layout, depth + 1)
        else:
            yield f"{'  ' * (depth + 1)}{_name(slot)} => {_type(slot.one)}"


def _name(slot: Slot) -> str:
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in slot.name)
    return name if slot.tag is None else f"{name}<tag: {slot.tag}>"


def _mention(slot: Slot) -> str:
    name = _name(slot)
    optional = "?" if slot.nullable and (slot.shape in {Shape.ARRAY, Shape.STRUCT}) else ""
    if slot.shape is Shape.ARRAY:
        return f"{optional}({name})" if slot.compact else f"{optional}[{name}]"
    return optional + name


def _type(slot: Slot) -> str:
    word = {"bool": "BOOLEAN"}.get(slot.type, slot.type.upper())
    if slot.shape is Shape.FIXED:
        return word
    nullable = "NULLABLE_" if slot.nullable else ""
    return f"{'COMPACT_' if slot.compact else ''}{nullable}{word}"


def message_json(at: Mapping[int, Message], version: int | None, known: Definitions) -> dict[str, Any]:
    """A message as JSON: its names, versions and fields. `at` has its definition for each version.

    With `version`, only the fields of this version.
    """
    every = sorted(at)
    message = at[every[-1] if version is None else version]
    api = None if message.api_key is None else known.api(message.api_key)
    return {
        "name": message.name,
        "kind": message.kind,
        "api_key": message.api_key,
        "api": None if api is None else api.name,
        **({} if message.topic is None else {"topic": message.topic, "record_type": message.record_type}),
        "versions": every if version is None else [version],
        "flexible": since([one for one in every if one in at[one].flexible], every) or None,
        "fields": [row.to_json(every) for row in fields(at) if version is None or version in row.types],
    }
