"""Decodes bytes fields that hold text, or a value with a standard text form."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from kproxy.decoders.embedded.inside import Inside, ToJson, content_start
from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.tree import Node


class Text(Inside):
    """The content of a bytes field as `text`; if that is None, `code` and `why` are those of the problem."""

    def __init__(self, text: str | None, code: Code, why: str) -> None:
        self.text = text
        self.code = code
        self.why = why
        self.readable = text is not None
        self.wrong = not self.readable
        self.label = text or ""

    def json(self, to_json: ToJson, scope: Scope) -> Any:
        del to_json, scope
        return self.text

    def nodes(self, node: Node, buffer: Buffer, scope: Scope) -> Iterable[Node]:
        del buffer, scope
        if self.text is None:
            node.problem = Problem("", content_start(node), node.path, self.why, self.code)
        return ()


def utf8(data: Buffer, scope: Scope) -> Text:
    """Decodes bytes that are UTF-8 text."""
    del scope
    try:
        return Text(bytes(data).decode(), Code.BAD_UTF8, "")
    except UnicodeDecodeError as error:
        return Text(None, Code.BAD_UTF8, f"not UTF-8: {error.reason}")


def address(data: Buffer, scope: Scope) -> Text:
    """Decodes the bytes of an IP address to its text form."""
    del scope
    text = str(ipaddress.ip_address(bytes(data))) if len(data) in {4, 16} else None
    return Text(text, Code.BAD_LENGTH, f"an IP address of {counted(len(data), 'byte')}")
