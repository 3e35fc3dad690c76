"""Exchanges with structures inside of bytes fields."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from kproxy.decoders.embedded.definitions import definition, versions
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.support.scripts import Script, eyes, play


def structure(name: str, version: int, /, *, prefix: int | None = None, **values: Any) -> bytes:
    """A structure that begins with its version as int16 (or `prefix` instead), or has a version field itself."""
    message = definition(name, version)
    assert message is not None
    if message.fields[0].name == "version":
        return write(message, version, {"version": version, **values})
    return (version if prefix is None else prefix).to_bytes(2, "big", signed=True) + write(message, version, values)


def newest(name: str) -> int:
    return versions(name).high


def text(data: bytes) -> str:
    return b64encode(data).decode()


def lines(*frames: tuple[bytes, bytes], view: View | None = None) -> list[dict[str, Any]]:
    """Exported lines for (request, response) frames on one connection."""
    script = Script()
    for asked, answered in frames:
        script.client(asked).broker(answered)
    played = play(script.end())
    view = view or View()
    out = [exchange_json(item, played.tape, eyes(), view=view) for item in played.exchanges]
    json.dumps(out, allow_nan=False)
    return out
