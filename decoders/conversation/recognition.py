"""Which protocol a connection speaks, told by its first bytes on any port."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decoders.schema import Definitions


def which_side_asks(first: bytes, second: bytes, definitions: Definitions) -> int | None:
    """Which of two directions of a connection whose opening was not captured is the client's.

    `first` and `second` are the earliest bytes held of each (some hundred will do, either may be empty).
    Returns 0 where `first` asks, 1 where `second` does, None where the bytes do not tell (look at the ports then).
    """
    raise NotImplementedError
