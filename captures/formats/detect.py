"""Detects the format of a capture from its first bytes."""

from __future__ import annotations

from kproxy.captures.errors import FormatError
from kproxy.captures.formats.magic import PCAP, PCAPNG
from kproxy.captures.formats.pcap import HEADER, PcapWalker
from kproxy.captures.formats.pcapng import PcapngWalker
from kproxy.captures.formats.records import Walker
from kproxy.decoders.plurals import are, counted

OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"\x02\x21\x4c\x18", "compressed with lz4 in its legacy form: unpack it first, or `lz4 -dc FILE | kproxy … -`"),
    (b"BZh", "compressed with bzip2: unpack it first, or `bzip2 -dc FILE | kproxy … -`"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"snoop\x00\x00\x00", "a snoop capture: convert it with `editcap -F pcap`"),
    (b"\x34\xcd\xb2\xa1", "a pcap file of a modified kind: convert it with `editcap -F pcap`"),
    (b"\xa1\xb2\xcd\x34", "a pcap file of a modified kind: convert it with `editcap -F pcap`"),
)


def walker(view: memoryview, *, whole: bool) -> Walker | None:
    """The walker for a file that begins with `view`; None if the decision needs more bytes.

    `whole`: whether the file is complete. Raises FormatError if the file is not a readable capture.
    """
    start = bytes(view[:8])
    if start[:4] in PCAP:
        if len(view) < HEADER:
            if whole:
                raise FormatError(f"ends inside its pcap header ({counted(len(view), 'byte')} of {HEADER})", len(view))
            return None
        return PcapWalker(view)
    if start[:4] == PCAPNG:
        if len(view) < 28 and whole:
            raise FormatError(f"ends inside its pcapng section header ({counted(len(view), 'byte')})", len(view))
        return PcapngWalker() if len(view) >= 28 else None
    if not start:
        if whole:
            raise FormatError("the file is empty", 0)
        return None
    if len(start) < 4 and not whole:
        return None
    for magic, what in OTHERS:
        if start.startswith(magic):
            raise FormatError(f"the file is {what}", 0)
    if len(start) < 4 and any(magic.startswith(start) for magic in (*PCAP, PCAPNG)):
        raise FormatError(f"ends inside its header ({counted(len(start), 'byte')})", len(start))
    raise FormatError("not a capture: the file is neither pcap nor pcapng", 0)


def cut(walker: Walker | None, size: int) -> FormatError | None:
    """The error for a file of `size` bytes that ends within a packet; None if it ends after one.

    `walker` has read the file; None if even its header is incomplete.
    """
    if walker is None or walker.position >= size:
        return None
    there = size - walker.position
    return FormatError(f"ends inside a packet ({counted(there, 'byte')} of it {are(there)} there)", walker.position)
