"""The context for decoding bytes inside a message: the structs around them, and for a response its request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from kproxy.decoders.batches.batch import Trouble
from kproxy.decoders.problems import Problem
from kproxy.decoders.schema.lookup import Definitions, definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import PLAIN, View

DEEPEST: Final = 16
"""Maximum depth to which messages inside messages are decoded."""


@dataclass(slots=True)
class Found:
    """Faults found while bytes fields are decoded.

    `wrong` says that a part could not be decoded. `records` holds (path, fault) for faults of records, `left_out` the
    number of such faults that were dropped.
    """

    wrong: bool = False
    own: bool = False
    """Whether records in the message itself have a fault; records of an enclosed message do not count."""
    records: list[tuple[str, Trouble]] = field(default_factory=list)
    left_out: int = 0


class Parts(Protocol):
    """Type of `decoders.frame_tree.parts`, which adds the nodes of a whole message below `root`."""

    def __call__(
        self, root: Node, buffer: memoryview, start: int, side: Side, api_key: int, api_version: int, scope: Scope
    ) -> Problem | None: ...


@dataclass(slots=True)
class Scope:
    """The context of some bytes: `around` are the values of the structs around them, innermost first.

    `path` is their path.

    `asked` is the body of the request that the message answers; None if the message is a request or its request is
    missing. `depth` is the number of messages around this one. `parts` makes the nodes of a message inside the bytes;
    without it such a message has no nodes.
    """

    view: View = PLAIN
    definitions: Definitions = field(default_factory=definitions)
    asked: Mapping[str, Any] | None = None
    around: tuple[Mapping[str, Any], ...] = ()
    path: str = ""
    depth: int = 0
    found: Found = field(default_factory=Found)
    parts: Parts | None = None

    def at(self, around: tuple[Mapping[str, Any], ...], path: str) -> Scope:
        """The scope of the bytes field at `path` of this scope's message.

        `around` are the structs around it, innermost first.
        """
        return replace(self, around=(*around, *self.around), path=f"{self.path}.{path}" if self.path else path)

    def within(self, part: str, asked: Mapping[str, Any] | None) -> Scope:
        """The scope of a message inside these bytes.

        `part` is its name in their JSON form ("body"), `asked` its request's body.
        """
        return replace(self, asked=asked, around=(), path=f"{self.path}.{part}", depth=self.depth + 1)

    def text(self, *names: str) -> str | None:
        """The first non-empty string field with one of these names.

        The structs around the bytes are searched first, innermost first, and the request last.
        """
        structs = self.around if self.asked is None else (*self.around, self.asked)
        for struct in structs:
            for name in names:
                value = struct.get(name)
                if isinstance(value, str) and value:
                    return value
        return None
