"""Converts a message's values to JSON, in the form of Kafka's own `*JsonConverter` classes with additions.

For each message and version a converter is compiled that visits only secrets and values that need converting for JSON:
uuid, bytes, records, NaN and infinities, unknown tagged fields.
"""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from kproxy.decoders import embedded, secrets
from kproxy.decoders.embedded import Scope
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.records.form import Allowance, RecordsForm, unaligned_records
from kproxy.decoders.schema.layout import UNKNOWN_TAGS, Layout, Shape, Slot, per_version
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message
from kproxy.decoders.view import PLAIN, View


def body_json(
    values: Mapping[str, Any],
    message: Message,
    version: int,
    view: View = PLAIN,
    scope: Scope | None = None,
) -> Any:
    """The values of a message in `version` as an object that `json.dumps` accepts.

    Parts that need no conversion are shared with `values`, not copied. Secrets become {"redacted": true, "sizeInBytes":
    n} unless the view shows them. `scope` is the context for decoding bytes fields, and collects the problems inside
    them.
    """
    plan = (_open if view.show_secrets else _closed)(message, version)
    body = plan.convert(values)
    if plan.places and view.inside:
        embedded.show(body, values, plan.places, body_json, scope or Scope(view))
    if plan.records is not None and view.open_batches:
        found: list[RecordsPlace] = []
        _forms(body, plan.records, (), (), found)
        allowance = Allowance(view, sum([place.form["sizeInBytes"] for place in found]))
        for place in found:
            form = place.form
            form.open(body_json, view, _topic(place.around, view.knowledge), allowance)
            if (form.troubles or form.left_out) and scope is not None:
                if scope.depth:
                    path = f"{scope.path}.{place.path}"
                    scope.found.records += [(f"{path}.{trouble.path}", trouble) for trouble in form.troubles]
                    scope.found.left_out += form.left_out
                else:
                    scope.found.own = True
    return body


def _topic(around: Sequence[Mapping[str, Any]], knowledge: Knowledge) -> str | None:
    """The topic to which the innermost of these JSON objects belongs, found by name or by topic id; None if unknown."""
    for one in around:
        name = one.get("name", one.get("topic"))
        if isinstance(name, str):
            return name
        if "topicId" in one:
            return knowledge.topic(uuid_bytes(one["topicId"]))
    return None


def base64(data: Buffer) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


@lru_cache(maxsize=4096)
def _uuid(data: bytes) -> str:
    return b2a_base64(data, newline=False)[:22].decode("ascii").translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")


def uuid_json(data: Buffer) -> str:
    """A uuid in the form of Kafka's Uuid.toString(): 22 characters of base64url."""
    return _uuid(bytes(data))


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a uuid that is written in Kafka's form."""
    return urlsafe_b64decode(text + "==")


def float_json(value: float) -> float | str:
    """A float64 for JSON; NaN and infinities become text, in Jackson's form."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _unknown(tags: list[tuple[int, Buffer]]) -> list[dict[str, Any]]:
    return [{"tag": tag, "base64": base64(data)} for tag, data in tags]


def _config(name: Any, value: Any) -> Any:
    return secrets.redacted(value) if secrets.is_secret_config(name) else value


_FIXED = {"uuid": "uuid", "float64": "number"}
_BYTES = {"bytes": "base64", "records": "records"}


class _Converter:
    """The source text of one module: a function for each struct that may need converting."""

    def __init__(self, message: Message, *, show_secrets: bool) -> None:
        none: frozenset[str] = frozenset()
        self.always = none if show_secrets else secrets.ALWAYS.get(message.name, none)
        self.flagged = none if show_secrets else secrets.BY_FLAG.get(message.name, none)
        self.named = none if show_secrets else secrets.BY_NAME.get(message.name, none)
        self.functions: list[str] = []

    def leaf(self, slot: Slot, layout: Layout, value: str) -> str | None:
        """The expression that converts a field that is not a struct; None if its value never needs converting."""
        if slot.name in self.always:
            return f"redacted({value})"
        if slot.name in self.flagged:
            flag = f"v[{secrets.FLAG!r}]" if secrets.FLAG in layout.order else "s"
            return f"redacted({value}) if {flag} else {value}"
        if slot.name in self.named:
            return f"config(v[{secrets.NAME!r}], {value})"
        array = slot.shape is Shape.ARRAY
        one = slot.element if slot.element is not None else slot
        if slot.name == "unalignedRecords":
            return f"None if {value} is None else unaligned({value})"
        function = (_FIXED if one.shape is Shape.FIXED else _BYTES if one.shape is Shape.BYTES else {}).get(one.type)
        if function is None:
            return None
        if array:
            return f"None if {value} is None else [{function}(x) for x in {value}]"
        if one.shape is Shape.BYTES:
            return f"None if {value} is None else {function}({value})"
        return f"{function}({value})"

    def struct(self, layout: Layout) -> str | None:
        """The name of the function that converts a struct; None if none of its fields ever needs converting."""
        lines: list[str] = []
        for slot in layout.every():
            value = f"v[{slot.name!r}]"
            if slot.layout is not None:
                inner = self.struct(slot.layout)
                if inner is None:
                    continue
                flag = f"v[{secrets.FLAG!r}]" if secrets.FLAG in layout.order else "s"
                change = (
                    f"[{inner}(x, {flag}) for x in {value}] if {value} else {value}"
                    if slot.shape is Shape.ARRAY
                    else f"None if {value} is None else {inner}({value}, {flag})"
                )
            else:
                leaf = self.leaf(slot, layout, value)
                if leaf is None:
                    continue
                change = leaf
            condition = f"if {slot.name!r} in v: " if slot.tag is not None else ""
            lines.append(f"    {condition}r[{slot.name!r}] = {change}\n")
        if not lines and not layout.flexible:
            return None
        name = f"struct{len(self.functions)}"
        if lines:
            text = f"def {name}(v, s=None):\n    r = dict(v)\n" + "".join(lines)
            if layout.flexible:
                text += f"    if {UNKNOWN_TAGS!r} in v: r[{UNKNOWN_TAGS!r}] = unknown(v[{UNKNOWN_TAGS!r}])\n"
            text += "    return r\n"
        else:
            text = (
                f"def {name}(v, s=None):\n"
                f"    if {UNKNOWN_TAGS!r} not in v: return v\n"
                "    r = dict(v)\n"
                f"    r[{UNKNOWN_TAGS!r}] = unknown(v[{UNKNOWN_TAGS!r}])\n"
                "    return r\n"
            )
        self.functions.append(text)
        return name


def _compile(message: Message, version: int, *, show_secrets: bool) -> Callable[[Mapping[str, Any]], Any]:
    converter = _Converter(message, show_secrets=show_secrets)
    name = converter.struct(layout_of(message, version))
    if name is None:
        return _as_is
    names: dict[str, Any] = {
        "redacted": secrets.redacted,
        "config": _config,
        "uuid": uuid_json,
        "number": float_json,
        "base64": base64,
        "records": RecordsForm,
        "unaligned": unaligned_records,
        "unknown": _unknown,
    }
    exec(compile("".join(converter.functions), f"<JSON of {message.name} v{version}>", "exec"), names)  # noqa: S102
    convert: Callable[[Mapping[str, Any]], Any] = names[name]
    return convert


def _as_is(values: Mapping[str, Any]) -> Any:
    return values


class _Plan(NamedTuple):
    """How a message becomes JSON: the converter, its bytes fields of known format, and its layout if it has records."""

    convert: Callable[[Mapping[str, Any]], Any]
    places: tuple[embedded.Place, ...]
    records: Layout | None


def _plan(message: Message, version: int, *, show_secrets: bool) -> _Plan:
    convert = _compile(message, version, show_secrets=show_secrets)
    return _Plan(convert, embedded.places(message, version), with_records(message, version))


@per_version
def _open(message: Message, version: int) -> _Plan:
    return _plan(message, version, show_secrets=True)


@per_version
def _closed(message: Message, version: int) -> _Plan:
    return _plan(message, version, show_secrets=False)


class RecordsPlace(NamedTuple):
    """A records field of a body.

    `steps` are the names and indices on its path, `around` the JSON objects around it, innermost first.
    """

    steps: tuple[str | int, ...]
    form: RecordsForm
    around: tuple[Mapping[str, Any], ...]

    @property
    def path(self) -> str:
        """The field's path in the form of problems: topicData[0].partitionData[1].records."""
        text = "".join(f".{step}" if isinstance(step, str) else f"[{step}]" for step in self.steps)
        return text[1:]


def records_forms(body: Any, message: Message, version: int) -> list[RecordsPlace]:
    """The records fields in a result of `body_json`."""
    layout = with_records(message, version)
    found: list[RecordsPlace] = []
    if layout is not None:
        _forms(body, layout, (), (), found)
    return found


@per_version
def with_records(message: Message, version: int) -> Layout | None:
    """A message's layout, reduced to records fields and the structs that hold them; None if there are none."""
    return _pruned(layout_of(message, version))


def _pruned(layout: Layout) -> Layout | None:
    """The layout reduced to records fields and the structs that hold them; None if no field is left."""
    kept = {}
    for slot in layout.every():
        inner = None if slot.layout is None else _pruned(slot.layout)
        if inner is not None or slot.type == "records":
            kept[slot.name] = replace(slot, layout=inner)
    return replace(layout, slots=tuple(kept.values()), tagged={}, order=tuple(kept)) if kept else None


def _forms(
    body: Any,
    layout: Layout,
    steps: tuple[str | int, ...],
    above: tuple[Mapping[str, Any], ...],
    found: list[RecordsPlace],
) -> None:
    """Append the records fields of a struct to `found`; `steps` are the names and indices on the path to the struct."""
    around = (body, *above)
    for slot in layout.slots:
        name, inner = slot.name, slot.layout
        value = body.get(name)
        if not value:
            continue
        if inner is None:
            if type(value) is RecordsForm:
                found.append(RecordsPlace((*steps, name), value, around))
        elif type(value) is list:
            for index, element in enumerate(value):
                _forms(element, inner, (*steps, name, index), around, found)
        else:
            _forms(value, inner, (*steps, name), around, found)
