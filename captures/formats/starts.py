"""Where the records of a pcap file begin: each says where the next one does, so that they are found one by one.

setup.py compiles it with the C types of starts.pxd, and plain it is there for tests and where nothing can be compiled.
"""

from __future__ import annotations

HEADER = 16
"""Bytes of a record before its packet, of which the third four are the packet's length."""


def starts(data: memoryview, position: int, longest: int, little: bool, found: memoryview) -> int:
    """Put where records begin, from `position` on, into `found`, as many as it has room for; how many those are.

    `little` is the byte order of lengths. Ends before a record that is not whole or longer than `longest`.
    """
    end, count = len(data), 0
    for i in range(len(found)):
        at = position + 8
        if at + 8 > end:
            break
        # each a number of its own, which holds what it is shifted to
        a, b, c, d = data[at], data[at + 1], data[at + 2], data[at + 3]
        captured = a | b << 8 | c << 16 | d << 24 if little else d | c << 8 | b << 16 | a << 24
        if captured > longest or captured > end - position - HEADER:
            break
        found[i] = position
        count += 1
        position += HEADER + captured
    return count
