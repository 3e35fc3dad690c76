"""What bytes turn out to hold: the one form in which every reader of bytes answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View


class ToJson(Protocol):
    """Values of a message to JSON: `decoders.jsonform.body_json`."""

    def __call__(
        self, values: Mapping[str, Any], message: Message, version: int, view: View, scope: Scope | None
    ) -> Any: ...


class Inside:
    """What bytes hold.

    `label` names it in a few words; `guessed` says that nothing but its fitting tells what it is. `readable` is
    whether it has a JSON form, `wrong` whether something about it could not be read. `public` says that bytes which
    may be secret are not.
    """

    label: str
    guessed: bool = False
    readable: bool = True
    wrong: bool = False
    public: bool = False

    def json(self, to_json: ToJson, scope: Scope) -> Any:
        """Its JSON form. May set `readable` to False, and gives None then."""
        raise NotImplementedError

    def nodes(self, node: Node, buffer: Buffer, scope: Scope) -> Iterable[Node]:
        """The nodes that hang below the bytes' own `node`, whose offsets count in `buffer`."""
        raise NotImplementedError


Reader = Callable[[Buffer, Scope], Inside | None]
"""Says what bytes hold, None where nothing does."""


def content_start(node: Node) -> int:
    """Where the content of a bytes node begins, after its length."""
    return node.end - len(node.value)
