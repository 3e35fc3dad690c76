"""Interface of exports: text made from the items of a reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from kproxy.decoders.exchange import Exchange, Health, StreamProblem
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Source


class Reading(Protocol):
    """The part of captures.reader.Reader on which the text of its items depends."""

    @property
    def source(self) -> Source: ...
    @property
    def definitions(self) -> Definitions: ...
    @property
    def health(self) -> Health: ...
    @property
    def precision(self) -> int:
        """Number of decimal digits of a second."""
        ...


class Lines(Protocol):
    """Turns the items of a reading into UTF-8, in order.

    `problems` counts problems that the text does not contain.
    """

    problems: int

    def begin(self) -> bytes: ...

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes: ...

    def end(self) -> bytes: ...


@runtime_checkable
class Pieces(Lines, Protocol):
    """Lines whose text may be too long to hold at once."""

    def pieces(self, items: Sequence[Exchange | StreamProblem | Health]) -> Iterator[bytes]:
        """The text of `lines` in pieces."""
        ...
