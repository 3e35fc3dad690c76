"""Names of files in a ring: seg-00000007-20261121T183638Z.pcapng for segment 7, with .zst behind it if compressed."""

from __future__ import annotations

import re
import time

RING_FILE = "ring.json"
PACKED = ".zst"
"""Suffix of a compressed segment's name."""
_SEGMENT = re.compile(r"seg-(\d+)(?:-\d{8}T\d{6}Z)?\.pcapng(?:\.zst)?", re.ASCII)


def segment_name(number: int, began: float) -> str:
    """The name of segment `number` (from 1); `began` is the time of its first packet, in seconds since the epoch."""
    return f"seg-{number:08}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(began))}.pcapng"


def number_of(name: str) -> int:
    """The number in a segment's file name; 0 if it is not the name of a segment."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else 0
