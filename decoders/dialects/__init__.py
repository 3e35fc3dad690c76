"""Dialects: protocols with Kafka's framing, defined as data: headers, direction of requests, pairing.

docs/dialects.md describes the files; `data` holds the dialects that come with kproxy.
"""

from __future__ import annotations

from importlib.resources import files

_SUFFIX = ".json"


def shipped() -> tuple[str, ...]:
    """Names of the dialects that come with kproxy."""
    data = files("kproxy.decoders.dialects") / "data"
    return tuple(sorted(one.name.removesuffix(_SUFFIX) for one in data.iterdir() if one.name.endswith(_SUFFIX)))


def text_of(name: str) -> str:
    """The text of the file of a dialect that comes with kproxy."""
    return (files("kproxy.decoders.dialects") / "data" / f"{name}{_SUFFIX}").read_text("utf-8")
