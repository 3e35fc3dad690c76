"""Recognises a protocol by the first bytes of a direction."""

from __future__ import annotations

import struct

_HTTP = {b"HTTP", b"GET ", b"POST", b"HEAD", b"PUT ", b"CONN", b"OPTI", b"<!DO", b"<htm", b"<HTM"}
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16
_REQUEST = struct.Struct(">ihh")
_MOST_API_KEYS, _MOST_VERSIONS = 1000, 64
_LONGEST = 1 << 29
"""Largest length in bytes of the first frame of a direction; a longer one is text or garbage.

Later frames may have up to 2 GiB.
"""


def other_protocol(start: bytes) -> str | None:
    """The name of a protocol other than Kafka's, "TLS" or "HTTP"; None if the bytes may be Kafka's or are too few."""
    if len(start) >= 2 and start[0] in {_TLS_ALERT, _TLS_HANDSHAKE} and start[1] == 3:
        return "TLS"
    if start[:4] in _HTTP:
        return "HTTP"
    return None


def is_request(start: bytes) -> bool:
    """Whether the first eight bytes look like a Kafka request: plausible length, API key and version."""
    if len(start) < _REQUEST.size:
        return False
    length, api_key, version = _REQUEST.unpack_from(start)
    fits: bool = 0 < length < _LONGEST and 0 <= api_key < _MOST_API_KEYS and 0 <= version < _MOST_VERSIONS
    return fits


def no_frame(start: bytes, length: int, *, first: bool) -> str | None:
    """Why these first bytes do not begin a Kafka frame of `length` bytes ("TLS"); None if they may.

    `first` says that they are the first bytes of their direction.
    """
    if first and (named := other_protocol(start)):
        return named
    if length < 0 or (first and length > _LONGEST):
        return f"bytes that do not begin a frame ({start[:4]!r})"
    return None
