"""Collects the error codes of a message, by a function compiled for the message that visits only their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kproxy.decoders.schema.layout import Layout, Shape, Slot, per_version
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message

SUFFIX = "rrorCode"
"""End of the names of fields that hold an error code ("errorCode", "topicConfigErrorCode")."""


def error_codes(values: Mapping[str, Any], message: Message, version: int) -> list[int]:
    """The non-zero error codes in a message's values, each once, in order of appearance.

    Error codes are the int16 fields whose names end in "rrorCode".
    """
    gather = _gatherer(message, version)
    return [] if gather is None else gather(values)


def is_error_code(slot: Slot) -> bool:
    """Whether a field holds an error code."""
    return slot.shape is Shape.FIXED and slot.type == "int16" and slot.name.endswith(SUFFIX)


def _holds(layout: Layout) -> bool:
    return any(is_error_code(slot) or (slot.layout is not None and _holds(slot.layout)) for slot in layout.every())


def _visit(layout: Layout, values: str, depth: int, lines: list[str]) -> None:
    indent = "    " * depth
    inner = f"v{depth}"
    for slot in layout.every():
        value = f"{values}[{slot.name!r}]" if slot.tag is None else f"{values}.get({slot.name!r})"
        if is_error_code(slot):
            lines.append(f"{indent}c = {value}\n{indent}if c: found[c] = None\n")
        elif slot.layout is not None and _holds(slot.layout):
            if slot.shape is Shape.ARRAY:
                lines.append(f"{indent}for {inner} in {value} or ():\n")
            else:
                lines.append(f"{indent}{inner} = {value}\n{indent}if {inner} is not None:\n")
            _visit(slot.layout, inner, depth + 1, lines)


@per_version
def _gatherer(message: Message, version: int) -> Callable[[Mapping[str, Any]], list[int]] | None:
    layout = layout_of(message, version)
    if not _holds(layout):
        return None
    lines: list[str] = []
    _visit(layout, "v0", 1, lines)
    text = "def gather(v0):\n    found = {}\n" + "".join(lines) + "    return list(found)\n"
    names: dict[str, Any] = {}
    exec(compile(text, f"<error codes of {message.name} v{version}>", "exec"), names)  # noqa: S102
    gather: Callable[[Mapping[str, Any]], list[int]] = names["gather"]
    return gather
