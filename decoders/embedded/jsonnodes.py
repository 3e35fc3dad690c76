"""Makes tree nodes for values that were decoded from bytes as a whole (JSON, Protobuf)."""

from __future__ import annotations

from typing import Any

from kproxy.decoders.tree import Node


def json_node(name: str, value: Any, parent: Node) -> Node:
    """A node below `parent` for a value; the node has its parent's bytes, because the value's own bytes are unknown."""
    kind = "[]" if isinstance(value, list) else "struct" if isinstance(value, dict) else "string"
    node = Node(name, kind, parent.start, parent)
    node.end = parent.end
    if isinstance(value, list):
        node.value = len(value)
        node.later(lambda self: [json_node(f"[{index}]", one, self) for index, one in enumerate(value)])
    elif isinstance(value, dict):
        node.later(lambda self: [json_node(key, one, self) for key, one in value.items()])
    else:
        node.value = value
    return node
