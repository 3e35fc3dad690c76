"""Filters suggested for the thing under the cursor, and the forms in which they join the applied filter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kproxy.decoders.exchange_row import KAFKA, Unavailable
from kproxy.decoders.fields import BY_NAME, FIELDS, Cost, Field, Type
from kproxy.decoders.filters import parse
from kproxy.decoders.filters.bodies import BadPath, read
from kproxy.decoders.filters.expression import And, Or, meant_errors
from kproxy.decoders.filters.values import LITERALS, quote

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.tree import Node
    from kproxy.tui.detail.records import RecordLine

MOST_VALUES = 20
"""Maximum number of values suggested for a field that has several."""
LONGEST_VALUE = 200
"""Longest text, in characters, that is suggested as a value."""


class Clause(NamedTuple):
    """A suggested filter; `name` is the field or part that it tests."""

    name: str
    text: str


class Form(NamedTuple):
    """A way to join a clause to the applied filter: `word` between them, "not" before the clause if `negated`."""

    word: str
    negated: bool


FORMS: Mapping[str, Form] = {
    "selected": Form("", False),
    "not": Form("", True),
    "and": Form("and", False),
    "or": Form("or", False),
    "and-not": Form("and", True),
    "or-not": Form("or", True),
}


def joined(applied: str, form: Form, clause: str, saved: Mapping[str, str] | None = None) -> str:
    """The applied filter and a clause joined in a form, with brackets if needed."""
    added = _bracketed(clause, And, Or) if form.negated or form.word == "and" else clause
    if form.negated:
        added = f"not {added}"
    if not applied.strip() or not form.word:
        return added
    kept = parse(applied, saved).expression
    before = f"({applied})" if form.word == "and" and isinstance(kept, Or) else applied
    return f"{before} {form.word} {added}"


def _bracketed(text: str, *kinds: type) -> str:
    return f"({text})" if isinstance(parse(text).expression, kinds) else text


def whole(clauses: Iterable[Clause]) -> list[Clause]:
    """The clauses that are valid filters, each once."""
    found = {clause.text: clause for clause in clauses if parse(clause.text).expression is not None}
    return list(found.values())


# --- of an exchange --------------------------------------------------------------------------------------------------

_AT_LEAST = frozenset({Type.DURATION, Type.SIZE, Type.TIME})
_ORDER = ("api", "topic", "group", "txn", "error", "client.id", "connection", "broker", "client")
"""Fields that are suggested first."""


class RowClauses:
    """Clauses from the index columns of an exchange."""

    def __init__(self, index: IndexReader, definitions: Definitions) -> None:
        from kproxy.captures.index.values import RowValues

        self._index = index
        self._values = RowValues(index, definitions)

    def of(self, number: int) -> list[Clause]:
        """Clauses for index row `number` (from 0), field by field."""
        fields = [field for field in FIELDS if field.cost is Cost.INDEX]
        fields.sort(key=lambda field: _ORDER.index(field.name) if field.name in _ORDER else len(_ORDER))
        return whole(clause for field in fields for clause in self._field(field, number))

    def _field(self, field: Field, number: int) -> Iterator[Clause]:
        row = self._index.row(number)
        self._values.number = number + 1
        getter = self._values.getter
        try:
            if field.name == "broker":
                yield from self._broker(field, number)
                return
            if field.name == "size":
                return  # request and response sizes are suggested instead
            get = getter(field.attributes[0])
            value = (meant_errors(get, getter) if field.type is Type.ERROR else get)(row)
        except Unavailable:
            return
        if (field.name == "protocol" and value == KAFKA) or (field.type is Type.FLAG and not value):
            return  # a filter that matches nearly all exchanges is of no use
        for one in list(value)[:MOST_VALUES] if field.many else () if value is None else (value,):
            if field.type is Type.ADDRESS:
                host, _, _ = str(one).rpartition(":")
                yield Clause(field.name, f"{field.name} == {quote(host)}")
            yield Clause(field.name, _test(field, one))

    def _broker(self, field: Field, number: int) -> Iterator[Clause]:
        row = self._index.row(number)
        with suppress(Unavailable):
            yield Clause(field.name, f"broker == {self._values.getter('node')(row)}")
        yield Clause(field.name, f"broker == {quote(self._values.getter('broker')(row))}")


def _test(field: Field, value: Any) -> str:
    if field.type is Type.FLAG:
        return field.name
    operator = ">=" if field.type in _AT_LEAST else "=="
    return f"{field.name} {operator} {LITERALS[field.type].write(value)}"


# --- of a field of a message -----------------------------------------------------------------------------------------

_HEADER = {
    "requestApiKey": "api",
    "requestApiVersion": "version",
    "correlationId": "correlation",
    "clientId": "client.id",
}
_ENTITY = {"topicName": "topic", "groupId": "group", "transactionalId": "txn"}
_INDEX = re.compile(r"\[[0-9]+\]")


def node_clauses(node: Node, root: str) -> list[Clause]:
    """Clauses for a field of a decoded message; `root` is "request" or "response"."""
    if node.secret or not node.path:
        return []
    top = node
    while top.parent is not None and top.parent.parent is not None:
        top = top.parent
    if top.type.endswith("Header"):
        field = BY_NAME.get(_HEADER.get(node.name, ""))
        return [] if field is None or node.value is None else whole([Clause(node.name, _test(field, node.value))])
    paths = list(dict.fromkeys((_INDEX.sub("[]", node.path), node.path)))
    clauses = [Clause(node.name, text) for path in paths if (text := _path_test(f"{root}.body.{path}", node))]
    entity = _ENTITY.get(node.field.entity or "") if node.field is not None else None
    meant = node.label if node.type == "uuid" else node.value
    if node.type == "uuid" and node.label:
        entity = "topic"
    if entity is not None and isinstance(meant, str) and meant:
        clauses.insert(0, Clause(entity, f"{entity} == {quote(meant)}"))
    return whole(clauses)


def _path_test(path: str, node: Node) -> str:
    try:
        field = read(path)
    except BadPath:
        return ""
    value = node.value
    if node.null:
        return f"not has {path}"
    if node.type == "uuid":
        from kproxy.decoders.jsonform import uuid_json

        value = uuid_json(value)
    if field.type is Type.STRUCT or isinstance(value, memoryview) or value is None or node.type.startswith("[]"):
        return f"has {path}"
    if isinstance(value, str):
        return f"{path} == {quote(value)}" if len(value) <= LONGEST_VALUE and value.isprintable() else ""
    if field.type is Type.FLAG:
        return f"{path} == {'true' if value else 'false'}"
    if not isinstance(value, int):
        return ""
    operator = ">=" if field.type in _AT_LEAST and value >= 0 else "=="
    return f"{path} {operator} {LITERALS[field.type].write(value * field.scale)}"


# --- of a record -----------------------------------------------------------------------------------------------------


def record_clauses(line: RecordLine, *, withheld: bool) -> list[Clause]:
    """Clauses for a record; `withheld` leaves out its key, value and headers."""
    offset, _, key, value, headers = line.record if not withheld else (line.record[0], None, None, None, [])
    clauses = []
    for name, operator, data in (("record.key", "==", key), ("record.value", "contains", value)):
        text = _readable(data)
        if text:
            clauses.append(Clause(name.partition(".")[2], f"{name} {operator} {quote(text)}"))
    if line.place.topic:
        clauses.append(Clause("topic", f"topic == {quote(line.place.topic)}"))
    clauses.append(Clause("offset", f"record.offset == {offset}"))
    for title, content in headers[:MOST_VALUES]:
        if (said := _readable(content)) and (called := _readable(title)):
            clauses.append(Clause("header", f"record.header == {quote(f'{called}: {said}')}"))
    return whole(clauses)


def _readable(data: Any) -> str:
    """Bytes as text; "" if they are not printable text or longer than LONGEST_VALUE."""
    if not data:
        return ""
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() and len(text) <= LONGEST_VALUE else ""
