"""Recognises captures by their magic numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kproxy.captures.compression import CompressionError, pieces

PCAP: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""By a pcap file's magic number: (byte order, nanoseconds in a unit of the fraction of a second)."""
PCAPNG: Final = b"\x0a\x0d\x0d\x0a"


def is_capture(data: bytes) -> bool:
    """Whether `data` is the beginning of a pcap or pcapng file."""
    return data[:4] in PCAP or data.startswith(PCAPNG)


def begins_as_capture(path: Path) -> bool:
    """Whether a file is pcap or pcapng, also compressed; False if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_capture(next(pieces(descriptor), b""))
    except (OSError, CompressionError):
        return False
    finally:
        os.close(descriptor)
