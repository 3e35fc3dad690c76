"""Adds the decoded content of bytes fields to a tree, as nodes below the nodes of these fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kproxy.decoders.embedded.inside import Inside
from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.embedded.table import Place, places
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Problem
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import Node


def attach(root: Node, message: Message, version: int, buffer: Buffer, scope: Scope) -> None:
    """Label the bytes fields of known format in a message's tree.

    The nodes of their content are created on first access.

    Offsets count in `buffer`, which ends with the frame.
    """
    _attach(root.children, message, version, buffer, scope)


def _attach(fields: Sequence[Node], message: Message, version: int, buffer: Buffer, scope: Scope) -> None:
    for place in places(message, version):
        for node, around in _bytes(fields, place, ()):
            within = scope.at(around, "")
            hang(node, place.read(node.value, within), buffer, within)


def hang(node: Node, inside: Inside | None, buffer: Buffer, scope: Scope) -> None:
    """Label a bytes node with its content, if known; the nodes of the content are created on first access."""
    if inside is None:
        return
    node.label = f"{inside.label} (guess)" if inside.guessed else inside.label
    if inside.public:
        node.secret = False
    node.later(partial(_open, inside, buffer, scope))


def _open(inside: Inside, buffer: Buffer, scope: Scope, node: Node) -> Iterable[Node]:
    nodes = list(inside.nodes(node, buffer, scope))
    if inside.fields is not None:
        _attach(nodes, *inside.fields, buffer, scope)
    return nodes


def _bytes(
    fields: Sequence[Node], place: Place, above: tuple[Mapping[str, Any], ...], step: int = 0
) -> Iterator[tuple[Node, tuple[Mapping[str, Any], ...]]]:
    """The bytes nodes at `place` below `fields`, each with the values of the structs around it, innermost first.

    `step` is the number of structs of the place's path that were entered already, `above` their values.
    """
    around = ({child.name: child.value for child in fields}, *above)
    name = place.above[step] if step < len(place.above) else place.name
    for child in fields:
        if child.name != name:
            continue
        if step == len(place.above):
            if child.value and child.problem is None:
                yield child, around
        elif child.type.startswith("[]"):
            for element in child.children:
                yield from _bytes(element.children, place, around, step + 1)
        else:
            yield from _bytes(child.children, place, around, step + 1)


NO_FIELDS: Final = frozenset({"trailing", "unread"})
"""Names of nodes for bytes that belong to no field."""


def problems(node: Node, *, inside: bool = False) -> Iterator[Problem]:
    """Problems inside the bytes fields below a node; creates the nodes of their content, except for records fields.

    Paths of the problems start at the message.
    """
    if node.type == "records":
        return
    opening = node.unopened and not node.type.startswith("[]")
    children = node.children
    if (inside or opening) and node.problem is not None:
        field = node.parent if node.name in NO_FIELDS else node
        yield replace(node.problem, path="" if field is None else field.path)
    for child in children:
        yield from problems(child, inside=inside or opening)
