"""File names in a ring: segments are seg-00000007-20261121T183638Z.pcapng, compressed ones end with .zst as well."""

from __future__ import annotations

import re
import time

RING_FILE = "ring.json"
PACKED = ".zst"
"""Suffix of a compressed segment's name."""
_SEGMENT = re.compile(r"seg-(\d+)(?:-\d{8}T\d{6}Z)?\.pcapng(?:\.zst)?", re.ASCII)


def segment_name(number: int, began: float) -> str:
    """The name of segment `number` (from 1), whose first packet is of the time `began`, in seconds since the epoch."""
    return f"seg-{number:08}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(began))}.pcapng"


def number_of(name: str) -> int:
    """The number of the segment with this name, 0 if it is not a segment's name."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else 0
