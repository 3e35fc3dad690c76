"""Makes answers with an error code from Kafka's definitions.

The error codes of an API version are the int16 fields of its definition whose names end in "rrorCode".
Elements of the answer mirror those of the request: an array of the response whose elements carry a code has an element
for each one that the request names, with the same topic, partition, group or name. Fields without a default that stand
for "unknown" get -1, as brokers send it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from kproxy.decoders.errorcodes import is_error_code
from kproxy.decoders.framing import response_frame
from kproxy.decoders.message import Decoded
from kproxy.decoders.schema import Definitions, Message, api_keys, errors, irregular
from kproxy.decoders.schema.layout import Layout, Shape, Slot, per_version
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.writer import default, write
from kproxy.faults.elements import TopicName, canonical, left_open
from kproxy.faults.rule import At

SIZE = 4
_UNKNOWN = re.compile(
    r"(offset|watermark|timestamp|leaderid|nodeid|brokerid|controllerid|producerid|producerepoch|leaderepoch|^port)$",
    re.IGNORECASE,
)
"""Names of numeric fields that are -1 beside an error code, as brokers write them."""
_COPIED: Final = frozenset({"int8", "int32", "uuid", "bool"})
ABOUT_SESSIONS: Final = frozenset({api_keys.FETCH, 78, 79})
"""APIs whose top-level error code is about the session: Fetch, ShareFetch, ShareAcknowledge.

Clients ignore the partitions if this code is set, so only errors of sessions are put there.
"""


class NoPlaceError(Exception):
    """Answers of this API and version have no error code, or none in the elements that the rule selects."""


class Fault(NamedTuple):
    """An error to put into answers: the code, which elements get it, and names of topic ids."""

    code: int
    at: tuple[At, ...]
    name_of: TopicName


@cache
def _session(code: int) -> bool:
    return "SESSION" in errors.name(code)


def _carries(layout: Layout) -> bool:
    return any(is_error_code(slot) or (slot.layout is not None and _carries(slot.layout)) for slot in layout.every())


@per_version
def carries(message: Message, version: int) -> bool:
    """Whether a message of this version has a field for an error code."""
    return _carries(layout_of(message, version))


def places(message: Message, version: int) -> list[str]:
    """The paths of all error codes of a message: errorCode, topics[].partitions[].errorCode."""
    found: list[str] = []

    def visit(layout: Layout, path: str) -> None:
        for slot in layout.every():
            if is_error_code(slot):
                found.append(f"{path}{slot.name}")
            elif slot.layout is not None:
                visit(slot.layout, f"{path}{slot.name}{'[]' if slot.shape is Shape.ARRAY else ''}.")

    visit(layout_of(message, version), "")
    return found


def answer(
    asked: Decoded, api_key: int, api_version: int, fault: Fault, definitions: Definitions
) -> tuple[Message, int, dict[str, Any]]:
    """(definition, version, values) of a broker's answer with this error to a request.

    Raises NoPlaceError. An ApiVersions request of an unknown version is answered in version 0 (KIP-511).
    """
    version = api_version
    if fault.code == irregular.v0_answer_error(api_key):
        version = 0
    message = definitions.response(api_key, version)
    if message is None or asked.message is None or asked.body is None or not carries(message, version):
        raise NoPlaceError(f"answers of {definitions.shown_api_name(api_key)} v{version} carry no error code")
    made = _Made(fault, api_key)
    question = layout_of(asked.message, asked.version)
    layout = layout_of(message, version)
    values = made.struct(layout, question, asked.body, fault.at, top=True)
    if not made.placed and not fault.at:
        made.alone = True
        values = made.struct(layout, question, asked.body, (), top=True)
    if not made.placed:
        raise NoPlaceError(f"answers of {definitions.shown_api_name(api_key)} v{version} have no such element")
    return message, version, values


def stamped(message: Message, version: int, values: Mapping[str, Any], api_key: int, fault: Fault) -> dict[str, Any]:
    """A broker's answer with this error put into it. Raises NoPlaceError."""
    layout = layout_of(message, version)
    made = _Made(fault, api_key)
    new = made.stamp(layout, values, fault.at, top=True)
    if not made.placed:
        raise NoPlaceError(f"this {message.name} v{version} has no {'such element' if fault.at else 'error code'}")
    return new


def frame(
    api_key: int, api_version: int, correlation_id: int, made: tuple[Message, int, dict[str, Any]], known: Definitions
) -> bytes:
    """A response as bytes, its length field included."""
    return response_frame(known, (api_key, api_version), correlation_id, write(*made))


class _Made:
    """Makes the values of one answer; `placed` counts the codes in it."""

    def __init__(self, fault: Fault, api_key: int) -> None:
        self.fault = fault
        self.api_key = api_key
        self.placed = 0
        self.alone = False
        """Whether the request named no elements; the answer then has one element, which carries the code."""

    def _here(self, *, top: bool) -> bool:
        """Whether this struct gets the code."""
        if not top or self.api_key not in ABOUT_SESSIONS:
            return True
        return _session(self.fault.code) or self.alone

    def struct(
        self, layout: Layout, question: Layout | None, asked: Mapping[str, Any], at: Sequence[At], *, top: bool = False
    ) -> dict[str, Any]:
        """The values of a struct of the answer to `asked`, whose layout in the request is `question`.

        `at` are the conditions that outer structs have not fulfilled; the struct gets the error code only if there are
        none.
        """
        values: dict[str, Any] = {}
        bound = not at
        stop = False
        for slot in layout.every():
            if is_error_code(slot):
                if bound and self._here(top=top):
                    values[slot.name] = self.fault.code
                    self.placed += 1
                    stop = top and self.api_key in ABOUT_SESSIONS
            elif slot.layout is None:
                plain = _plain(slot, question, asked, top=top)
                if plain is not _NOTHING:
                    values[slot.name] = plain
        for slot in layout.every():
            if slot.layout is None or (slot.tag is not None and not _carries(slot.layout)):
                continue
            if slot.shape is Shape.ARRAY and not stop:
                values[slot.name] = self._elements(slot, question, asked, at)
            elif slot.shape is Shape.STRUCT and slot.tag is None and _carries(slot.layout):
                values[slot.name] = self.struct(slot.layout, question, asked, at)
        return values

    def _elements(
        self, slot: Slot, question: Layout | None, asked: Mapping[str, Any], at: Sequence[At]
    ) -> list[dict[str, Any]]:
        inner = slot.struct
        if not _carries(inner):
            same = next((one for one in question.every() if one.name == slot.name), None) if question else None
            if same is None or same.layout is None or not asked.get(slot.name):
                return []
            return [_shared(inner, one) for one in asked[slot.name]]
        source = None if question is None else _counterpart(slot, question)
        if source is None or not (mirrored := source.elements(asked)):
            if self.alone and not self.placed:
                return [self.struct(inner, None, {}, at)]
            return []
        found = []
        for given in mirrored:
            named = _identity(inner, source.slot, given)
            remaining = left_open(at, inner, named, self.fault.name_of)
            if remaining is None:
                continue
            before = self.placed
            made = self.struct(inner, source.slot.layout, given, remaining)
            made.update({name: value for name, value in named.items() if name in made or value is not None})
            if self.placed > before:
                found.append(made)
        return found

    def stamp(
        self, layout: Layout, values: Mapping[str, Any], at: Sequence[At], *, top: bool = False
    ) -> dict[str, Any]:
        """A struct of a broker's answer, with the code in the elements that the conditions select."""
        new = dict(values)
        own = [slot for slot in layout.every() if is_error_code(slot)]
        if not at and own and not top:
            made = self.struct(layout, layout, values, ())
            return made | {name: value for name, value in values.items() if name.startswith("_")}
        for slot in own:
            if not at and self._here(top=top):
                new[slot.name] = self.fault.code
                self.placed += 1
        for slot in layout.every():
            if slot.layout is None or not values.get(slot.name) or not _carries(slot.layout):
                continue
            if slot.shape is Shape.STRUCT:
                new[slot.name] = self.stamp(slot.layout, values[slot.name], at)
                continue
            elements = []
            for one in values[slot.name]:
                remaining = left_open(at, slot.layout, one, self.fault.name_of)
                elements.append(one if remaining is None else self.stamp(slot.layout, one, remaining))
            new[slot.name] = elements
        return new


_NOTHING: Final = object()


def _plain(slot: Slot, question: Layout | None, asked: Mapping[str, Any], *, top: bool) -> Any:
    """The value of a field that is no struct; _NOTHING for the definition's default."""
    if slot.tag is not None:
        return _NOTHING
    if slot.type == "records":
        return b""
    if slot.nullable and slot.shape is Shape.STRING and "essage" in slot.name:
        return None  # clients then show the error's own text
    if slot.field.default is None and slot.shape is Shape.FIXED and _UNKNOWN.search(slot.name):
        return -1
    if question is not None and _copies(slot, top=top):
        for one in question.every():
            if one.shape is slot.shape and one.type == slot.type and canonical(one) == canonical(slot):
                value = asked.get(one.name, _NOTHING)
                if value is not None or slot.nullable:
                    return value
    return _NOTHING


def _copies(slot: Slot, *, top: bool) -> bool:
    """Whether a field of an answer repeats a value of the request."""
    if slot.field.default is not None and slot.shape is not Shape.STRING:
        return False
    if slot.shape is Shape.STRING:
        return "essage" not in slot.name
    return not top and (slot.type in _COPIED or slot.field.map_key or slot.field.entity is not None)


def _identity(inner: Layout, source: Slot, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an answer's element that say which element of the request it answers."""
    found: dict[str, Any] = {}
    if source.layout is None:
        fitting = [slot for slot in inner.slots if _same_scalar(slot, source)]
        own = min(fitting, key=lambda slot: canonical(slot) != canonical(source), default=None)
        return {} if own is None else {own.name: given[source.name]}
    for slot in inner.slots:
        if not _copies(slot, top=False) or is_error_code(slot):
            continue
        for one in source.layout.every():
            if one.type == slot.type and one.shape is slot.shape and canonical(one) == canonical(slot):
                found[slot.name] = given.get(one.name, default(one))
    if not any(isinstance(value, str | int | bytes) for value in found.values()):
        pair = _only_pair(inner, source.layout)
        if pair is not None:
            found[pair[0].name] = given.get(pair[1].name)
    return {name: value for name, value in found.items() if value is not None or _nullable(inner, name)}


def _nullable(layout: Layout, name: str) -> bool:
    return any(slot.name == name and slot.nullable for slot in layout.every())


def _only_pair(inner: Layout, source: Layout) -> tuple[Slot, Slot] | None:
    """The first string field of each struct, which correspond although their names differ.

    None if a struct has no string field, or their entity types differ.
    """
    own, theirs = _first_text(inner), _first_text(source)
    if own is None or theirs is None or own.field.entity != theirs.field.entity:
        return None
    return own, theirs


def _first_text(layout: Layout) -> Slot | None:
    return next((slot for slot in layout.slots if slot.shape is Shape.STRING and "essage" not in slot.name), None)


def _same_scalar(slot: Slot, source: Slot) -> bool:
    """Whether a field of an answer's element can repeat a value of `source`, an array of scalars in the request."""
    if slot.shape not in {Shape.FIXED, Shape.STRING} or slot.type != source.type or is_error_code(slot):
        return False
    if "essage" in slot.name:
        return False
    return slot.type in {"string", "uuid"} or canonical(slot) == canonical(source)


class _Source(NamedTuple):
    """An array of a request, and the array around it if there is one."""

    slot: Slot
    around: Slot | None = None

    def elements(self, asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The array's elements; a plain value is a struct with one field of the array's name."""
        structs = [asked] if self.around is None else asked.get(self.around.name) or ()
        found = [one for struct in structs for one in struct.get(self.slot.name) or ()]
        return found if self.slot.layout is not None else [{self.slot.name: one} for one in found]


def _counterpart(slot: Slot, question: Layout) -> _Source | None:
    """The array of a request whose elements an array of its answer mirrors; None if there is none.

    Results that have only an error code and a message, such as those of CreateAcls, mirror the request's only array in
    its order. The array may lie one level deeper in the request: AlterReplicaLogDirs lists directories with their
    topics, its answer lists topics.
    """
    arrays = [one for one in question.every() if one.shape is Shape.ARRAY]
    found = max(arrays, key=lambda one: _likeness(slot, one), default=None)
    if found is not None and _likeness(slot, found):
        return _Source(found)
    if len(arrays) != 1 or found is None or found.layout is None:
        return None
    if all(is_error_code(one) or one.shape is Shape.ARRAY or "essage" in one.name for one in slot.struct.every()):
        return _Source(found)
    deeper = _counterpart(slot, found.layout)
    return None if deeper is None else _Source(deeper.slot, found)


def _likeness(slot: Slot, source: Slot) -> int:
    inner = slot.struct
    if source.layout is None:
        fitting = [one for one in inner.slots if _same_scalar(one, source)]
        if not fitting:
            return 0
        return 4 if any(canonical(one) == canonical(source) for one in fitting) else 2
    shared = sum(
        one.type == other.type and one.shape is other.shape and canonical(one) == canonical(other)
        for one in inner.slots
        if _copies(one, top=False) and not is_error_code(one)
        for other in source.layout.every()
    )
    nested = sum(
        _likeness(one, other) > 0
        for one in inner.slots
        if one.shape is Shape.ARRAY and one.layout is not None and _carries(one.layout)
        for other in source.layout.every()
        if other.shape is Shape.ARRAY
    )
    alone = 1 if not shared and _only_pair(inner, source.layout) is not None else 0
    return 3 * shared + 2 * nested + alone + (slot.name == source.name)


def _shared(inner: Layout, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a struct of the answer shares with one of the request."""
    return {slot.name: given[slot.name] for slot in inner.slots if slot.layout is None and slot.name in given}


def merged(layout: Layout, into: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A broker's answer with the elements of `other` added; these replace elements about the same thing."""
    new = dict(into)
    for slot in layout.every():
        if slot.shape is not Shape.ARRAY or slot.layout is None or not other.get(slot.name):
            continue
        if not _carries(slot.layout):
            continue
        elements = list(into.get(slot.name) or ())
        for one in other[slot.name]:
            place = next((i for i, there in enumerate(elements) if _same(slot.layout, there, one)), None)
            if place is None:
                elements.append(one)
            elif any(is_error_code(inner) and one.get(inner.name) for inner in slot.layout.slots):
                elements[place] = one
            else:
                elements[place] = merged(slot.layout, elements[place], one)
        new[slot.name] = elements
    return new


def _same(layout: Layout, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two elements of answers are about the same thing."""
    named = (slot.name for slot in layout.slots if slot.layout is None and not is_error_code(slot) and _names(slot))
    return all(first.get(name) == second.get(name) for name in named)


def _names(slot: Slot) -> bool:
    """Whether a field identifies an element."""
    return slot.field.map_key or slot.field.entity is not None or canonical(slot) == "partition" or slot.type == "uuid"
