"""The interface of exports, which turn the items of a reading into text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from kproxy.decoders.exchange import Exchange, Health, StreamProblem
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Source


class Reading(Protocol):
    """The part of captures.reader.Reader that exports use."""

    @property
    def source(self) -> Source: ...
    @property
    def definitions(self) -> Definitions: ...
    @property
    def health(self) -> Health: ...
    @property
    def precision(self) -> int:
        """Number of decimal digits of a second in times."""
        ...


class Lines(Protocol):
    """Turns the items of a reading into text in UTF-8.

    A reading yields exchanges and problems of streams in the order in which they became complete, and one `Health` at
    its end. The output is the results of `begin`, of `lines` for all items in order, and of `end`.
    """

    problems: int
    """Number of problems so far that the text leaves out; the command prints the total as a warning."""

    def begin(self) -> bytes:
        """The text before the first item, such as a header line."""
        ...

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes:
        """The text of the next items; items of kinds that the format does not show have no text."""
        ...

    def end(self) -> bytes:
        """The text after the last item."""
        ...


@runtime_checkable
class Pieces(Lines, Protocol):
    """A Lines whose text may be too long to hold in memory at once."""

    def pieces(self, items: Sequence[Exchange | StreamProblem | Health]) -> Iterator[bytes]:
        """The text of the next items, as from `lines`, in pieces."""
        ...
