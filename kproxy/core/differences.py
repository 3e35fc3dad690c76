"""The fields in which two bodies differ, for packet comments; secrets are withheld."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.core.rewrite import Change
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.schema import Message
from kproxy.decoders.view import View

LONGEST = 200
"""Maximum length in characters of a field's value in a packet comment; longer values are cut."""

_PLAIN = View(open_batches=False, inside=False, knowledge=Knowledge(most=0))
"""Decoding options: secrets are withheld; record batches and embedded bytes are compared as a whole, not decoded."""


def differences(old: Mapping[str, Any], new: Mapping[str, Any], message: Message, version: int) -> list[Change]:
    """The changed fields between two values of a message."""
    return list(differing(_json(old, message, version), _json(new, message, version)))


def by(name: str, changes: list[Change]) -> list[Change]:
    """The changes, each with `name`, the name of who made it, in front of its path."""
    return [Change(f"{name}: {one.path}", one.old, one.new) for one in changes]


def _json(values: Mapping[str, Any], message: Message, version: int) -> Any:
    return json.loads(json.dumps(body_json(values, message, version, _PLAIN), default=str))


def differing(old: Any, new: Any, path: str = "") -> Iterator[Change]:
    """The paths at which two JSON values differ; lists of different length differ as a whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from differing(old.get(name), new.get(name), f"{path}.{name}" if path else name)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differing(before, after, f"{path}[{index}]")
    elif old != new:
        yield Change(path, _shown(old), _shown(new))


def _shown(value: Any) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
