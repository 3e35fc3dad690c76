"""The slow reference decoder: decodes a message to a tree of nodes, in which every field has its bytes.

Tests compare the compiled functions with this decoder. It locates the bytes that made a compiled function fail, and
serves views that show a field beside its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from kproxy.decoders import secrets
from kproxy.decoders.errorcodes import is_error_code
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import Buffer, read_unsigned_varint, text, text_as_java
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.schema.layout import FIXED, UNKNOWN_TAGS, Layout, Shape, Slot
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Field, Message


class Node:
    """A field, an element of an array, or a struct, with its bytes [start, end), length field included.

    `value` is a leaf's value (uuid: 16 bytes; bytes and records: memoryview), an array's number of elements, or None
    for a struct and for null (`null` tells these apart). `type` is as the definition writes it ("[]int32", "string", a
    struct's name). `problem` is what stopped decoding here, or what is wrong with the field; its `where` is empty.
    Values of `secret` fields must be withheld from text. `more` means that decoding stopped here at the limit of nodes.

    `label` says in a word or two what a value stands for (the topic name of a topic id, the structure inside bytes).
    `buffer` holds the bytes in which offsets of this node and its descendants count, if they differ from the parent's:
    decompressed bytes. `elsewhere` marks a node whose children have such a buffer. Nodes inside bytes fields are made
    when `children` is first read.
    """

    __slots__ = (
        "_children",
        "_make",
        "buffer",
        "elsewhere",
        "end",
        "field",
        "label",
        "more",
        "name",
        "null",
        "parent",
        "problem",
        "secret",
        "start",
        "type",
        "value",
    )

    def __init__(
        self, name: str, type_: str, start: int, parent: Node | None = None, field: Field | None = None
    ) -> None:
        self.name = name
        self.type = type_
        self.value: Any = None
        self.start = start
        self.end = start
        self.parent = parent
        self.field = field
        self.null = False
        self.more = False
        self.secret = False
        self.problem: Problem | None = None
        self.label: str | None = None
        self.buffer: Buffer | None = None
        self.elsewhere = False
        self._children: list[Node] | None = None
        self._make: Callable[[Node], Iterable[Node]] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.path or self.name} {self.type} [{self.start}, {self.end})>"

    @property
    def children(self) -> list[Node]:
        """The child nodes; those that `later` has deferred are made on first access."""
        if self._children is None:
            make, self._make = self._make, None
            self._children = [] if make is None else list(make(self))
        return self._children

    def later(self, make: Callable[[Node], Iterable[Node]]) -> None:
        """Let `make` create the children when `children` is first read."""
        self._make = make
        self._children = None

    @property
    def unopened(self) -> bool:
        """Whether the children are deferred and not made yet."""
        return self._children is None and self._make is not None

    @property
    def closed(self) -> bool:
        """Whether the nodes inside a bytes field are not made yet; False for an array of numbers."""
        return self.unopened and self.type[2:] not in FIXED

    @property
    def path(self) -> str:
        """The path from the message to this node: "responses[0].partitions[2].records"; "" for the message itself."""
        if self.parent is None:
            return ""
        above = self.parent.path
        if self.name.startswith("[") or not above:
            return above + self.name
        return f"{above}.{self.name}"

    def walk(self) -> Iterator[Node]:
        """The node and its descendants, in wire order; nodes inside bytes fields only if they are made already."""
        yield self
        if self.closed:
            return
        for child in self.children:
            yield from child.walk()

    def at(self, offset: int) -> Node:
        """The smallest node whose bytes hold `offset`; this node if no descendant does."""
        return self if self.elsewhere else self.inside(offset)

    def inside(self, offset: int) -> Node:
        """The smallest descendant whose bytes hold `offset`, an offset in the buffer of the children.

        This node if none does.
        """
        for child in self.children:
            if child.start <= offset < child.end:
                return child.at(offset)
        return self


def _numbers(buffer: Buffer, start: int, count: int, array: Node) -> Iterator[Node]:
    """The nodes for the elements of an array of numbers."""
    code, size = FIXED[array.type[2:]]
    for index in range(count):
        node = Node(f"[{index}]", array.type[2:], start, array, array.field)
        (node.value,) = struct.unpack_from(">" + code, buffer, start)
        start = node.end = start + size
        yield node


class _Stop(Exception):  # noqa: N818
    """Ends the walk; the node at fault holds the problem."""


class _Walk:
    """The state of one walk over a message.

    Without `keep`, finished nodes are dropped, so that only the path to the current one stays in memory. The walk ends
    after `limit` nodes; `ended` is then the last node.
    """

    def __init__(
        self, message: Message, buffer: Buffer, position: int, end: int, *, keep: bool, limit: int | None
    ) -> None:
        self.message = message
        self.buffer = buffer
        self.view = memoryview(buffer)
        self.position = position
        self.end = end
        self.keep = keep
        self.left = -1 if limit is None else limit
        self.ended: Node | None = None
        self.problems: list[Problem] = []
        self.error: Problem | None = None
        self.error_codes: dict[int, None] = {}
        """The non-zero error codes read so far, in order of appearance."""

    def note(self, node: Node, code: Code, text_: str, offset: int) -> Problem:
        problem = Problem("", offset, node.path, text_, code)
        node.problem = problem
        return problem

    def stop(self, node: Node, code: Code, text_: str, offset: int) -> _Stop:
        self.error = self.note(node, code, text_, offset)
        return _Stop()

    def take(self, node: Node, size: int, what: str) -> int:
        """Step over `size` bytes; returns their offset. `what` names them in the problem if fewer remain."""
        start = self.position
        if size > self.end - start:
            left = max(self.end - start, 0)
            raise self.stop(
                node, Code.TRUNCATED, f"{what} takes {counted(size, 'byte')}, {left} {are(left)} left", start
            )
        self.position = start + size
        return start

    def number(self, node: Node, code: str, what: str) -> Any:
        size = struct.calcsize(">" + code)
        return struct.unpack_from(">" + code, self.buffer, self.take(node, size, what))[0]

    def varint(self, node: Node, what: str) -> int:
        start = self.position
        try:
            value, position = read_unsigned_varint(self.view[: self.end], start)
        except DecodeError as error:
            raise self.stop(node, error.code, f"{what}: {error.message}", start) from None
        except IndexError:
            raise self.stop(node, Code.TRUNCATED, f"{what} is cut", start) from None
        self.position = position
        return value

    def open(self, name: str, type_: str, parent: Node, field: Field | None = None) -> Node:
        if self.left == 0:
            parent.more = True
            self.ended = parent
            raise _Stop
        self.left -= 1
        node = Node(name, type_, self.position, parent, field)
        children = parent.children
        if not self.keep:
            children.clear()
        children.append(node)
        return node

    def length(self, node: Node, slot: Slot, code: str) -> int | None:
        """Read a length or count; None if the field is null."""
        what = "the count" if slot.shape is Shape.ARRAY else "the length"
        start = self.position
        value: int = self.varint(node, what) - 1 if slot.compact else self.number(node, code, what)
        if value >= 0:
            return value
        if value < -1:
            raise self.stop(node, Code.BAD_LENGTH, f"{what} is {value}", start)
        if not slot.nullable:
            raise self.stop(node, Code.BAD_LENGTH, "null, where the definition allows no null", start)
        node.null = True
        return None

    def slot(self, slot: Slot, parent: Node, name: str | None = None) -> Node:
        node = self.open(name if name is not None else slot.name, slot.type_name, parent, slot.field)
        try:
            self.fill(node, slot)
        finally:
            # The node ends where reading stopped, also after an error.
            node.end = self.position
        return node

    def fill(self, node: Node, slot: Slot) -> None:
        if slot.shape is Shape.FIXED:
            node.value = self.number(node, slot.format, slot.type)
            if node.value and is_error_code(slot):
                self.error_codes[node.value] = None
        elif slot.shape is Shape.STRING:
            length = self.length(node, slot, "h")
            if length is not None:
                start = self.take(node, length, "the text")
                node.value = self.text(node, start, start + length)
        elif slot.shape is Shape.BYTES:
            length = self.length(node, slot, "i")
            if length is not None:
                start = self.take(node, length, "the value")
                node.value = self.view[start : start + length]
        elif slot.shape is Shape.ARRAY:
            self.array(node, slot)
        else:
            if slot.nullable and self.null_marker(node, slot):
                node.null = True
                return
            self.fields(slot.struct, node)

    def null_marker(self, node: Node, slot: Slot) -> bool:
        """Whether a nullable struct is null.

        The marker before the struct is an int8, which is negative for null. For a tagged struct it is a varint; every
        value that is not a positive int32 means null.
        """
        what = "the null marker"
        if slot.tag is None:
            marker: int = self.number(node, "b", what)
            return marker < 0
        return not 0 < self.varint(node, what) <= 0x7FFFFFFF

    def text(self, node: Node, start: int, end: int) -> str:
        try:
            return text(self.view[start:end])
        except UnicodeDecodeError as error:
            self.problems.append(self.note(node, Code.BAD_UTF8, f"not UTF-8: {error.reason}", start + error.start))
            return text_as_java(self.view[start:end])

    def array(self, node: Node, slot: Slot) -> None:
        start = self.position
        count = self.length(node, slot, slot.count)
        node.value = count
        if count is None:
            return
        element = slot.one
        left = self.end - self.position
        size = max(element.minimum, 1)
        if count * size > left:
            node.value = None
            needed = f"{counted(count, 'element')} of at least {counted(size, 'byte')}"
            message = f"{needed}, {counted(left, 'byte')} {are(left)} left"
            raise self.stop(node, Code.TRUNCATED, message, start)
        if element.shape is Shape.FIXED:
            node.later(partial(_numbers, self.buffer, self.position, count))
            self.position += count * element.minimum
            return
        for index in range(count):
            self.slot(element, node, f"[{index}]")

    def fields(self, layout: Layout, node: Node) -> None:
        try:
            for slot in layout.slots:
                self.slot(slot, node)
            if layout.flexible:
                self.tags(layout, node)
        finally:
            if self.keep:
                _mark_secrets(self.message, node)

    def tags(self, layout: Layout, node: Node) -> None:
        tags = self.open(UNKNOWN_TAGS, "tags", node)
        seen: set[int] = set()
        try:
            start = self.position
            count = self.varint(tags, "the number of tagged fields")
            if count * 2 > self.end - self.position:
                left = self.end - self.position
                message = f"{counted(count, 'tagged field')}, {counted(left, 'byte')} {are(left)} left"
                raise self.stop(tags, Code.TRUNCATED, message, start)
            tags.end = self.position
            for _ in range(count):
                start = self.position
                tag = self.varint(tags, "a tag")
                size = self.varint(tags, "a tagged field's size")
                slot = layout.tagged.get(tag)
                if slot is None:
                    unknown = self.open(f"[{tag}]", "bytes", tags)
                    unknown.start = start
                    begin = self.take(unknown, size, "the tagged field")
                    unknown.value = self.view[begin : self.position]
                    unknown.end = self.position
                    continue
                if tag in seen:
                    raise self.stop(tags, Code.BAD_LENGTH, f"tag {tag} ({slot.name}) appears twice", start)
                seen.add(tag)
                self.tagged(slot, node, start, size)
        finally:
            tags.end = max(tags.end, tags.children[-1].end if tags.children else tags.end)

    def tagged(self, slot: Slot, node: Node, start: int, size: int) -> None:
        begin, outer = self.position, self.end
        field = Node(slot.name, slot.type_name, start, node, slot.field)
        if size > outer - begin:
            node.children.append(field)
            left = outer - begin
            text = f"the tagged field takes {counted(size, 'byte')}, {left} {are(left)} left"
            raise self.stop(field, Code.TRUNCATED, text, begin)
        if not self.keep:
            node.children.clear()
        node.children.append(field)
        # Kafka's reader ignores the size of a known tag. Here it limits the value: later bytes belong to other fields.
        self.end = begin + size
        try:
            self.fill(field, slot)
            if self.position != self.end:
                used = self.position - begin
                raise self.stop(
                    field, Code.BAD_LENGTH, f"the tagged field is {counted(size, 'byte')} long, its value {used}", begin
                )
        finally:
            self.end = outer
            field.end = self.position


def _run(message: Message, version: int, walk: _Walk) -> Node:
    root = Node(message.name, message.name, walk.position)
    with suppress(_Stop):
        walk.fields(layout_of(message, version), root)
    root.end = walk.position
    return root


def tree(message: Message, version: int, buffer: Buffer, position: int, end: int, *, limit: int | None = None) -> Node:
    """Decode `buffer[position:end]` to a tree; after an error, the nodes so far, with the problem in the node at fault.

    After `limit` nodes (numbers in an array count as one) decoding stops, and the last node has `more`.
    """
    return _run(message, version, _Walk(message, buffer, position, end, keep=True, limit=limit))


class TooLong(Exception):  # noqa: N818
    """The slow walk reached its limit of nodes; `error_codes` are the Kafka error codes read so far."""

    def __init__(self, error_codes: tuple[int, ...]) -> None:
        super().__init__()
        self.error_codes = error_codes


def first_error(
    message: Message,
    version: int,
    buffer: Buffer,
    position: int,
    end: int,
    problems: list[Problem],
    *,
    limit: int | None = None,
) -> DecodeError | None:
    """The error that stops decoding of `buffer[position:end]`; None if there is none.

    Problems of text that is not UTF-8 are appended to `problems`. Raises TooLong after `limit` nodes without an error.
    """
    walk = _Walk(message, buffer, position, end, keep=False, limit=limit)
    _run(message, version, walk)
    problems.extend(walk.problems)
    found = tuple(walk.error_codes)
    if walk.ended is not None:
        raise TooLong(found)
    if walk.error is None:
        return None
    return DecodeError(walk.error.code, walk.error.message, walk.error.offset, walk.error.path, found)


def values(node: Node, layout: Layout) -> dict[str, Any]:
    """The values of a struct's node, in the form of the compiled functions. The tree must be complete."""
    by_name = {child.name: child for child in node.children}
    result: dict[str, Any] = {}
    for slot in layout.every():
        child = by_name.get(slot.name)
        if child is not None:
            result[slot.name] = _value(child, slot)
    unknown = by_name.get(UNKNOWN_TAGS)
    if unknown is not None and unknown.children:
        result[UNKNOWN_TAGS] = [(int(child.name[1:-1]), child.value) for child in unknown.children]
    return result


def _value(node: Node, slot: Slot) -> Any:
    if node.null:
        return None
    if slot.shape is Shape.ARRAY:
        return [_value(child, slot.one) for child in node.children]
    if slot.shape is Shape.STRUCT:
        return values(node, slot.struct)
    return node.value


def _mark_secrets(message: Message, node: Node) -> None:
    """Set `secret` on the children of a struct's node, even if decoding stopped before the flag that decides it."""
    name = message.name
    always, flagged, named = secrets.ALWAYS.get(name), secrets.BY_FLAG.get(name), secrets.BY_NAME.get(name)
    if always is None and flagged is None and named is None:
        return
    for child in node.children:
        if always is not None and child.name in always:
            child.secret = True
        elif flagged is not None and child.name in flagged:
            child.secret = _flag(node) is not False
        elif named is not None and child.name in named:
            child.secret = secrets.is_secret_config(_beside(node, secrets.NAME))


def _flag(node: Node) -> Any:
    """The `isSensitive` of a struct or the enclosing one: a config's synonyms are as secret as the config."""
    above: Node | None = node
    while above is not None:
        for child in above.children:
            if child.name == secrets.FLAG:
                return child.value
        above = above.parent
    return None


def _beside(node: Node, name: str) -> Any:
    return next((child.value for child in node.children if child.name == name), None)
