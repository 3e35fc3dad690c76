"""Decodes frames of a dialect, with the layout that the dialect's conditions select."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal

from kproxy.decoders.compiler import Values, decoder
from kproxy.decoders.frame_tree import frame_root, grow
from kproxy.decoders.message import Decoded
from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.schema.dialect import Body, Dialect, Header
from kproxy.decoders.schema.layout import Layout, Shape
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import Node

Where = Literal["request", "response"]

_SIZE = 4


def read_header(data: Buffer, dialect: Dialect, header: Header) -> tuple[Values, int]:
    """Decode a frame's header; returns (values, offset of the body). Raises DecodeError."""
    return decoder(header.message, dialect.versions.low)(data, _SIZE, len(data))


def decode(
    data: Buffer,
    where: Where,
    dialect: Dialect,
    number: int | None = None,
    version: int | None = None,
    truths: str = "",
) -> Decoded:
    """Decode a frame, its length field included. Malformed bytes give problems in the result, never an exception.

    For a response, `number` (request type) and `version` are its request's; a request frame holds its own. Both
    are None if the dialect's header has no such field. `truths` has the form of `Exchange.truths`; if it allows several
    layouts, the one that fits to the last byte is taken.
    """
    end = len(data)
    data = bytes(data)
    header = dialect.request_header if where == "request" else dialect.response_header
    problems: list[Problem] = []
    if end < _SIZE:
        problem = Problem(where, end, "", f"a {where} of {counted(end, 'byte')} has no header", Code.TRUNCATED)
        return Decoded(None, -1, {}, None, [problem], body_start=end)
    text: list[Problem] = []
    try:
        values, start = decoder(header.message, dialect.versions.low)(data, _SIZE, end, text)
    except DecodeError as error:
        return Decoded(None, -1, {}, None, [error.problem(where)], body_start=end)
    problems += _placed(text, where)
    if where == "request":
        number, version = header.get("type", values), header.get("version", values)
    request = None if number is None else dialect.requests.get(number)
    body = None if request is None else request.request if where == "request" else request.response
    if body is None:
        strange = f"{dialect.name} has no request type {number}" if request is None else f"{request.name} has no answer"
        problems.append(Problem(where, _SIZE, header.roles.get("type", ""), strange, Code.UNKNOWN_API))
        return Decoded(None, -1, values, None, problems, body_start=start)
    asked = dialect.versions.low if version is None else version
    known = min(max(asked, dialect.versions.low), dialect.versions.high)
    if known != asked:
        strange = f"{dialect.name} has no version {asked}; read as version {known}"
        problems.append(Problem(where, _SIZE, header.roles.get("version", ""), strange, Code.UNKNOWN_VERSION))
    decoded = _body(data, where, body, known, values, start, _truths(body, dialect, values, truths))
    decoded.problems = [*problems, *decoded.problems]
    decoded.guessed_version = known if known != asked else None
    return decoded


def _truths(body: Body, dialect: Dialect, header: Values, truths: str) -> Iterator[tuple[bool, ...]]:
    """The combinations of truth values of a body's conditions that are possible, given the header and `truths`."""
    possible = []
    for condition in body.conditions:
        truth: bool | None = None
        if condition.source == "header":
            truth = condition.holds(header)
        elif condition.source != "body":
            at = dialect.conditions.index(condition)
            truth = {"1": True, "0": False}.get(truths[at : at + 1])
        possible.append((True, False) if truth is None else (truth,))
    return product(*possible)


def _body(
    data: bytes, where: Where, body: Body, version: int, header: Values, start: int, truths: Iterator[tuple[bool, ...]]
) -> Decoded:
    """Decode a body with the first layout that fits to the last byte, else with the one that leaves fewest bytes."""
    end = len(data)
    best: tuple[Message, Values, int, list[Problem]] | None = None
    failed: tuple[Message, DecodeError] | None = None
    for choice in truths:
        message = body.message(choice)
        text: list[Problem] = []
        try:
            values, position = decoder(message, version)(data, start, end, text)
        except DecodeError as error:
            failed = failed or (message, error)
            continue
        chosen = zip(body.conditions, choice, strict=True)
        if any(one.source == "body" and one.holds(values) is not truth for one, truth in chosen):
            continue
        if best is None or position > best[2]:
            best = message, values, position, list(_placed(text, where))
        if position == end:
            break
    if best is not None:
        message, values, position, problems = best
        if position < end:
            left = f"{counted(end - position, 'byte')} after the body"
            problems.append(Problem(where, position, "", left, Code.TRAILING_BYTES))
        return Decoded(message, version, header, values, problems, body_start=start)
    if failed is None:
        return Decoded(None, version, header, None, [], body_start=start)
    return Decoded(failed[0], version, header, None, [failed[1].problem(where)], body_start=start)


def _placed(problems: list[Problem], where: Where) -> Iterator[Problem]:
    return (Problem(where, p.offset, p.path, p.message, p.code) for p in problems)


def fits(decoded: Decoded) -> bool:
    """Whether a frame was decoded to its last byte without problems."""
    return decoded.body is not None and not decoded.problems


def frame_tree(data: Buffer, where: Where, decoded: Decoded, dialect: Dialect, *, limit: int | None = 200_000) -> Node:
    """A frame as a tree, like that of `decoders.frame_tree.frame_tree`.

    Values that the dialect names have the name as label.
    """
    root = frame_root(data, where)
    if len(data) < _SIZE:
        return root
    header = dialect.request_header if where == "request" else dialect.response_header
    grow(root, memoryview(data), _SIZE, header.message, dialect.versions.low, decoded, limit=limit)
    for child in root.children:
        if child.name == "body" and supposed(decoded, dialect):
            child.label = "supposed"
    for node in root.walk():
        if node.field is not None and node.field.names:
            node.label = dict(node.field.names).get(node.value)
    problem = next((one for one in decoded.problems if one.code in {Code.UNKNOWN_API, Code.UNKNOWN_VERSION}), None)
    root.problem = problem
    return root


def supposed(decoded: Decoded, dialect: Dialect) -> bool:
    """Whether the author of the dialect marked the layout of this body as a guess."""
    number = None if decoded.message is None else decoded.message.api_key
    return number is not None and number in dialect.requests and dialect.requests[number].supposed


def names(values: Values, message: Message, version: int) -> dict[str, str]:
    """The names that the dialect gives to values of a body, by path of the value."""
    return dict(_named(values, layout_of(message, version), ""))


def _named(values: Any, layout: Layout, path: str) -> Iterator[tuple[str, str]]:
    for slot in layout.slots:
        value = values.get(slot.name)
        if slot.field.names:
            name = dict(slot.field.names).get(value)
            if name is not None:
                yield path + slot.name, name
        elif slot.layout is not None and value is not None:
            several = slot.shape is Shape.ARRAY
            for index, one in enumerate(value if several else (value,)):
                place = f"{slot.name}[{index}]" if several else slot.name
                yield from _named(one, slot.layout, f"{path}{place}.")
