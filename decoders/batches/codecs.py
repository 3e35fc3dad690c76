"""Decompresses record batches; a limit bounds the result, whatever size the compressed bytes claim.

Source: Kafka's `CompressionType` and its streams: gzip members, snappy in xerial's framing (some clients send a bare
block), one LZ4 frame, zstd frames. The libraries are loaded when a batch first needs them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import Buffer, read_unsigned_varint
from kproxy.decoders.problems import Code, DecodeError

if TYPE_CHECKING:
    import zstandard

DEFAULT_LIMIT: Final = 64 << 20
"""Maximum size in bytes of a decompressed batch."""

_PIECE: Final = 256 << 10
"""Maximum number of bytes to ask a codec for at a time: it may reserve that much memory at once."""
_LEAST_PIECE: Final = 4 << 10
_USUAL_RATIO: Final = 8
_GZIP: Final = 31
_ZSTD_WINDOW: Final = 1 << 27
"""The largest zstd window in bytes that Kafka's own reader accepts (zstd's default limit)."""
_SNAPPY_RATIO: Final = 64
"""An upper bound on the ratio by which a snappy block grows: three bytes of it can stand for 64."""
_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = 16
_INT32: Final = struct.Struct(">i")
_MASK: Final = 0xFFFFFFFF


class CodecError(Exception):
    """Bytes could not be decompressed; `code` is decompression_failed or decompression_limit."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def decompress(codec: str, data: Buffer, *, limit: int = DEFAULT_LIMIT, magic: int = 2) -> bytes:
    """Decompress the records of a batch of this magic.

    `codec` is "gzip", "snappy", "lz4", "zstd", or "none" for a copy.

    Raises CodecError if the bytes are damaged, the codec is unknown, or the result would exceed `limit` bytes.
    """
    if codec == "none":
        return bytes(data)
    reader = _READERS.get(codec)
    if reader is None:
        raise CodecError(Code.DECOMPRESSION_FAILED, f"no codec is called {codec}")
    if codec == "lz4" and magic == 0:
        data = with_right_header_checksum(data)
    pieces = []
    left = limit
    for piece in reader(data, limit):
        left -= len(piece)
        if left < 0:
            raise _beyond(codec, limit)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def lz4_size(data: Buffer) -> int:
    """Size of these bytes as an LZ4 frame, as a producer with compression.type=lz4 would send them."""
    import lz4.frame

    return len(lz4.frame.compress(data))


_lz4_idle: Final[list[Any]] = []
_zstd_idle: Final[list[zstandard.ZstdDecompressor]] = []
"""Decompressors to reuse: creating one takes a quarter of the time that a batch takes, and threads cannot share one."""


def _piece(data: Buffer) -> int:
    """Number of bytes to ask a codec for at a time: enough for the usual compression ratios, and little memory."""
    return min(_PIECE, _LEAST_PIECE + _USUAL_RATIO * len(data))


def _beyond(codec: str, limit: int) -> CodecError:
    return CodecError(Code.DECOMPRESSION_LIMIT, f"{codec} data decompress to more than {limit} bytes: not opened")


def _failed(codec: str, why: object) -> CodecError:
    return CodecError(Code.DECOMPRESSION_FAILED, f"{codec} data are damaged: {why}")


def _gzip(data: Buffer, limit: int) -> Iterator[bytes]:
    """Decompress all gzip members in sequence, as Java's GZIPInputStream does."""
    del limit
    from isal import isal_zlib

    if not data:
        raise _failed("gzip", "there are none")
    rest: Buffer = data
    while rest:
        member = isal_zlib.decompressobj(_GZIP)
        while not member.eof:
            try:
                piece = member.decompress(rest, _PIECE)
            except isal_zlib.error as error:
                raise _failed("gzip", error) from None
            rest = member.unconsumed_tail
            if not piece and not rest and not member.eof:
                raise _failed("gzip", "they end early")
            yield piece
        rest = member.unused_data


def _lz4(data: Buffer, limit: int) -> Iterator[bytes]:
    del limit
    import lz4.frame

    rest = memoryview(data)
    size = _piece(rest)
    context = _lz4_idle.pop() if _lz4_idle else lz4.frame.create_decompression_context()
    ended = False
    while not ended:
        try:
            piece, read, ended = lz4.frame.decompress_chunk(context, rest, max_length=size)
        except (RuntimeError, EOFError) as error:
            raise _failed("lz4", error) from None
        rest = rest[read:]
        if not piece and not ended:
            raise _failed("lz4", "they end early")
        yield piece
    _lz4_idle.append(context)


def _zstd(data: Buffer, limit: int) -> Iterator[bytes]:
    del limit
    import zstandard

    frames = _zstd_frames(memoryview(data))
    decompressor = _zstd_idle.pop() if _zstd_idle else zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    try:
        first = zstandard.get_frame_parameters(data)
        if frames == 1 and 0 < first.content_size <= _PIECE and first.window_size <= _ZSTD_WINDOW:
            yield decompressor.decompress(data)
        else:
            size = _piece(data)
            with decompressor.stream_reader(data, read_across_frames=True) as reader:
                while piece := reader.read(size):
                    yield piece
    except zstandard.ZstdError as error:
        raise _failed("zstd", error) from None
    _zstd_idle.append(decompressor)


def _zstd_frames(data: memoryview) -> int:
    """Number of zstd frames, including skippable ones. Raises CodecError unless the last frame ends at the last byte.

    This check is needed because the library accepts a truncated last frame (RFC 8878, 3.1.1).
    """
    position, end, frames = 0, len(data), 0
    while position < end:
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        elif magic == 0xFD2FB528 and position + 5 <= end:
            descriptor = data[position + 4]
            single = descriptor >> 5 & 1
            position += 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
            last = 0
            while not last and position + 3 <= end:
                block = int.from_bytes(data[position : position + 3], "little")
                last = block & 1
                position += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
            if not last:
                raise _failed("zstd", "they end early")
            position += 4 if descriptor & 4 else 0
        else:
            raise _failed("zstd", f"no frame begins at byte {position}")
        frames += 1
    if position > end or not data:
        raise _failed("zstd", "they end early")
    return frames


def _snappy(data: Buffer, limit: int) -> Iterator[bytes]:
    """Decompress block by block; a block's claimed size is checked before the library reserves that much memory."""
    import snappy

    for block in _snappy_blocks(memoryview(data)):
        size = _snappy_size(block, limit)
        try:
            plain: bytes = snappy.uncompress(bytes(block))
        except (snappy.UncompressError, ValueError, RuntimeError) as error:
            text = str(error) or f"a block of {counted(len(block), 'byte')} is not a snappy block"
            raise _failed("snappy", text) from None
        if len(plain) != size:
            raise _failed("snappy", f"a block claims {counted(size, 'byte')} and decompresses to {len(plain)}")
        limit -= size
        yield plain


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """The blocks in xerial's framing (SnappyOutputStream); bytes without that framing are one block."""
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        yield data
        return
    position, end = 0, len(data)
    while position < end:
        if bytes(data[position : position + len(_XERIAL)]) == _XERIAL:
            position += _XERIAL_HEADER
            if position > end:
                raise _failed("snappy", "the bytes end within a header")
            continue
        if position + _INT32.size > end:
            raise _failed("snappy", "the bytes end within the size of a block")
        (size,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 <= size <= end - position:
            left = end - position
            raise _failed("snappy", f"a block of {counted(size, 'byte')} where {left} {are(left)} left")
        yield data[position : position + size]
        position += size


def _snappy_size(block: memoryview, limit: int) -> int:
    """Decompressed size in bytes that a block claims.

    Raises CodecError if the size exceeds `limit`, or if the block is too short to decompress to that size.
    """
    try:
        size, _ = read_unsigned_varint(block, 0)
    except (DecodeError, IndexError):
        raise _failed("snappy", "a block has no length") from None
    if size > limit:
        raise _beyond("snappy", limit)
    if size > _SNAPPY_RATIO * len(block):
        raise _failed("snappy", f"a block of {counted(len(block), 'byte')} claims to hold {size}")
    return size


_READERS: Final[dict[str, Callable[[Buffer, int], Iterator[bytes]]]] = {
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}


def with_right_header_checksum(frame: Buffer) -> bytes:
    """The LZ4 frame with the descriptor checksum that the format defines.

    In message sets of magic 0, Kafka computed the checksum over the frame's magic number as well, and ignores it when
    reading (KAFKA-3160).
    """
    data = bytearray(frame)
    if len(data) > 6:
        flags = data[4]
        at = 6 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
        if at < len(data):
            data[at] = xxh32(bytes(data[4:at])) >> 8 & 0xFF
    return bytes(data)


def xxh32(data: bytes) -> int:
    """xxHash32 with seed 0, for inputs of less than 16 bytes such as the descriptor of an LZ4 frame."""
    value = 374761393 + len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = value + word * 3266489917 & _MASK
        value = (value << 17 | value >> 15) * 668265263 & _MASK
    for byte in data[whole:]:
        value = value + byte * 374761393 & _MASK
        value = (value << 11 | value >> 21) * 2654435761 & _MASK
    value = (value ^ value >> 15) * 2246822519 & _MASK
    value = (value ^ value >> 13) * 3266489917 & _MASK
    return value ^ value >> 16
