"""The nodes below a records field in the tree of a frame.

A batch has nodes for the fields of its header, named as in the JSON form, and "records", each with its own fields.
Offsets count in the frame, except for compressed records and problems in them: these count in the decompressed bytes
(`Node.buffer`). Nodes are created on first access.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.plurals import counted
from kproxy.decoders.records.batch_context import BatchContext, withholds
from kproxy.decoders.records.batch_nodes import batch_fields
from kproxy.decoders.records.field_nodes import byte_node, problem_at
from kproxy.decoders.records.message_nodes import message_fields
from kproxy.decoders.records.partition import PartitionRecords
from kproxy.decoders.records.places import Place
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View


def attach(body: Node, view: View, places: Iterable[Place]) -> None:
    """Add nodes for batches and records below the records fields of a message; they are created on first access.

    `places` holds facts about the records from the rest of the exchange.
    """
    known = {place.path: place for place in places}
    for node in body.walk():
        if node.type == "records" and node.value is not None:
            place = known.get(node.path) or _alone(node, view.knowledge)
            node.later(partial(_field, place, view))


def topic_of(node: Node, knowledge: Knowledge) -> str | None:
    """The topic of a records field; None if the topic is unknown or the node is another field."""
    return _alone(node, knowledge).topic if node.type == "records" else None


def _alone(node: Node, knowledge: Knowledge) -> Place:
    """The Place of a records field, as far as fields of the same message determine it."""
    around: dict[str, Any] = {}
    above = node.parent
    while above is not None:
        around = {child.name: child.value for child in above.children} | around
        above = above.parent
    topic_id = around.get("topicId")
    name = around.get("name", around.get("topic"))
    if name is None and topic_id is not None:
        name = knowledge.topic(topic_id)
    number = around.get("index", around.get("partitionIndex", -1))
    return Place(node.path, name, topic_id, number, node.value)


def _field(place: Place, view: View, node: Node) -> Iterator[Node]:
    """The nodes of a records field: the end of an earlier batch, the batches, and the incomplete or unreadable rest."""
    found = PartitionRecords(place, view)
    data = memoryview(node.value)
    at = node.end - len(data)
    if found.start:
        head = byte_node("truncatedHead", data, 0, found.start, at, node)
        head.label = "the end of a batch that began before"
        head.secret = withholds(place, view)
        yield head
    at += found.start
    batches = Node("batches", "[]batch", at, node)
    batches.value = len(found.batches)
    batches.end = at + (found.batches[-1].end if found.batches else 0)
    batches.later(partial(_batches, found, at, view))
    yield batches
    if found.tail or (found.troubles and not found.troubles[-1].path):
        tail = _tail(found, data[found.start :], at, node)
        tail.secret = withholds(place, view)
        yield tail


def _tail(found: PartitionRecords, data: memoryview, at: int, parent: Node) -> Node:
    tail = byte_node("truncatedTail", data, len(data) - found.tail, len(data), at, parent)
    trouble = found.troubles[-1] if found.troubles else None
    if trouble is not None and not trouble.path:
        tail.problem = problem_at(trouble, at)
        return tail
    whole = found.tail_size()
    tail.label = f"partial message, {found.tail} of {'an unknown number of' if whole is None else whole} bytes"
    return tail


def _batches(found: PartitionRecords, at: int, view: View, parent: Node) -> Iterator[Node]:
    before: int | None = 0
    for index, batch in enumerate(found.batches):
        node = Node(f"[{index}]", "batch", at + batch.start, parent)
        node.end = at + batch.end
        context = BatchContext(found, index, at, before, view)
        node.label = _batch_label(context)
        node.later(partial(batch_fields if batch.header["magic"] == 2 else message_fields, context))
        yield node
        count = batch.header.get("recordCount")
        before = None if before is None or count is None else before + count


def _batch_label(context: BatchContext) -> str:
    header = context.batch.header
    if header["magic"] == 2:
        count = header["recordCount"]
        words = [f"offset {header['baseOffset']}", counted(count, "record")]
        words += [header["compression"]] if header["compression"] != "none" else []
        words += [word for word in ("isTransactional", "isControl") if header[word]]
        return ", ".join(words)
    if header["compression"] == "none":
        return context.label(header["baseOffset"], header.get("maxTimestamp"), 0)
    return f"message set, {header['compression']}"
