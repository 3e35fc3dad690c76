"""Names in a recording's ring: segments seg-00000007-20261121T183638Z.pcapng, compressed ones with .zst behind it."""

from __future__ import annotations

import re
import time

RING_FILE = "ring.json"
PACKED = ".zst"
"""What the name of a compressed segment ends with."""
_SEGMENT = re.compile(r"seg-(\d+)(?:-\d{8}T\d{6}Z)?\.pcapng(?:\.zst)?", re.ASCII)


def segment_name(number: int, began: float) -> str:
    """The name of segment `number` (from 1 on), whose first packet passed at `began`, seconds since the epoch."""
    return f"seg-{number:08}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(began))}.pcapng"


def number_of(name: str) -> int:
    """The number of the segment of this name, 0 where it is none."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else 0
