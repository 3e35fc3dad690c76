"""Shows the nodes of a decoded message as text: a tree with offsets, and a hex dump grouped by field."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from kproxy.decoders.escaping import escape
from kproxy.decoders.jsonform import uuid_json
from kproxy.decoders.meanings.table import node_meaning
from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code
from kproxy.decoders.records.field_nodes import BITS
from kproxy.decoders.schema import errors
from kproxy.decoders.schema.layout import UNKNOWN_TAGS
from kproxy.decoders.tree import Node

if TYPE_CHECKING:
    from kproxy.decoders.byhand import Opened

READ_ON: Final = frozenset({Code.BAD_UTF8, Code.UNKNOWN_API, Code.UNKNOWN_VERSION, Code.TRAILING_BYTES})
"""Codes of problems after which decoding went on."""
UNREAD: Final = frozenset({"unread", "trailing"})
"""Names of nodes whose bytes are outside of all fields."""
TAGS_TITLE: Final = "(other tagged fields)"
OTHER_BYTES: Final = "'"
"""Suffix of offsets that count in other bytes than the frame's, such as decompressed bytes."""
_PREVIEW: Final = 24
_NAME: Final = 34
_TYPE: Final = 22
_HEX: Final = 8
_WIDE: Final = 120
"""Minimum width of a terminal in which bytes are shown beside the fields."""


@dataclass(frozen=True, slots=True)
class Style:
    """How the text is written.

    `shift` is added to offsets; `skip` names parts of the frame that are not shown, such as a length field that the
    input lacks. With `cut`, lines are cut to `width` characters. Nodes more than `depth` levels down are not shown.
    `api` is (API key, version), for the meaning of error codes; `version` is that of the API or message, for the
    meaning of values. `may_hold_secrets` withholds bytes outside of all fields.
    """

    show_secrets: bool = False
    may_hold_secrets: bool = False
    ascii_only: bool = False
    width: int = 80
    cut: bool = False
    depth: int | None = None
    shift: int = 0
    skip: frozenset[str] = frozenset()
    api: tuple[int, int] | None = None
    version: int | None = None

    @classmethod
    def of(cls, opened: Opened, *, show_secrets: bool, width: int, **more: Any) -> Self:
        """The style for bytes that were given by hand; `more` are further attributes."""
        return cls(
            show_secrets=show_secrets,
            may_hold_secrets=opened.may_hold_secrets,
            width=width,
            shift=opened.shift,
            skip=frozenset({"size"}) if opened.shift else frozenset(),
            api=None if opened.api_key is None or opened.version is None else (opened.api_key, opened.version),
            version=opened.version,
            **more,
        )

    @property
    def cross(self) -> str:
        return "x" if self.ascii_only else "✖"

    def withholds(self, node: Node) -> bool:
        return not self.show_secrets and (node.secret or (self.may_hold_secrets and node.name in UNREAD))

    def text(self, text: str) -> str:
        return escape(text, ascii_only=self.ascii_only)

    def value(self, node: Node) -> str:
        """The value of a node as text; "" for a struct."""
        label = "" if node.label is None else f"  ({self.text(node.label)})"
        return self._value(node) + label

    def explained(self, node: Node) -> str:
        """The value of a node as text, and what it means."""
        meaning = None if self.version is None or self.withholds(node) else node_meaning(node, self.version)
        return self.value(node) + (f"  {self.text(meaning)}" if meaning else "")

    def _value(self, node: Node) -> str:
        value = node.value
        if node.null:
            return "null"
        if self.withholds(node):
            return f"withheld ({counted(node.end - node.start, 'byte')}; --show-secrets)"
        if node.name == UNKNOWN_TAGS:
            return "" if node.children else "none"
        if value is None:
            return ""
        if node.type.startswith("[]"):
            return f"[{value}]"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int) and node.type == "int16" and node.name.endswith("rrorCode"):
            return f"{value} {errors.name_in(*self.api, value) if self.api else errors.name(value)}"
        if isinstance(value, int | float):
            return str(value)
        if isinstance(value, str):
            return f'"{self.text(value.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34)))}"'
        if node.type == "uuid":
            return uuid_json(value)
        return self._bytes(value, preview=not node.children)

    def _bytes(self, value: Any, *, preview: bool) -> str:
        if not preview:
            return counted(len(value), "byte")
        head = bytes(value[:_PREVIEW]).hex(" ")
        more = " …" if len(value) > _PREVIEW else ""
        return f"{counted(len(value), 'byte')}{': ' if head else ''}{head}{self.text(more)}"

    def problem(self, node: Node) -> str | None:
        """The problem of a node in one line; None if it has none."""
        if node.problem is None:
            return None
        problem = node.problem
        stopped = "" if problem.code in READ_ON else f"stopped at byte {problem.offset + self.shift}: "
        return f"{self.cross} {stopped}{self.text(problem.message)}"


def title(node: Node) -> str:
    return TAGS_TITLE if node.name == UNKNOWN_TAGS else node.name


def mentions(root: Node, message: str) -> bool:
    """Whether a node of the tree has a problem with this message."""
    return any(node.problem is not None and node.problem.message == message for node in root.walk())


# --- the tree --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Row:
    depth: int
    span: str
    data: bytes
    name: str
    type: str
    value: str
    alone: str = ""
    """If not empty, the text of the line after `span`, in place of all other columns."""


def tree_lines(root: Node, data: Buffer, style: Style) -> list[str]:
    """The lines of the tree, one for each node: its bytes [first-last], in a wide terminal their hex, name, type,
    value.
    """
    rows = list(_rows(root, data, style))
    spans = max((len(row.span) for row in rows), default=0)
    names = min(max((2 * row.depth + len(row.name) for row in rows), default=0), _NAME)
    types = min(max((len(row.type) for row in rows), default=0), _TYPE)
    hexes = 3 * _HEX if style.width >= _WIDE else 0
    lines = []
    for row in rows:
        name = "  " * row.depth + row.name
        if row.alone:
            line = f"{row.span:>{spans}}  {' ' * hexes}{'  ' * row.depth}{row.alone}"
        else:
            octets = _octets(row.data, style) if hexes else ""
            line = f"{row.span:>{spans}}  {octets:{hexes}}{name:{names}}  {row.type:{types}}  {row.value}"
        line = line.rstrip()
        if style.cut and len(line) > style.width and not row.alone:
            line = line[: style.width - 1] + (">" if style.ascii_only else "…")
        lines.append(line)
    return lines


def _octets(data: bytes, style: Style) -> str:
    text = data[:_HEX].hex(" ")
    if len(data) > _HEX:
        return data[: _HEX - 1].hex(" ") + (" .. " if style.ascii_only else " …")
    return text


def _rows(root: Node, data: Buffer, style: Style) -> Iterator[_Row]:
    problem = style.problem(root)
    if problem:
        yield _Row(0, "", b"", "", "", "", problem)
    for child in root.children:
        if child.name not in style.skip:
            yield from _node_rows(child, data, style, 0, "", style.shift)


def _node_rows(node: Node, data: Buffer, style: Style, depth: int, mark: str, shift: int) -> Iterator[_Row]:
    if node.buffer is not None:
        data, mark, shift = node.buffer, OTHER_BYTES, 0
    start, end = node.start + shift, node.end + shift
    size = end - start
    span = "" if size <= 0 else f"{start}{mark}" if size == 1 else f"{start}-{end - 1}{mark}"
    withheld = style.withholds(node)
    children = [] if withheld else node.children
    octets = b"" if withheld or children else bytes(data[node.start : min(node.end, node.start + _HEX + 1)])
    yield _Row(depth, span, octets, style.text(title(node)), _kind(node), style.explained(node))
    problem = style.problem(node)
    if problem:
        yield _Row(depth + 1, "", b"", "", "", "", problem)
    if children and style.depth is not None and depth >= style.depth:
        yield _Row(depth + 1, "", b"", "", "", "", f"... {len(children)} inside (--depth)")
        return
    for child in children:
        yield from _node_rows(child, data, style, depth + 1, mark, shift)
    if node.more:
        yield _Row(depth + 1, "", b"", "", "", "", "... too many fields to show; the rest is not decoded")


def _kind(node: Node) -> str:
    """The type of a field; "struct" for any struct, because a struct's name is not in the bytes."""
    if node.field is None:
        return "" if node.value is None or node.name in UNREAD or node.name == UNKNOWN_TAGS else node.type
    if node.field.struct is None:
        return node.type
    return "[]struct" if node.type.startswith("[]") else "struct"


# --- the dump --------------------------------------------------------------------------------------------------------


def hex_lines(root: Node, data: Buffer, style: Style) -> Iterator[str]:
    """The lines of a dump with every byte once, in order: offset, bytes of a field, the field's path and value.

    `kproxy decode` can read this output unless something is withheld: path and value follow a "|", and lines without
    bytes of `data` begin with "#".
    """
    problem = style.problem(root)
    if problem:
        yield f"# {problem}"
    first = next((node.end for node in root.children if node.name in style.skip), 0)
    yield from _dump(root.children, data, first, len(data), style, style.shift, "")


def _dump(
    nodes: list[Node], data: Buffer, first: int, end: int, style: Style, shift: int, prefix: str
) -> Iterator[str]:
    owners: list[Node] = []
    owner = array("l", [-1]) * max(0, end - first)
    for top in nodes:
        _paint(top, owner, owners, first, style)
    captioned: set[int] = set()
    position = first
    while position < end:
        index = owner[position - first]
        after = position + 1
        while after < end and owner[after - first] == index:
            after += 1
        node = owners[index] if index >= 0 else None
        withheld = node is not None and style.withholds(node)
        again = index in captioned
        captioned.add(index)
        text = "unread" if node is None else _caption(node, style, again=again)
        yield from _hex(data, position, after, shift, text, style, prefix, withheld=withheld)
        if node is not None and not again:
            yield from _below(node, style)
        position = after
    for index, empty in enumerate(owners):
        if index not in captioned:
            # A field without a byte of its own: a struct whose fields cover it, or a field behind the end of the bytes.
            yield from _below(empty, style)


def _paint(node: Node, owner: array[int], owners: list[Node], first: int, style: Style) -> None:
    """Append a node and those below it to `owners`, and store in `owner` the index of each byte's innermost node."""
    start, end = max(node.start - first, 0), min(node.end - first, len(owner))
    index = len(owners)
    owners.append(node)
    if end > start:
        owner[start:end] = array("l", [index]) * (end - start)
    if style.withholds(node):
        return
    for child in node.children:
        if child.buffer is None and child.type != BITS:
            _paint(child, owner, owners, first, style)


def _caption(node: Node, style: Style, *, again: bool) -> str:
    name = style.text((node.path or title(node)).replace(UNKNOWN_TAGS, TAGS_TITLE))
    if again:
        return f"{name} (tag and size)" if not node.type.startswith("[]") else name
    value = style.value(node)
    return f"{name}: {value}" if value else name


def _hex(
    data: Buffer, start: int, end: int, shift: int, text: str, style: Style, prefix: str, *, withheld: bool
) -> Iterator[str]:
    a_line = 16 if style.width >= _WIDE else 8
    for at in range(start, end, a_line):
        size = min(a_line, end - at)
        octets = " ".join(["--"] * size) if withheld else bytes(data[at : at + size]).hex(" ")
        yield f"{prefix}{at + shift:08x}  {octets:{3 * a_line - 1}}  | {text if at == start else ''}".rstrip()


def _below(node: Node, style: Style) -> Iterator[str]:
    """The lines below the bytes of a node: its problem, and nodes with other bytes, such as decompressed ones."""
    problem = style.problem(node)
    if problem:
        yield f"# {problem}"
    if style.withholds(node):
        return
    for child in node.children:
        if child.buffer is not None:
            yield f"# {style.text(child.path or child.name)}: {style.value(child)}".rstrip(": ")
            yield from _dump([child], child.buffer, child.start, child.end, style, 0, "#   ")
