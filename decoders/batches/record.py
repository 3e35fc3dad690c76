"""The type of a record, and the exception for bytes that are not records."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.decoders.problems import Code

Header = tuple[bytes, bytes | None]
"""(key, value) of a record's header; the value may be None."""

Record = tuple[int, int | None, bytes | None, bytes | None, Sequence[Header]]
"""(offset, timestamp in milliseconds, key, value, headers); the timestamp is None in magic 0.

A plain tuple for speed: there are millions of records.
"""

NO_HEADERS: Sequence[Header] = ()


class RecordsError(Exception):
    """Bytes cannot be read as records.

    `position` is an offset in the bytes that were read. `index` is the index of the faulty record, None if the fault
    concerns the whole batch. `part` is the faulty part of the record ("key", "headers[2].value"), "" for the whole
    record.
    """

    def __init__(self, code: Code, message: str, position: int, index: int | None = None, part: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position
        self.index = index
        self.part = part
