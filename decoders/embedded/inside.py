"""The decoded content of a bytes field: the interface that all readers of bytes fields return."""

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
    """The decoded content of a bytes field.

    `label` names the content in a few words. `guessed`: the format was inferred from the bytes alone. `readable`: there
    is a JSON form. `wrong`: a part could not be decoded. `public`: the field may hold secrets, but these bytes hold
    none. `fields`: the message and version that define the nodes' fields; None if no message defines them.
    """

    label: str
    guessed: bool = False
    readable: bool = True
    wrong: bool = False
    public: bool = False
    fields: tuple[Message, int] | None = None

    def json(self, to_json: ToJson, scope: Scope) -> Any:
        """The content as JSON; None if it has no JSON form. May set `readable` to False."""
        raise NotImplementedError

    def nodes(self, node: Node, buffer: Buffer, scope: Scope) -> Iterable[Node]:
        """The nodes of the content, to be put below the field's own `node`; their offsets count in `buffer`."""
        raise NotImplementedError


Reader = Callable[[Buffer, Scope], Inside | None]
"""A function (bytes, scope) that decodes the content of a bytes field; it returns None for an unknown format."""


def content_start(node: Node) -> int:
    """Offset at which the content of a bytes node begins, after its length field."""
    return node.end - len(node.value)
