"""The type of a record, and the error of bytes that are not records."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.decoders.problems import Code

Header = tuple[bytes, bytes | None]
"""Key and value of a record's header."""

Record = tuple[int, int | None, bytes | None, bytes | None, Sequence[Header]]
"""(offset, timestamp in milliseconds, key, value, headers).

A plain tuple for speed: there are millions of them. The timestamp is None in magic 0.
"""

NO_HEADERS: Sequence[Header] = ()


class RecordsError(Exception):
    """Bytes cannot be read as records.

    `position` is an offset in the bytes that were read, `index` the faulty record (None for the batch as a whole),
    `part` the faulty part of it ("key", "headers[2].value", "" for the whole record).
    """

    def __init__(self, code: Code, message: str, position: int, index: int | None = None, part: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position
        self.index = index
        self.part = part
