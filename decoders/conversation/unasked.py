"""Finds the next response after lost bytes in a capture without requests.

Without requests no correlation ids are expected. A frame is accepted if its correlation id is a little higher than the
last one, some Kafka response layout decodes it to its last byte, and the bytes after it in its TCP segment begin like a
response.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct

from kproxy.decoders.message import response_fits
from kproxy.decoders.schema.lookup import Definitions

_HEAD = Struct(">ii")
_AHEAD = 1 << 16
"""Maximum difference between a correlation id and the next one."""
_SHORTEST = 12
"""Shortest frame in bytes that is accepted: a shorter one fits so many definitions that it proves nothing."""
_ANYWHERE = re.compile(rb"[\x00-\x07](?=...(?<!\x00\x00\x00[\x00-\x0b])\x00...)", re.DOTALL)


class Unasked:
    """Recognises the responses of a connection without its requests.

    `last_id` is the last response's correlation id, None before the first.
    """

    __slots__ = ("_definitions", "_limit", "last_id")

    def __init__(self, definitions: Definitions, limit: int) -> None:
        self._definitions = definitions
        self._limit = limit
        self.last_id: int | None = None

    def starts(self, window: bytes) -> Iterator[re.Match[bytes]]:
        """The matches in `window` at which a response may begin."""
        if self.last_id is None:
            return _ANYWHERE.finditer(window)
        halves = {self.last_id >> 16 & 0xFFFF, (self.last_id + _AHEAD) >> 16 & 0xFFFF}
        ids = b"|".join(re.escape(half.to_bytes(2, "big")) for half in sorted(halves))
        return re.finditer(rb"[\x00-\x07](?=...(?<!\x00\x00\x00[\x00-\x0b])(?:" + ids + rb")..)", window, re.DOTALL)

    def size(self, head: bytes, position: int = 0) -> int:
        """Size in bytes of the response whose first 8 bytes are at `position` of `head`.

        -1 if these begin no response.
        """
        size, correlation_id = _HEAD.unpack_from(head, position)
        if not _SHORTEST <= size <= self._limit or not self._follows(correlation_id, self.last_id):
            return -1
        return int(size)

    def proves(self, frame: bytes, behind: bytes) -> bool:
        """Whether a whole frame is a response; `behind` holds the bytes after it in its TCP segment, at most 8."""
        if len(behind) == _HEAD.size:
            size, following = _HEAD.unpack(behind)
            if not 4 <= size <= self._limit or not self._follows(following, _HEAD.unpack_from(frame)[1]):
                return False
        return any(response_fits(frame, key, version, self._definitions) for key, version in self._definitions.pairs())

    @staticmethod
    def _follows(correlation_id: int, last: int | None) -> bool:
        if last is None:
            return correlation_id >= 0
        return 0 < (correlation_id - last) & 0xFFFFFFFF <= _AHEAD
