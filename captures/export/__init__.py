"""What a reading is written as."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from kproxy.decoders.exchange import Exchange, Health, StreamProblem
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Source


class Reading(Protocol):
    """What the text of a reading's items depends on (captures.reader.Reader)."""

    @property
    def source(self) -> Source: ...
    @property
    def definitions(self) -> Definitions: ...
    @property
    def health(self) -> Health: ...
    @property
    def precision(self) -> int:
        """Digits of a second."""
        ...


class Lines(Protocol):
    """Turns the items of a reading into UTF-8, in order.

    `problems` counts what is wrong in them where the text does not say it.
    """

    problems: int

    def begin(self) -> bytes: ...

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes: ...

    def end(self) -> bytes: ...


@runtime_checkable
class Pieces(Lines, Protocol):
    """Lines that may come to more text than should be held at once."""

    def pieces(self, items: Sequence[Exchange | StreamProblem | Health]) -> Iterator[bytes]:
        """The text of `lines` in pieces."""
        ...
