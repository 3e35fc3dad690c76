"""Reads and writes numbers of variable length, and reads text, as Kafka's classes do.

Source: `ByteUtils` (unsigned and zigzag varints) and Java's UTF-8 decoder.
"""

from __future__ import annotations

import codecs

from kproxy.decoders.problems import Code, DecodeError

Buffer = bytes | memoryview


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes; returns (value, position after it).

    Bits above the 32nd are dropped, as in Java's int. Raises DecodeError bad_varint if the number goes on after the
    fifth byte, IndexError if the buffer ends within it.
    """
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, position
    raise DecodeError(Code.BAD_VARINT, "a varint is longer than five bytes", position - 5)


def write_unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most ten bytes; returns (value, position after it).

    Raises DecodeError bad_varint if the number goes on after the tenth byte, IndexError if the buffer ends within it.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFFFFFFFFFF
            return value >> 1 ^ -(value & 1), position
    raise DecodeError(Code.BAD_VARINT, "a varint is longer than ten bytes", position - 10)


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Error handler for decoding as Java does: U+FFFD for invalid bytes; a whole encoded surrogate (ED A0..BF) becomes
    a single U+FFFD.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == 0xED and data[start + 1 : start + 2] and 0xA0 <= data[start + 1] <= 0xBF:
        third = data[start + 2 : start + 3]
        return "\ufffd", start + (3 if third and third[0] & 0xC0 == 0x80 else 2)
    return "\ufffd", error.end


REPLACE = "kafka.replace"
codecs.register_error(REPLACE, _replace_as_java)


def text(data: Buffer) -> str:
    """Decode UTF-8. Raises UnicodeDecodeError."""
    return str(data, "utf-8")


def text_as_java(data: Buffer) -> str:
    """Decode UTF-8; U+FFFD replaces invalid bytes, as in Java's `new String(bytes, UTF_8)`."""
    return str(data, "utf-8", REPLACE)
