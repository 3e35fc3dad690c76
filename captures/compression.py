"""Decompresses streams of gzip, zstd, lz4 frames and xz, also concatenated; the first bytes tell the format."""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Final, cast

PIECE: Final = 1 << 20
"""Maximum number of decompressed bytes in a piece."""
MAGIC_SIZE: Final = 4
_GZIP_WINDOW: Final = 31
_ZSTD_INPUT: Final = 4096
"""Compressed bytes that are decompressed at a time; they expand to at most 128 MB."""


_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_HEADER: Final = 18
"""Size in bytes of the longest zstd frame header."""


class CompressionError(ValueError):
    """A compressed stream is damaged or truncated; the message says where or why."""


def _gzip(stream: io.RawIOBase) -> Iterator[bytes]:
    from isal import isal_zlib

    member = isal_zlib.decompressobj(_GZIP_WINDOW)
    while data := stream.read(PIECE):
        while data:
            if member.eof:
                data = data.lstrip(b"\0")  # zeros may pad the end of a stream, as on tapes
                if not data:
                    break
                member = isal_zlib.decompressobj(_GZIP_WINDOW)
            if made := member.decompress(data, PIECE):
                yield made
            data = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        raise EOFError


def _lz4(stream: io.RawIOBase) -> Iterator[bytes]:
    import lz4.frame

    with lz4.frame.LZ4FrameFile(stream) as file:
        while data := file.read1(PIECE):
            yield data


def _xz(stream: io.RawIOBase) -> Iterator[bytes]:
    with lzma.LZMAFile(cast("IO[bytes]", stream)) as file:
        while data := file.read1(PIECE):
            yield data


def _zstd(stream: io.RawIOBase) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    try:
        while data := stream.read(_ZSTD_INPUT):
            while data:
                if frame.eof:
                    frame = decompressor.decompressobj()
                if made := frame.decompress(data):
                    yield made
                data = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        raise CompressionError(str(error)) from None
    if not frame.eof:
        raise EOFError


_READERS: Final[tuple[tuple[bytes, str, Callable[[io.RawIOBase], Iterator[bytes]]], ...]] = (
    (b"\x1f\x8b", "gzip", _gzip),
    (_ZSTD_MAGIC, "zstd", _zstd),
    *((bytes((low, 0x2A, 0x4D, 0x18)), "zstd", _zstd) for low in range(0x50, 0x60)),  # skippable frames (pzstd)
    (b"\x04\x22\x4d\x18", "lz4", _lz4),
    (b"\xfd7zX", "xz", _xz),
)


def is_compressed(start: bytes) -> bool:
    """Whether a stream is compressed, judged by `start`, its first MAGIC_SIZE bytes."""
    return any(start.startswith(magic) for magic, _, _ in _READERS)


def least_size(descriptor: int) -> int:
    """Estimated size in bytes of a file's decompressed content, 0 for a pipe.

    The estimate is the size in the header of a zstd file, or the size of the file itself.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return 0
    start = os.pread(descriptor, _ZSTD_HEADER, 0)
    if start.startswith(_ZSTD_MAGIC):
        import zstandard

        with contextlib.suppress(zstandard.ZstdError):
            return max(zstandard.frame_content_size(start), status.st_size)
    return status.st_size


def pieces(descriptor: int) -> Iterator[bytes]:
    """The content of a file or pipe in pieces as they arrive, decompressed if it is compressed.

    Raises CompressionError for damaged or truncated data, after everything before it was yielded, and OSError.
    """
    start = b""
    while len(start) < MAGIC_SIZE and (more := os.read(descriptor, MAGIC_SIZE - len(start))):
        start += more
    for magic, name, read in _READERS:
        if start.startswith(magic):
            yield from _decompressed(read(_Rewound(start, descriptor)), name)
            return
    while start:
        yield start
        start = os.read(descriptor, PIECE)


def _decompressed(read: Iterator[bytes], name: str) -> Iterator[bytes]:
    from isal import isal_zlib

    try:
        yield from read
    except EOFError:
        raise CompressionError(f"the {name} data is truncated: its end marker is missing") from None
    except (CompressionError, lzma.LZMAError, isal_zlib.IsalError, zlib.error, RuntimeError) as error:
        raise CompressionError(f"the {name} data is damaged: {error}") from None


class _Rewound(io.RawIOBase):
    """Reads from a descriptor whose first bytes, `start`, were read already."""

    def __init__(self, start: bytes, descriptor: int) -> None:
        self._start = start
        self._descriptor = descriptor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # narrower than any buffer
        if self._start:
            count = min(len(self._start), len(buffer))
            buffer[:count] = self._start[:count]
            self._start = self._start[count:]
            return count
        return os.readv(self._descriptor, [buffer])
