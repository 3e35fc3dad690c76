"""The fields of bodies as fields of the filter language: the paths that exist in any message, and their types.

A path is checked against the messages of all APIs and versions together, because a filter applies to all exchanges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from kproxy.decoders.body_path import DECODED, ROOTS, Path, Step, read_step
from kproxy.decoders.fields import Cost, Field, Type
from kproxy.decoders.schema.model import Field as SchemaField

_INTEGERS = frozenset({"int8", "int16", "uint16", "int32", "uint32", "int64"})
_TEXTS = frozenset({"string", "uuid", "bytes"})
_MILLISECOND = 1_000_000

_TIMES = frozenset({"logAppendTimeMs", "transactionStartTimeMs"})
"""Names of fields in milliseconds since the epoch that do not contain "timestamp"."""


_BRACKETS = "[] stands for every element of a list, [0] for the first"


@dataclass(slots=True)
class Node:
    """A name in the paths of bodies: the types of its values in all messages, and the names below it.

    `listed`: the field is a list in some message; `plain`: it is not a list in some message; `free`: any name may
    follow.
    """

    types: set[str] = field(default_factory=set)
    listed: bool = False
    plain: bool = False
    members: dict[str, Node] = field(default_factory=dict)
    free: bool = False

    def member(self, name: str) -> Node:
        return self.members.setdefault(name, Node())


class BadPath(Exception):  # noqa: N818 (a finding about the text)
    """No message has the field at [start, end) of the path; `near` are names that could replace it.

    `partial` says that the path may become valid if the user types on.
    """

    def __init__(self, message: str, start: int, end: int, near: Iterable[str] = (), *, partial: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.near = tuple(near)
        self.partial = partial


_ADDED: list[tuple[str, Sequence[SchemaField]]] = []
"""("request" or "response", fields) of each body that users' files define; shared by all filters of the process."""


def add_fields(bodies: Iterable[tuple[str, Sequence[SchemaField]]]) -> None:
    """Add fields of bodies that users' files define to those that filters know; Kafka's are always known."""
    _ADDED.extend(bodies)
    _roots.cache_clear()


@cache
def _roots() -> Mapping[str, Node]:
    from kproxy.decoders.schema import definitions

    roots = {root: Node(plain=True) for root in ROOTS}
    kafka = [(message.kind, message.fields) for message in definitions().messages()]
    for kind, fields in (*kafka, *_ADDED):
        root = roots.get(f"{kind}.body")
        if root is not None:
            for one in fields:
                _enter(root, one)
    for root in roots.values():
        root.member("token").types.add("string")
    return roots


def _enter(above: Node, one: SchemaField) -> None:
    node = above.member(one.name)
    node.listed |= one.array
    node.plain |= not one.array
    if one.struct is not None:
        node.types.add("struct")
        for below in one.struct.fields:
            _enter(node, below)
        return
    if one.type == "records":
        node.types.add("struct")
        _form(node, RECORDS)
        return
    node.types.add(one.type)
    if one.type == "bytes":
        node.member("base64").types.add("string")
        node.member(DECODED).free = True


_BYTES = {"base64": "string", DECODED: "free"}
_CONTENT = {"": "string", **_BYTES}
RECORDS: Mapping[str, object] = {
    "sizeInBytes": "int32",
    "truncatedTail": "int32",
    "batches[]": {
        "baseOffset": "int64", "partitionLeaderEpoch": "int32", "magic": "int8", "crc": "int64", "crcValid": "bool",
        "compression": "string", "timestampType": "string", "isTransactional": "bool", "isControl": "bool",
        "lastOffsetDelta": "int32", "baseTimestamp": "int64", "maxTimestamp": "int64", "producerId": "int64",
        "producerEpoch": "int16", "baseSequence": "int32", "recordCount": "int32", "sizeInBytes": "int32",
        "uncompressedSizeInBytes": "int32",
        "records[]": {
            "offset": "int64", "timestamp": "int64", "key": _CONTENT, "value": _CONTENT,
            "headers[]": {"key": "string", "value": _CONTENT},
        },
    },
}  # fmt: skip
"""The JSON form of a records field (docs/exchange-json.md): names of members with their types; lists have "[]"."""


def _form(node: Node, members: Mapping[str, object]) -> None:
    for spelled, what in members.items():
        if not spelled:
            node.types.add(str(what))
            continue
        below = node.member(spelled.removesuffix("[]"))
        below.listed |= spelled.endswith("[]")
        below.plain |= not spelled.endswith("[]")
        if isinstance(what, Mapping):
            if "" not in what:
                below.types.add("struct")
            _form(below, what)
        elif what == "free":
            below.free = True
        else:
            below.types.add(str(what))


def is_path(name: str) -> bool:
    """Whether a field's name is one of ROOTS, or a path below one."""
    return any(name == root or name.startswith(f"{root}.") for root in ROOTS)


def read(name: str) -> Field:
    """The filter field for a path such as "response.body.topics[].errorCode".

    Raises BadPath if no message has the path.
    """
    root = next(root for root in ROOTS if name == root or name.startswith(f"{root}."))
    node = _roots()[root]
    if name == root:
        return Field(name, Type.STRUCT, "the decoded body", ("at",), Cost.DECODE, path=Path(root.partition(".")[0], ()))
    at = len(root) + 1
    steps: list[Step] = []
    texts = name[at:].split(".")
    for number, text in enumerate(texts):
        step = read_step(text)
        last = number == len(texts) - 1
        if step is None:
            shown = f"{text!r} is not a field's name" if text else "a field's name is missing after the dot"
            if "[" in text:
                shown = f"{'this [ is not closed' if ']' not in text else shown}; {_BRACKETS}"
            begun = [one for one in _spelled(node, name[:at]) if one[at:].startswith(text)]
            partial = last and (not text or bool(begun) or "]" not in text)
            raise BadPath(shown, at, at + len(text), begun, partial=partial)
        if not node.free:
            node = _below(node, step, name, at, last=last)
        steps.append(step)
        at += len(text) + 1
    return _field(name, Path(root.partition(".")[0], tuple(steps)), node, steps[-1])


def _below(node: Node, step: Step, name: str, at: int, *, last: bool) -> Node:
    """The node to which a step of the path leads. Raises BadPath if no message has it."""
    from kproxy.decoders.filters.values import nearest

    begun = [one for one in _spelled(node, name[:at]) if one[at:].casefold().startswith(str(step).casefold())]
    end = at + len(str(step))
    found = node.members.get(step.name)
    if found is None:
        near = nearest(step.name, node.members) if node.members else None
        hint = f"; did you mean {near}?" if near else ""
        text = f"no message has {step.name!r} in {name[: at - 1]}{hint}"
        if not node.members:
            text = f"{name[: at - 1]} has no fields of its own"
        raise BadPath(text, at, end, begun or _spelled(node, name[:at]), partial=last and bool(begun))
    in_list = step.each or step.index is not None
    if in_list and not found.listed and not found.free:
        raise BadPath(f"{step.name} is not a list; leave out {str(step)[len(step.name) :]}", at, end, begun)
    if not in_list and not found.plain and not found.free and not last and found.listed:
        raise BadPath(f"{step.name} is a list; write {step.name}[] for all of it or {step.name}[0]", at, end, begun)
    return found


def _spelled(node: Node, before: str) -> list[str]:
    return [f"{before}{name}{'[]' if below.listed else ''}" for name, below in sorted(node.members.items())]


def members(name: str) -> Iterator[tuple[str, Type]]:
    """(path, type) for each field one step below `name`, which is one of ROOTS or the path of a struct."""
    node = _node(name)
    if node is not None:
        for member, below in sorted(node.members.items()):
            yield f"{name}.{member}{'[]' if below.listed else ''}", _type(member, below)


def listed(name: str) -> bool:
    """Whether the field at the path `name` is a list in some message."""
    node = _node(name)
    return node is not None and node.listed


def _node(name: str) -> Node | None:
    root = next((root for root in ROOTS if name == root or name.startswith(f"{root}.")), None)
    if root is None:
        return None
    node: Node | None = _roots()[root]
    for text in name[len(root) + 1 :].split(".") if name != root else ():
        step = read_step(text)
        node = None if node is None or step is None else node.members.get(step.name)
    return node


def _field(name: str, path: Path, node: Node, last: Step) -> Field:
    kind = _type(last.name, node)
    many = any(step.each for step in path.steps)
    if node.listed and not node.plain and not (last.each or last.index is not None):
        kind = Type.STRUCT
    side = path.root
    return Field(
        name,
        kind,
        f"from the {side}'s body",
        ("at",),
        Cost.DECODE,
        many=many,
        path=path,
        scale=_MILLISECOND if kind in {Type.DURATION, Type.TIME} else 1,
    )


def _type(name: str, node: Node) -> Type:
    if node.free:
        return Type.ANY
    types = node.types
    if types == {"struct"} or not types:
        return Type.STRUCT
    if types <= _INTEGERS:
        return _number_type(name)
    if types == {"bool"}:
        return Type.FLAG
    return Type.TEXT if types <= _TEXTS else Type.ANY


def _number_type(name: str) -> Type:
    """The type of a number in a body, which follows from the field's name."""
    if name.endswith("rrorCode"):
        return Type.ERROR
    if name in {"apiKey", "apiKeys", "requestApiKey"}:
        return Type.API
    if "imestamp" in name or name in _TIMES:
        return Type.TIME
    if name.endswith("Ms"):
        return Type.DURATION
    return Type.SIZE if name.endswith("Bytes") else Type.NUMBER
