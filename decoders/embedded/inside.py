"""The decoded content of a bytes field: the interface that all its readers return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View


class ToJson(Protocol):
    """Type of `decoders.jsonform.body_json`, which turns a message's decoded values into JSON."""

    def __call__(
        self, values: Mapping[str, Any], message: Message, version: int, view: View, scope: Scope | None
    ) -> Any: ...


class Inside:
    """The decoded content of bytes.

    `label` names it in a few words. `guessed`: its type was inferred only because it fits. `readable`: it has a JSON
    form. `wrong`: some of it could not be decoded. `public`: the bytes of a field that can hold secrets hold none.
    `fields`: the message and version whose fields its nodes are, if they are any message's.
    """

    label: str
    guessed: bool = False
    readable: bool = True
    wrong: bool = False
    public: bool = False
    fields: tuple[Message, int] | None = None

    def json(self, to_json: ToJson, scope: Scope) -> Any:
        """The JSON form; None if there is none. May set `readable` to False."""
        raise NotImplementedError

    def nodes(self, node: Node, buffer: Buffer, scope: Scope) -> Iterable[Node]:
        """The nodes below the bytes' own `node`; offsets count in `buffer`."""
        raise NotImplementedError


Reader = Callable[[Buffer, Scope], Inside | None]
"""Decodes bytes; None if their format is unknown."""


def content_start(node: Node) -> int:
    """Offset of a bytes node's content, after its length."""
    return node.end - len(node.value)
