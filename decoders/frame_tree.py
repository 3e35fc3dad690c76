"""A whole frame as a tree of nodes, with the decoded content of its records and bytes fields as nodes below them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kproxy.decoders import embedded
from kproxy.decoders.embedded import Scope
from kproxy.decoders.knowledge import TOPIC_ID, Knowledge
from kproxy.decoders.message import KEY_AND_VERSION, SIZE, Decoded, decode, decode_request, plans
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.records import nodes
from kproxy.decoders.records.places import Place
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.schema.model import Message
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node, tree
from kproxy.decoders.view import PLAIN, View

NODES = 200_000
"""Default for the maximum number of nodes in a tree."""


def frame_tree(
    data: Buffer,
    side: Side,
    api_key: int | None,
    api_version: int | None,
    definitions: Definitions,
    *,
    view: View = PLAIN,
    request: Buffer | None = None,
    places: Sequence[Place] = (),
    limit: int | None = NODES,
) -> Node:
    """Decodes a frame, its length field included, to a tree: nodes "size", "header" and "body" below the frame's node.

    Offsets count from the frame's first byte. Nodes that were decoded before an error are kept; other bytes become
    nodes "unread" (not decoded) and "trailing" (after the body). A request's API key and version are read from its
    header; of a response that is given without them only the correlation id is decoded, the rest is "unread". After
    `limit` nodes of the body the rest is "unread", and the last node has `more`. The decoded content of bytes
    fields becomes nodes below them, made on first access; for a response it may depend on the frame of its
    `request`. `places` holds facts about records from the rest of the exchange.
    """
    buffer = memoryview(data)
    end = len(buffer)
    where = "request" if side is Side.CLIENT else "response"
    root = frame_root(data, where)
    if end < SIZE:
        return root
    if side is Side.CLIENT:
        if end < SIZE + KEY_AND_VERSION.size:
            unread = _bytes(root, "unread", buffer, SIZE, end)
            text = f"a request of {counted(end, 'byte')} has no header"
            unread.problem = Problem(where, end, "", text, Code.TRUNCATED)
            return root
        api_key, api_version = KEY_AND_VERSION.unpack_from(buffer, SIZE)
    # No API has a negative key, so an orphan gets the simplest header.
    key, version = (-1 if number is None else number for number in (api_key, api_version))
    answer = definitions.response(key, version) if side is Side.BROKER else None
    asked = None
    if request is not None and answer is not None and embedded.places(answer, version):
        asked = decode_request(request, definitions).body
    scope = Scope(view, definitions, asked, parts=parts)
    problem = parts(root, buffer, SIZE, side, key, version, scope, places=places, limit=limit)
    if api_key is not None:
        root.problem = problem
    return root


def parts(
    root: Node,
    buffer: memoryview,
    start: int,
    side: Side,
    api_key: int,
    api_version: int,
    scope: Scope,
    *,
    places: Sequence[Place] = (),
    limit: int | None = NODES,
) -> Problem | None:
    """Decodes the message in `buffer[start:]` and adds nodes "header", "body" and "unread" below `root`.

    Returns the problem of the API key or version, None if both are known. `places` holds facts about records from the
    rest of the exchange.
    """
    where = "request" if side is Side.CLIENT else "response"
    plan = plans(scope.definitions).get(side, api_key, api_version)
    decoded = decode(buffer, plan, api_version, where, start)
    body = grow(root, buffer, start, plan.header, plan.header_version, decoded, limit=limit)
    if body is not None and decoded.message is not None:
        _name_topics(body, scope.view.knowledge)
        embedded.attach(body, decoded.message, decoded.version, buffer, scope)
        nodes.attach(body, scope.view, places)
    return plan.problem


def grow(
    root: Node, buffer: memoryview, start: int, header: Message, version: int, decoded: Decoded, *, limit: int | None
) -> Node | None:
    """Decodes the message in `buffer[start:]` and adds nodes "header", "body" and "unread" or "trailing" below `root`.

    `decoded` names the definition of the body. Returns the node of the body, None if there is none.
    """
    end = len(buffer)
    head = _adopt(root, "header", tree(header, version, buffer, start, end))
    position = head.end
    body = None
    if decoded.message is not None and not any(node.problem for node in head.walk() if _stops(node)):
        body = _adopt(root, "body", tree(decoded.message, decoded.version, buffer, position, end, limit=limit))
        position = body.end
        stopped = any(node.more or _stops(node) for node in body.walk())
        if position < end:
            rest = _bytes(root, "unread" if stopped else "trailing", buffer, position, end)
            if not stopped:
                rest.problem = next((p for p in decoded.problems if p.code is Code.TRAILING_BYTES), None)
    elif position < end:
        _bytes(root, "unread", buffer, position, end)
    return body


def frame_root(data: Buffer, where: str) -> Node:
    """The root node of a frame, with a node for its length field; if the length field is truncated, its node has a
    problem.
    """
    end = len(data)
    root = Node("frame", where, 0)
    root.end = end
    size = _child(root, "size", "int32", 0, min(SIZE, end))
    if end < SIZE:
        size.problem = Problem(where, 0, "size", f"a length takes {SIZE} bytes, {end} {are(end)} left", Code.TRUNCATED)
    else:
        (size.value,) = struct.unpack_from(">i", data, 0)
    return root


def _name_topics(body: Node, knowledge: Knowledge) -> None:
    for node in body.walk():
        if node.name == TOPIC_ID and node.type == "uuid" and node.value is not None:
            node.label = knowledge.topic(node.value)


def _stops(node: Node) -> bool:
    return node.problem is not None and node.problem.code is not Code.BAD_UTF8


def _child(parent: Node, name: str, type_: str, start: int, end: int) -> Node:
    node = Node(name, type_, start, parent)
    node.end = end
    parent.children.append(node)
    return node


def _bytes(parent: Node, name: str, view: memoryview, start: int, end: int) -> Node:
    node = _child(parent, name, "bytes", start, end)
    node.value = view[start:end]
    return node


def _adopt(root: Node, name: str, node: Node) -> Node:
    """Add the root node of a message below the frame's root; the paths of its nodes begin at this message.

    If the frame itself lies inside another message, the paths begin at that other message.
    """
    node.name = name
    if root.parent is not None:
        node.parent = root
    root.children.append(node)
    return node
