"""Find the next response after lost bytes in a capture without requests.

Without requests no correlation ids are expected. A frame is accepted if its id is a little higher than the last one,
some Kafka response's layout reads it to its last byte, and the bytes after it in its TCP segment begin like a response.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct

from kproxy.decoders.message import response_fits
from kproxy.decoders.schema.lookup import Definitions

_HEAD = Struct(">ii")
_AHEAD = 1 << 16
"""How much higher than the last correlation id the next one may be."""
_SHORTEST = 12
"""A shorter frame than this many bytes fits too many definitions to prove anything."""
_ANYWHERE = re.compile(rb"[\x00-\x07](?=...(?<!\x00\x00\x00[\x00-\x0b])\x00...)", re.DOTALL)


class Unasked:
    """Tells responses of a connection by themselves; `last_id` is the correlation id of the last one, if any."""

    __slots__ = ("_definitions", "_limit", "last_id")

    def __init__(self, definitions: Definitions, limit: int) -> None:
        self._definitions = definitions
        self._limit = limit
        self.last_id: int | None = None

    def starts(self, window: bytes) -> Iterator[re.Match[bytes]]:
        """The places in `window` where a response may begin."""
        if self.last_id is None:
            return _ANYWHERE.finditer(window)
        halves = {self.last_id >> 16 & 0xFFFF, (self.last_id + _AHEAD) >> 16 & 0xFFFF}
        ids = b"|".join(re.escape(half.to_bytes(2, "big")) for half in sorted(halves))
        return re.finditer(rb"[\x00-\x07](?=...(?<!\x00\x00\x00[\x00-\x0b])(?:" + ids + rb")..)", window, re.DOTALL)

    def size(self, head: bytes, position: int = 0) -> int:
        """Size of the response whose first 8 bytes are at `position` of `head`, -1 where none can begin with them."""
        size, correlation_id = _HEAD.unpack_from(head, position)
        if not _SHORTEST <= size <= self._limit or not self._follows(correlation_id, self.last_id):
            return -1
        return int(size)

    def proves(self, frame: bytes, behind: bytes) -> bool:
        """Whether a whole frame is a response; `behind` is what follows it in its segment, up to 8 bytes."""
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
