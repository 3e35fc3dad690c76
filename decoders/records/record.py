"""What a record is here, and what stops the reading of records."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.decoders.problems import Code

Header = tuple[bytes, bytes | None]
"""Key and value of a record's header."""

Record = tuple[int, int | None, bytes | None, bytes | None, Sequence[Header]]
"""(offset, timestamp in milliseconds, key, value, headers).

A plain tuple, because millions are made. The timestamp is None in magic 0.
"""

NO_HEADERS: Sequence[Header] = ()


class RecordsError(Exception):
    """Bytes that are no records.

    `position` counts in the bytes that were read, `index` is the record that it concerns (None for all of them), `part`
    what of it ("key", "headers[2].value", "" for the whole).
    """

    def __init__(self, code: Code, message: str, position: int, index: int | None = None, part: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position
        self.index = index
        self.part = part
