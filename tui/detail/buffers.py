"""The buffer that a node's offsets refer to: the frame, or bytes that were decompressed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.captures.text import size_text

if TYPE_CHECKING:
    from kproxy.decoders.tree import Node

WIRE = "wire"


def holders(node: Node | None) -> list[Node]:
    """The ancestors whose children have a buffer of their own, outermost first; empty if offsets refer to the frame."""
    found: list[Node] = []
    while node is not None:
        if node.buffer is not None and node.parent is not None:
            found.insert(0, node.parent)
        node = node.parent
    return found


def bytes_below(holder: Node) -> bytes:
    """The buffer that the offsets of a holder's children refer to."""
    buffer = next((child.buffer for child in holder.children if child.buffer is not None), None)
    return b"" if buffer is None else bytes(buffer)


def title(holder: Node) -> str:
    """Title of a buffer's tab: "batch 0 (lz4, 4.1k -> 19k)"."""
    codec = (holder.label or "").partition(",")[0]
    sizes = f"{size_text(holder.end - holder.start)} -> {size_text(len(bytes_below(holder)))}"
    above = holder.parent
    kind = "batch" if above is not None and above.type == "batch" else "message"
    return f"{kind} {above.name.strip('[]') if above is not None else ''} ({codec}, {sizes})"
