"""The fields of a frame as a tree kept as a flat list: folding rebuilds the list, painting touches only what shows."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message

from kproxy.captures.text import size_text
from kproxy.decoders.errorcodes import SUFFIX
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import errors
from kproxy.decoders.schema.layout import UNKNOWN_TAGS
from kproxy.tui.actions import registry as actions
from kproxy.tui.detail.opened import UNREAD
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from kproxy.decoders.tree import Node
    from kproxy.tui.detail.opened import Opened

ERROR_CODE: Final = "errorCode"
FIRST_SHOWN = 50
"""How many elements of an array are shown before "… n more"."""
OPENED_AT_FIRST = 120
"""Maximum number of lines up to which structs are unfolded when a frame is opened."""
MOST_INDENTED = 20
LEAST_ROOM = 20
"""Minimum number of cells for a problem's text, however narrow the pane."""
PREVIEW = 24
"""How many bytes of a bytes field are shown."""


TAGS_TITLE = "(other tagged fields)"
READ_ON = frozenset({Code.BAD_UTF8, Code.UNKNOWN_API, Code.UNKNOWN_VERSION, Code.TRAILING_BYTES, Code.CRC_MISMATCH})
"""Problems after which decoding went on."""


@dataclass(slots=True)
class Item:
    """A line of the tree: a node, or a text about a range of bytes, elements left out (`more_of`) or a problem.

    `near` is a node whose offsets refer to the same buffer as the line's.
    """

    depth: int
    node: Node | None = None
    span: tuple[int, int] | None = None
    text: str = ""
    style: Style = look.PLAIN
    more_of: Node | None = None
    near: Node | None = None


class FieldTree(Lines):
    """The nodes of a decoded frame; `selected` is the range of bytes [start, end) of the line under the cursor."""

    CONTEXT = "tree"
    BINDINGS = actions.bindings("tree")

    class Selected(Message):
        """The cursor is on another field."""

    class BytesWanted(Message):
        """Asks to focus the bytes of the field."""

    def __init__(self, cells: Cells, *, show_secrets: bool = False, **options: Any) -> None:
        super().__init__(cells, **options)
        self._show_secrets = show_secrets
        self._opened: Opened | None = None
        self._items: list[Item] = []
        self._unfolded: set[int] = set()
        self._shown: dict[int, int] = {}
        self._api: tuple[int, int] | None = None
        self.message = ""
        """Shown if there are no fields."""

    @property
    def count(self) -> int:
        return len(self._items)

    @property
    def item(self) -> Item | None:
        return self._items[self.cursor] if self.cursor < len(self._items) else None

    @property
    def node(self) -> Node | None:
        return self.item.node if self.item else None

    @property
    def near(self) -> Node | None:
        """A node whose offsets refer to the same buffer as those of the line under the cursor."""
        return (self.item.node or self.item.near) if self.item else None

    @property
    def selected(self) -> tuple[int, int] | None:
        item = self.item
        if item is None:
            return None
        return (item.node.start, item.node.end) if item.node is not None else item.span

    def show(self, opened: Opened | None, *, api: tuple[int, int] | None = None, message: str = "") -> None:
        """Show another frame; `api` is (key, version), by which error codes are named."""
        self._opened = opened
        self._api = api
        self.message = message
        self._unfolded.clear()
        self._shown.clear()
        self.cursor = self.top = 0
        if opened is not None and opened.root is not None:
            self._unfold_at_first(opened.root)
        self._rebuild()

    def reveal_field(self, name: str, value: str) -> bool:
        """Put the cursor on the first field with this name, and with this value unless it is ""; False if none has.

        The name "errorCode" stands for all fields with error codes.
        """
        root = None if self._opened is None else self._opened.root
        end = SUFFIX if name == ERROR_CODE else ""
        for node in () if root is None else root.walk():
            if (node.name == name or (end and node.name.endswith(end))) and value in {"", str(node.value)}:
                self._unfold_to(node)
                self.move_to(next(index for index, item in enumerate(self._items) if item.node is node))
                return True
        return False

    def reveal(self, byte: int, within: Node | None = None) -> None:
        """Put the cursor on the smallest field that holds a byte; unfolds its ancestors.

        `byte` is an offset in the frame, or in the buffer of the children of `within`.
        """
        if self._opened is None:
            return
        root = self._opened.root
        if within is not None:
            node: Node | None = within.inside(byte)
        else:
            node = root.at(byte) if root is not None else None
        if node is not None and node is not root:
            self._unfold_to(node)
        for index, item in enumerate(self._items):
            if item.node is not None:
                found = item.node is node and node is not root
            else:
                span = item.span if within is None and item.near is None else None
                found = span is not None and span[0] <= byte < span[1]
            if found:
                self.move_to(index, quiet=True)
                return

    # the flat list

    def _rebuild(self) -> None:
        self._items = []
        if self._opened is not None:
            if self._opened.root is not None:
                self._problem(self._opened.root, 0)
                for child in self._opened.root.children:
                    if child.name not in UNREAD:
                        self._add(child, 0)
                    else:
                        self._problem(child, 0)
            for start, end in self._opened.unparsed:
                self._items.append(Item(0, span=(start, end), text=f"unparsed {end - start} B", style=look.UNPARSED))
            for note in self._opened.notes:
                self._complain(0, note)
        if not self._items and self.message:
            self._items.append(Item(0, text=self.message, style=look.DIM))
        self.content_changed()

    def _add(self, node: Node, depth: int) -> None:
        # problems inside of bytes are known only once these are unfolded
        children = node.children if id(node) in self._unfolded else []
        self._items.append(Item(depth, node))
        self._problem(node, depth + 1)
        shown = self._shown.get(id(node), FIRST_SHOWN) if node.type.startswith("[]") else len(children)
        for child in children[:shown]:
            self._add(child, depth + 1)
        if len(children) > shown:
            more, first = f"… {len(children) - shown:,} more (enter)", children[shown]
            span = (first.start, children[-1].end)
            self._items.append(Item(depth + 1, span=span, text=more, style=look.DIM, more_of=node, near=first))
        elif children and node.more and isinstance(node.value, int):
            text = f"… {node.value - len(children):,} more: the Records tab has them"
            self._items.append(Item(depth + 1, text=text, style=look.DIM, near=node))

    def _problem(self, node: Node, depth: int) -> None:
        if node.problem is not None:
            stopped = "" if node.problem.code in READ_ON else f"stopped at byte {node.problem.offset}: "
            self._complain(depth, stopped + node.problem.message, (node.start, node.end), node)

    def _complain(self, depth: int, text: str, span: tuple[int, int] | None = None, near: Node | None = None) -> None:
        """Add a problem's text, wrapped to the present width of the pane."""
        room = max(LEAST_ROOM, self.size.width - 2 * (min(depth, MOST_INDENTED) + 1))
        for piece in wrap(f"{self.cells.glyph('✖')} {text}", room, subsequent_indent="  "):
            self._items.append(Item(depth, span=span, text=piece, style=look.SEVERITY["E"], near=near))

    def resized(self) -> None:
        """Wrap the texts of problems anew."""
        super().resized()
        item = self.item
        if any(one.style is look.SEVERITY["E"] for one in self._items):
            self._rebuild()
            if item is not None and item.node is not None:
                self.move_to(next(at for at, one in enumerate(self._items) if one.node is item.node), quiet=True)

    def _unfold_at_first(self, root: Node) -> None:
        """Unfold from the top up to OPENED_AT_FIRST lines, and always the path to the last problem."""
        level = list(root.children)
        lines = len(level)
        while level:
            following = []
            for node in level:
                size = 0 if node.closed else _fold_size(node)
                if size and lines + min(size, FIRST_SHOWN) <= OPENED_AT_FIRST and not _plain_array(node):
                    self._unfolded.add(id(node))
                    lines += min(size, FIRST_SHOWN)
                    following += node.children[:FIRST_SHOWN]
            level = following
        last = root
        while not last.closed and _fold_size(last):
            last = last.children[-1]
            if last.problem is not None:
                self._unfold_above(last)

    def _unfold_above(self, node: Node) -> None:
        above = node.parent
        while above is not None:
            self._unfolded.add(id(above))
            if above.type.startswith("[]"):
                self._show_element(above, node)
            node, above = above, above.parent

    def _show_element(self, array: Node, child: Node) -> None:
        """Show enough elements of an array to include one."""
        index = next((i for i, element in enumerate(array.children) if element is child), 0)
        if index >= self._shown.get(id(array), FIRST_SHOWN):
            self._shown[id(array)] = index + FIRST_SHOWN

    def _unfold_to(self, node: Node) -> None:
        before = (len(self._unfolded), dict(self._shown))
        self._unfold_above(node)
        if before != (len(self._unfolded), self._shown):
            self._rebuild()

    # painting

    def segments(self, index: int, width: int) -> list[Segment]:
        item = self._items[index]
        indent = "  " * min(item.depth, MOST_INDENTED)
        if item.node is None:
            return [Segment(self.cells.fit(indent + "  " + item.text, width), item.style)]
        node = item.node
        mark = ""
        if _fold_size(node):
            mark = self.cells.glyph("▾" if id(node) in self._unfolded else "▸") + " "
        title = TAGS_TITLE if node.name == UNKNOWN_TAGS else node.name
        name = self.cells.escape(f"{indent}{mark or '  '}{title}")
        value, style = self._value(node)
        text = f"{name}: {value}" if value else name
        said = "  ".join(filter(None, (self.cells.escape(node.label or ""), self.meaning(node))))
        fitted = self.cells.fit(f"{text}  {said}" if said else text, width)
        cut, value_end = min(len(name), len(fitted)), min(len(text), len(fitted))
        return [
            Segment(fitted[:cut], look.NAME),
            Segment(fitted[cut:value_end], style),
            Segment(fitted[value_end:], look.DIM),
        ]

    def meaning(self, node: Node) -> str:
        """The meaning of the node's value; "" if it has none, or if it would reveal a secret."""
        if self._opened is None or (node.secret and not self._show_secrets):
            return ""
        from kproxy.decoders.meanings.table import node_meaning

        return node_meaning(node, self._opened.version) or ""

    def explained(self) -> list[str]:
        """Facts about the field under the cursor: meaning of its value, remarks, purpose of the field."""
        node, opened = self.node, self._opened
        if node is None or opened is None:
            return []
        body = node
        while body.parent is not None:
            body = body.parent
        remarks = [remark.text for remark in opened.remarks if body.name == "body" and remark.path == node.path]
        from kproxy.decoders.meanings.table import node_help

        return [text for text in (self.meaning(node), *remarks, node_help(node, opened.version)) if text]

    def value_text(self, node: Node) -> str:
        """A field's value as a user would type it; "" if it has none, or is withheld."""
        value = node.value
        if node.null or value is None or node.type.startswith("[]") or (node.secret and not self._show_secrets):
            return ""
        if isinstance(value, bool | int | float | str):
            return str(value).lower() if isinstance(value, bool) else str(value)
        return self._value(node)[0] if node.type == "uuid" else ""

    def _value(self, node: Node) -> tuple[str, Style]:
        if node.null:
            return "null", look.DIM
        value = node.value
        if node.secret and not self._show_secrets:
            dots = self.cells.glyph("•") * 4
            return f"{dots} (withheld, {size_text(max(0, node.end - node.start))} B)", look.DIM
        if node.type.startswith("[]"):
            return f"[{value}]" if value is not None else "", look.DIM
        if node.name == UNKNOWN_TAGS:
            return ("" if node.children else "none"), look.DIM
        if isinstance(value, memoryview) and node.type != "uuid":
            # a label is more useful than the first bytes
            return f"{size_text(len(value))} B" if node.label else _bytes_text(value), look.PLAIN
        if value is None:
            if node.label:
                return "", look.DIM
            if node.parent is None or node.name == "header":
                return node.type, look.DIM
            return ("" if id(node) in self._unfolded else self.cells.escape(_summary(node))), look.DIM
        if isinstance(value, bool):
            return ("true" if value else "false"), look.PLAIN
        if isinstance(value, int):
            if node.type == "int16" and node.name.lower().endswith("errorcode"):
                return self._error(value)
            return str(value), look.PLAIN
        if isinstance(value, str):
            return (self.cells.escape(value[:4096]) if value else '""'), look.PLAIN
        if isinstance(value, float):
            return repr(value), look.PLAIN
        if node.type == "uuid":
            return base64.urlsafe_b64encode(bytes(value))[:22].decode(), look.PLAIN
        return _bytes_text(value), look.PLAIN

    def _error(self, code: int) -> tuple[str, Style]:
        if code == 0:
            return "0", look.PLAIN
        name = errors.name(code) if self._api is None else errors.name_in(*self._api, code)
        return f"{code} {name}", look.SEVERITY["N" if errors.retriable(code) else "W"]

    # moving

    def moved(self) -> None:
        self.post_message(self.Selected())

    def action_enter(self) -> None:
        item = self.item
        if item is None:
            return
        if item.more_of is not None:
            shown = self._shown.get(id(item.more_of), FIRST_SHOWN)
            self._shown[id(item.more_of)] = shown + max(FIRST_SHOWN, shown)
            self._rebuild()
        elif item.node is not None and _fold_size(item.node):
            self._fold(item.node, unfold=id(item.node) not in self._unfolded)
        else:
            self.post_message(self.BytesWanted())

    def action_unfold(self) -> None:
        item = self.item
        if item is None:
            return
        if item.more_of is not None:
            self.action_enter()
        elif item.node is not None and _fold_size(item.node):
            if id(item.node) in self._unfolded:
                self.move_to(self.cursor + 1)
            else:
                self._fold(item.node, unfold=True)

    def action_fold(self) -> None:
        item = self.item
        if item is None:
            return
        if item.node is not None and id(item.node) in self._unfolded:
            self._fold(item.node, unfold=False)
            return
        for index in range(self.cursor - 1, -1, -1):
            if self._items[index].depth < item.depth:
                self.move_to(index)
                return

    def action_unfold_below(self) -> None:
        node = self.node
        if node is None:
            return
        lines = 0
        for below in node.walk():
            if _fold_size(below):
                self._unfolded.add(id(below))
                lines += 1
            if lines > 20_000:
                break
        self._rebuild()

    def action_fold_all(self) -> None:
        self._unfolded.clear()
        self._rebuild()
        self.move_to(0)

    def clicked(self, event: events.Click) -> None:
        item = self.item
        if item is not None and (event.chain == 2 or event.x <= item.depth * 2 + 1):
            self.action_enter()

    def _fold(self, node: Node, *, unfold: bool) -> None:
        if unfold:
            self._unfolded.add(id(node))
        else:
            self._unfolded.discard(id(node))
        self._rebuild()


def _fold_size(node: Node) -> int:
    """Number of child nodes, without creating any: 1 for a node whose children do not exist yet, 0 if it is empty."""
    if node.closed:
        return 0 if node.value == 0 else 1
    if node.type.startswith("[]") and isinstance(node.value, int):
        return node.value or len(node.children)
    return len(node.children)


def _plain_array(node: Node) -> bool:
    """Whether a node is an array of more than 8 plain values, which stays folded at first."""
    return node.type.startswith("[]") and _fold_size(node) > 8 and not node.children[0].children


def _summary(node: Node) -> str:
    """The value that distinguishes a folded struct from its siblings: its first name or number."""
    if node.closed:
        return ""
    for child in node.children:
        if isinstance(child.value, str) and child.value and not child.secret and not child.children:
            return child.value[:80]
    for child in node.children[:1]:
        if isinstance(child.value, int) and not child.children:
            return str(child.value)
    return ""


def _bytes_text(value: Any) -> str:
    view = memoryview(value)
    head = bytes(view[:PREVIEW]).hex(" ")
    return f"{size_text(len(view))} B" + (f"  {head}" if head else "") + (" …" if len(view) > PREVIEW else "")
