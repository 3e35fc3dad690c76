"""What the reading of bytes inside a message may ask: what stands around them, and what came before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kproxy.decoders.records.batches import Trouble
from kproxy.decoders.schema.lookup import Definitions, definitions
from kproxy.decoders.view import PLAIN, View

DEEPEST: Final = 16
"""Messages inside each other that are read."""


@dataclass(slots=True)
class Found:
    """What came to light inside: whether something could not be read, and the troubles of records, by path.

    `left_out` is how many troubles of records were not kept.
    """

    wrong: bool = False
    own: bool = False
    """Something is wrong in records of the message itself."""
    records: list[tuple[str, Trouble]] = field(default_factory=list)
    left_out: int = 0


@dataclass(slots=True)
class Scope:
    """`around` are the structs around the bytes, innermost first; `path` is the field's own.

    `asked` is the body of the request that the message answers, None where it is one or was not seen; `depth` counts
    the messages around this one.
    """

    view: View = PLAIN
    definitions: Definitions = field(default_factory=definitions)
    asked: Mapping[str, Any] | None = None
    around: tuple[Mapping[str, Any], ...] = ()
    path: str = ""
    depth: int = 0
    found: Found = field(default_factory=Found)

    def at(self, around: tuple[Mapping[str, Any], ...], path: str) -> Scope:
        """The scope of bytes at `path` of this scope's message, in the structs `around`, innermost first."""
        return replace(self, around=(*around, *self.around), path=f"{self.path}.{path}" if self.path else path)

    def within(self, part: str, asked: Mapping[str, Any] | None) -> Scope:
        """The scope of a whole message inside these bytes; `part` is what it is called there ("body")."""
        return replace(self, asked=asked, around=(), path=f"{self.path}.{part}", depth=self.depth + 1)

    def text(self, *names: str) -> str | None:
        """The first text that is not empty under one of these names, from the inside out, the request last."""
        structs = self.around if self.asked is None else (*self.around, self.asked)
        for struct in structs:
            for name in names:
                value = struct.get(name)
                if isinstance(value, str) and value:
                    return value
        return None
