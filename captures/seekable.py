"""Reads seekable zstd files in place: files of many frames that end with a seek table (zstd's contrib/seekable_format).

Each frame can be decompressed alone.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kproxy.captures.compression import PIECE, CompressionError

FOOTER: Final = struct.Struct("<IBI")
"""The last bytes of the file: number of frames, descriptor of the table's entries, MAGIC."""
MAGIC: Final = 0x8F92EAB1
HEADER: Final = struct.Struct("<II")
"""Header of the skippable frame that holds the seek table: SKIPPED, number of bytes that follow."""
SKIPPED: Final = 0x184D2A5E
_CHECKSUMS: Final = 0x80
_RESERVED: Final = 0x7C
LARGEST_FRAME: Final = 16 << 20
"""Maximum decompressed bytes of a frame: with a larger one, reading in place would decompress too much."""
LARGEST_TABLE: Final = 64 << 20
CACHED: Final = 32 << 20
"""Maximum decompressed bytes of recently used frames in the cache."""


@dataclass(slots=True)
class Frames:
    """The frames of an open seekable file.

    `starts` are the frames' offsets in the file, `addresses` those in the decompressed bytes; both end with an entry
    for the end.
    """

    descriptor: int
    starts: array[int]
    addresses: array[int]
    _cached: OrderedDict[int, bytes] = field(default_factory=OrderedDict)

    @property
    def size(self) -> int:
        """Number of decompressed bytes of all frames."""
        return self.addresses[-1]

    def read(self, start: int, end: int) -> bytes:
        """The decompressed bytes [start, end); fewer if the file ends before or is damaged."""
        found = bytearray()
        end = min(end, self.size)
        while start < end:
            index = bisect_right(self.addresses, start) - 1
            try:
                frame = self._frame(index)
            except (CompressionError, OSError):
                break
            offset = start - self.addresses[index]
            piece = frame[offset : offset + end - start]
            found += piece
            start += len(piece)
        return bytes(found)

    def pieces(self) -> Iterator[bytes]:
        """All decompressed bytes in order, in pieces of at most PIECE bytes. Raises CompressionError, OSError."""
        for index in range(len(self.starts) - 1):
            frame = self._decompressed(index)
            for at in range(0, len(frame), PIECE):
                yield frame[at : at + PIECE]

    def _frame(self, index: int) -> bytes:
        frame = self._cached.get(index)
        if frame is None:
            frame = self._cached[index] = self._decompressed(index)
            while len(self._cached) > 1 and sum(map(len, self._cached.values())) > CACHED:
                self._cached.popitem(last=False)
        else:
            self._cached.move_to_end(index)
        return frame

    def _decompressed(self, index: int) -> bytes:
        import zstandard

        at, size = self.starts[index], self.addresses[index + 1] - self.addresses[index]
        if not size:
            return b""
        packed = os.pread(self.descriptor, self.starts[index + 1] - at, at)
        try:
            # asks for one byte more than the table says, because a longer frame shows that the table is wrong
            frame = zstandard.ZstdDecompressor().stream_reader(packed).read(size + 1)
        except zstandard.ZstdError as error:
            raise CompressionError(f"the zstd data is damaged: {error}") from None
        if len(frame) != size:
            raise CompressionError(f"the zstd data is damaged: the frame at byte {at} is not what the seek table says")
        return frame


def frames(descriptor: int) -> Frames | None:
    """The frames of an open file; None if it is not seekable zstd or its frames are too large to be read in place.

    A wrong seek table is noticed only when its frames are read: `Frames.pieces` raises CompressionError.
    """
    end = os.fstat(descriptor).st_size
    footer = os.pread(descriptor, FOOTER.size, max(0, end - FOOTER.size))
    if len(footer) < FOOTER.size:
        return None
    count, how, magic = FOOTER.unpack(footer)
    entry = struct.Struct("<II4x" if how & _CHECKSUMS else "<II")
    size = count * entry.size + FOOTER.size
    table = end - HEADER.size - size
    if magic != MAGIC or how & _RESERVED or not count or size > LARGEST_TABLE or table < 0:
        return None
    held = os.pread(descriptor, HEADER.size + size - FOOTER.size, table)
    if len(held) != HEADER.size + size - FOOTER.size or HEADER.unpack_from(held) != (SKIPPED, size):
        return None
    starts, addresses = array("Q", [0]), array("Q", [0])
    for packed, plain in entry.iter_unpack(memoryview(held)[HEADER.size :]):
        if plain > LARGEST_FRAME or packed > 2 * LARGEST_FRAME:
            return None
        starts.append(starts[-1] + packed)
        addresses.append(addresses[-1] + plain)
    return Frames(descriptor, starts, addresses) if starts[-1] == table else None
