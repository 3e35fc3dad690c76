"""Adds the decoded content of bytes fields to a message's JSON: {"base64": …, "decoded": …} instead of base64 text."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.decoders.embedded.inside import Inside, ToJson
from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.embedded.table import Place
from kproxy.decoders.primitives import Buffer

Struct = Mapping[str, Any]


def show(body: Any, values: Struct, places: tuple[Place, ...], to_json: ToJson, scope: Scope) -> None:
    """Add the decoded content of the bytes fields at `places` to `body`, the JSON form of `values`, in place."""
    for place in places:
        for shown, around, path in _structs(body, (values,), place.above, ""):
            data = around[0].get(place.name)
            if not data:
                continue
            within = scope.at(around, path + place.name)
            inside = place.read(data, within)
            if inside is not None:
                shown[place.name] = form(shown[place.name], data, inside, to_json, within)


def form(plain: Any, data: Buffer, inside: Inside, to_json: ToJson, scope: Scope) -> Any:
    """The JSON form of bytes with their decoded content; `plain` is that of the bytes alone: base64, or withheld."""
    decoded = inside.json(to_json, scope)
    scope.found.wrong |= inside.wrong
    if not inside.readable:
        return plain
    if inside.public:
        plain = b2a_base64(data, newline=False).decode("ascii")
    whole = {**plain} if isinstance(plain, dict) else {"base64": plain}
    whole["decoded"] = decoded
    if inside.guessed:
        whole["guessed"] = True
    return whole


def _structs(
    body: Any, around: tuple[Struct, ...], above: tuple[str, ...], path: str
) -> Iterator[tuple[Any, tuple[Struct, ...], str]]:
    """For each struct at the path `above`: (its JSON form, its values followed by those of the structs around it, its
    path).
    """
    if not above:
        yield body, around, path
        return
    name = above[0]
    value = around[0].get(name)
    if not value:
        return
    if isinstance(value, list):
        for index, (one, shown) in enumerate(zip(value, body[name], strict=True)):
            yield from _structs(shown, (one, *around), above[1:], f"{path}{name}[{index}].")
    else:
        yield from _structs(body[name], (value, *around), above[1:], f"{path}{name}.")
