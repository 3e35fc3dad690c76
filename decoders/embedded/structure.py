"""Decodes structures that begin with their version: an int16 before the fields, or the first field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kproxy.decoders.compiler import Values, decoder
from kproxy.decoders.embedded.definitions import definition, versions
from kproxy.decoders.embedded.inside import Inside, ToJson, content_start
from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import Node, tree

NODES: Final = 200_000
"""Maximum number of tree nodes that are created for a structure."""

_SIZES: Final = {"int16": 2, "int32": 4}


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure inside bytes fields, given by the `name` of its definition.

    `newer` says that unknown newer versions are read as the newest known one. Kafka does the same, because new versions
    only append fields.
    """

    name: str
    label: str
    newer: bool = False


@cache
def _version_type(structure: Structure) -> tuple[str, bool]:
    """(type of the version number, whether it is a field of the definition)"""
    message = definition(structure.name, versions(structure.name).high)
    assert message is not None  # noqa: S101  # the newest version is defined
    first = message.fields[0]
    return (first.type, True) if first.name == "version" else ("int16", False)


def read(structure: Structure, data: Buffer) -> Structured:
    """Decode `data` as a structure. Never raises; the result says whether the bytes fit."""
    type_, own = _version_type(structure)
    size = _SIZES[type_]
    if len(data) < size:
        return Structured(structure, None, None, size)
    given = int.from_bytes(data[:size], "big", signed=True)
    known = versions(structure.name)
    version = known.high if structure.newer and given > known.high else given
    message = definition(structure.name, version)
    result = Structured(structure, given, message, 0 if own else size, version)
    if message is None:
        return result
    problems: list[Problem] = []
    try:
        result.values, result.end = decoder(message, version)(data, result.start, len(data), problems)
    except DecodeError:
        return result
    result.readable = True
    result.whole = result.end == len(data)
    result.wrong = bool(problems) or (not result.whole and given == version)
    return result


class Structured(Inside):
    """A decoded structure; `values` is None if it could not be decoded.

    `given` is the version that the bytes state, `version` the version whose layout was used. `whole` says that decoding
    ended exactly at the last byte.
    """

    def __init__(
        self, structure: Structure, given: int | None, message: Message | None, start: int, version: int = 0
    ) -> None:
        self.structure = structure
        self.given = given
        self.message = message
        self.version = version
        self.fields = None if message is None else (message, version)
        self.start = start
        self.end = start
        self.values: Values | None = None
        self.readable = False
        self.wrong = True
        self.whole = False
        self.label = structure.label if given is None else f"{structure.label} v{given}"

    def json(self, to_json: ToJson, scope: Scope) -> Any:
        if self.values is None or self.message is None:
            return None
        shown = to_json(self.values, self.message, self.version, scope.view, scope)
        return {"version": self.given, **shown}

    def nodes(self, node: Node, buffer: Buffer, scope: Scope) -> Iterable[Node]:
        del scope
        start, end = content_start(node), node.end
        type_, _ = _version_type(self.structure)
        if self.given is None:
            text = f"a version takes {_SIZES[type_]} bytes, {end - start} {are(end - start)} left"
            node.problem = Problem("", start, node.path, text, Code.TRUNCATED)
            return
        if self.start or self.message is None:
            number = Node("version", type_, start, node)
            number.end = start + _SIZES[type_]
            number.value = self.given
            yield number
            if self.message is None:
                text = f"no release knows version {self.given} of {self.structure.name}"
                number.problem = Problem("", start, number.path, text, Code.UNKNOWN_VERSION)
                return
        root = tree(self.message, self.version, buffer, start + self.start, end, limit=NODES)
        for child in root.children:
            child.parent = node
        yield from root.children
        if self.readable and root.end < end:
            rest = Node("trailing", "bytes", root.end, node)
            rest.value = memoryview(buffer)[root.end : end]
            rest.end = end
            if self.given == self.version:
                left = end - root.end
                text = f"{counted(left, 'byte')} after a {self.structure.label}"
                rest.problem = Problem("", root.end, node.path, text, Code.TRAILING_BYTES)
            yield rest
