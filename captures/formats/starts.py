"""Finds where the records of a pcap file begin, one by one, because each record's length says where the next begins.

setup.py compiles this module with the C types of starts.pxd; without a compiler, and in tests, the plain version is
used.
"""

from __future__ import annotations

HEADER = 16
"""Number of bytes of a record before its packet; bytes 8 to 11 are the packet's captured length."""


def starts(data: memoryview, position: int, longest: int, little: bool, found: memoryview) -> int:
    """Store the offsets of records, from `position` on, in `found` until it is full; returns their number.

    `little` tells that lengths are little-endian. Stops before a record that is incomplete or longer than `longest`.
    """
    end, count = len(data), 0
    for i in range(len(found)):
        at = position + 8
        if at + 8 > end:
            break
        # four variables, so that C shifts each in a wide enough type
        a, b, c, d = data[at], data[at + 1], data[at + 2], data[at + 3]
        captured = a | b << 8 | c << 16 | d << 24 if little else d | c << 8 | b << 16 | a << 24
        if captured > longest or captured > end - position - HEADER:
            break
        found[i] = position
        count += 1
        position += HEADER + captured
    return count
