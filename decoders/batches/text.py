"""Writes the JSON text of records of magic 2 without making JSON forms first, if all their bytes are plain.

setup.py compiles this file, with the C types of text.pxd, to `_text`. It works byte by byte, so it is fast only in C.
Plain bytes are printable ASCII characters, tab, CR and LF.
"""

from __future__ import annotations

from typing import Final

from kproxy.decoders.batches.record import Record

_ESCAPED: Final = {ord('"'): '"', ord("\\"): "\\", ord("\t"): "t", ord("\n"): "n", ord("\r"): "r"}
_KINDS: Final = bytes(
    ord(_ESCAPED[byte]) if byte in _ESCAPED else 0 if 0x20 <= byte < 0x7F else 1 for byte in range(256)
)
"""By byte: 0 if it is copied unchanged, 1 if it is not plain, else the character that follows the backslash in JSON."""
_ROOM: Final = 128
"""Maximum size in bytes of a record's JSON without key, value and headers, or of a header's JSON without key and value.
"""
_FAR: Final = 1 << 62


def records_text(records: list[Record]) -> bytes | None:
    """The records as the text of a JSON array; None if a byte is not plain, a timestamp is missing, or a number exceeds
    62 bits.
    """
    room = 2
    for _, _, key, value, headers in records:
        room += _ROOM
        if key is not None:
            room += 2 * len(key)
        if value is not None:
            room += 2 * len(value)
        for name, content in headers:
            room += _ROOM + 2 * len(name)
            if content is not None:
                room += 2 * len(content)
    # In C, access to `raw` and `kinds` has no bounds check.
    out = bytearray(room)
    raw = out
    table = _KINDS
    kinds = table
    raw[0] = 0x5B
    at = 1
    for offset, timestamp, key, value, headers in records:
        if timestamp is None or not -_FAR < offset < _FAR or not -_FAR < timestamp < _FAR:
            return None
        if at > 1:
            raw[at] = 0x2C
            at += 1
        at = _number(raw, _literal(raw, at, b'{"offset":'), offset)
        at = _number(raw, _literal(raw, at, b',"timestamp":'), timestamp)
        at = _payload(raw, _literal(raw, at, b',"key":'), key, kinds)
        if at < 0:
            return None
        at = _payload(raw, _literal(raw, at, b',"value":'), value, kinds)
        if at < 0:
            return None
        at = _literal(raw, at, b',"headers":[')
        first = True
        for name, content in headers:
            if not first:
                raw[at] = 0x2C
                at += 1
            first = False
            at = _payload(raw, _literal(raw, at, b'{"key":'), name, kinds)
            if at < 0:
                return None
            at = _payload(raw, _literal(raw, at, b',"value":'), content, kinds)
            if at < 0:
                return None
            raw[at] = 0x7D
            at += 1
        at = _literal(raw, at, b"]}")
    raw[at] = 0x5D
    return bytes(raw[: at + 1])


def _literal(raw: bytearray, at: int, text: bytes) -> int:
    """Write `text` unchanged into `raw` at offset `at`; returns the offset after it."""
    source = text
    for index in range(len(text)):
        raw[at + index] = source[index]
    return at + len(text)


def _number(raw: bytearray, at: int, number: int) -> int:
    """Write a number in decimal into `raw` at offset `at`; returns the offset after it."""
    if number < 0:
        raw[at] = 0x2D
        at += 1
        number = -number
    end = at + 1
    rest = number // 10
    while rest:
        end += 1
        rest //= 10
    position = end
    while position > at:
        position -= 1
        raw[position] = 0x30 + number % 10
        number //= 10
    return end


def _payload(raw: bytearray, at: int, data: bytes | None, kinds: bytes) -> int:
    """Write `data` into `raw` at offset `at` as a JSON string, None as null; returns the offset after it.

    Returns -1 if the bytes are not plain. `kinds` is _KINDS.
    """
    if data is None:
        return _literal(raw, at, b"null")
    source = data
    raw[at] = 0x22
    at += 1
    for index in range(len(data)):
        byte = source[index]
        kind = kinds[byte]
        if not kind:
            raw[at] = byte
        elif kind == 1:
            return -1
        else:
            raw[at] = 0x5C
            at += 1
            raw[at] = kind
        at += 1
    raw[at] = 0x22
    return at + 1
