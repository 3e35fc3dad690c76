"""Nodes below keys and values that Kafka itself writes: control records, and records of internal topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from kproxy.decoders import embedded
from kproxy.decoders.batches.record import RecordsError
from kproxy.decoders.embedded import Scope
from kproxy.decoders.plurals import counted
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.records import control, internal
from kproxy.decoders.records.field_nodes import fixed
from kproxy.decoders.tree import Node, tree
from kproxy.decoders.view import View


def add_control(key: Node, value: Node) -> None:
    """Set a label on the key of a control record; the nodes below key and value are created on first access."""
    if key.value is None:
        key.problem = Problem("", key.start, key.path, "a control record without key", Code.TRUNCATED)
        return
    number = control.type_of(bytes(key.value))
    if number is None:
        text = f"a control record's key of {counted(len(key.value), 'byte')}"
        key.problem = Problem("", key.start, key.path, text, Code.TRUNCATED)
        return
    key.label = control.type_name(number)
    key.later(_control_key)
    if value.value is not None:
        value.later(partial(_control_value, number))


def _control_key(key: Node) -> Iterator[Node]:
    at = key.end - len(key.value)
    for field in fixed((("version", "int16"), ("type", "int16")), key.value, 0, at, key):
        if field.name == "type":
            field.label = control.type_name(field.value)
        yield field


def _control_value(number: int, value: Node) -> Iterable[Node]:
    at = value.end - len(value.value)
    try:
        found = control.value_tree(number, bytes(value.value))
    except RecordsError as error:
        value.problem = Problem("", at + error.position, value.path, error.message, error.code)
        return []
    return () if found is None else _moved(found, at, value)


def add_internal(topic: str, key: Node, value: Node, view: View) -> None:
    """Set labels on the key and value of an internal topic's record; the nodes below are created on first access."""
    name = None if key.value is None else bytes(key.value)
    for node in (key, value):
        if node.value is None:
            continue
        data = bytes(node.value)
        body = values = None
        try:
            body = internal.key_body(topic, data) if node is key else internal.value_body(topic, name, data)
            if body is not None:
                node.label = body.message.name
                values, _ = internal.read(body, data, node.name)
        except RecordsError as error:
            at = node.end - len(data)
            node.problem = Problem("", at + error.position, node.path, error.message, error.code)
        node.secret = internal.withheld(topic, body, values, view)
        if body is not None:
            node.later(partial(_internal_fields, body, data, view))


def _internal_fields(body: internal.Body, data: bytes, view: View, node: Node) -> list[Node]:
    found = tree(body.message, body.version, data, body.start, len(data))
    embedded.attach(found, body.message, body.version, memoryview(data), Scope(view))
    # Children that are created later would get offsets within `data`, so all are created before _moved shifts them.
    closed = [found]
    while closed:
        closed += closed.pop().children
    return _moved(found, node.end - len(data), node)


def _moved(found: Node, by: int, parent: Node) -> list[Node]:
    """The children of `found`, with offsets shifted by `by` and `parent` as their parent."""
    for node in found.walk():
        node.start += by
        node.end += by
        if node.problem is not None:
            node.problem = replace(node.problem, offset=node.problem.offset + by)
    for child in found.children:
        child.parent = parent
    return found.children
