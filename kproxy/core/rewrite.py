"""Puts addresses of ours where brokers' addresses stand: bytes are spliced, nothing is decoded and written again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kproxy.core.addresses import Endpoint, TagSection

Ours = Callable[[int, str, int], tuple[str, int]]
"""(node id, host, port) of a broker -> the address that stands for it."""

_PADDING_TAGS = (120, 16_000)
"""Tags that no message uses, one and two bytes long."""
_RETAGGED = (121, 16_001)


class Change(NamedTuple):
    """One field that was changed; `path` as in the decoded message ("brokers[0].host")."""

    path: str
    old: str | int
    new: str | int

    def __str__(self) -> str:
        def shown(value: str | int) -> str:
            return f'"{value}"' if isinstance(value, str) else str(value)

        return f"{self.path}: {shown(self.old)} -> {shown(self.new)}"


class Splice(NamedTuple):
    """`new` goes where the bytes [start, end) stand."""

    start: int
    end: int
    new: bytes


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def splices(endpoints: Sequence[Endpoint], ours: Ours, *, flexible: bool) -> tuple[list[Splice], list[Change]]:
    """What to put where, for every endpoint that has a host (one without a node has host "" and port -1).

    A node that has several in one message is known by the first.
    """
    found: list[Splice] = []
    changes: list[Change] = []
    known: dict[int, tuple[str, int]] = {}
    for endpoint in endpoints:
        if not endpoint.host:
            continue
        if endpoint.node_id not in known:
            known[endpoint.node_id] = ours(endpoint.node_id, endpoint.host, endpoint.port)
        host, port = known[endpoint.node_id]
        if host != endpoint.host:
            encoded = host.encode()
            size = varint(len(encoded) + 1) if flexible else len(encoded).to_bytes(2, "big")
            found.append(Splice(endpoint.host_start, endpoint.host_end, size + encoded))
            changes.append(Change(endpoint.path + "host", endpoint.host, host))
        if port != endpoint.port:
            new = port.to_bytes(endpoint.port_end - endpoint.port_start, "big")
            found.append(Splice(endpoint.port_start, endpoint.port_end, new))
            changes.append(Change(endpoint.path + "port", endpoint.port, port))
    return found, changes


def spliced(data: bytes | memoryview, start: int, end: int, replacements: Sequence[Splice]) -> bytes:
    """The bytes [start, end) with the replacements that lie in it."""
    parts: list[bytes | memoryview] = []
    for one in sorted(replacements, key=lambda splice: splice.start):
        if start <= one.start and one.end <= end:
            parts += (data[start : one.start], one.new)
            start = one.end
    parts.append(data[start:end])
    return b"".join(parts)


def with_size(frame: bytes) -> bytes:
    """A frame whose length field says what it has now."""
    return (len(frame) - 4).to_bytes(4, "big") + frame[4:]


def section(data: bytes | memoryview, tags: TagSection, replacements: Sequence[Splice]) -> bytes:
    """The tagged fields with the replacements and the right sizes."""
    parts = [varint(len(tags.tags))]
    for tag, _, value, end in tags.tags:
        new = spliced(data, value, end, replacements)
        parts += (varint(tag), varint(len(new)), new)
    return b"".join(parts)


def padded(new: bytes, tags: TagSection) -> bytes | None:
    """`new` (the section after rewriting) made as long as it was by an unknown tagged field; None where it cannot be.

    It cannot where it is longer than before, or one byte shorter: the smallest tagged field has two bytes.
    """
    missing = tags.end - tags.start - len(new)
    if missing == 0:
        return new
    used = {tag for tag, *_ in tags.tags}
    count, more = varint(len(used)), varint(len(used) + 1)
    missing -= len(more) - len(count)
    for tag in _PADDING_TAGS:
        head = varint(tag)
        for size_length in (1, 2, 3, 4):
            size = missing - len(head) - size_length
            if tag not in used and size >= 0 and len(varint(size)) == size_length:
                return more + new[len(count) :] + head + varint(size) + bytes(size)
    return None


def retagged(data: bytes | memoryview, tags: TagSection, replaced_tag: int) -> bytes | None:
    """The section with one field given a tag that no message uses and its value blanked, at equal length.

    The client skips it and asks Metadata for the addresses. None where no such tag is free.
    """
    used = {tag for tag, *_ in tags.tags}
    section_bytes = bytearray(data[tags.start : tags.end])
    for tag, at, value, end in tags.tags:
        if tag != replaced_tag:
            continue
        old = varint(tag)
        for free in _RETAGGED:
            new = varint(free)
            if free not in used and len(new) == len(old):
                section_bytes[at - tags.start : at - tags.start + len(new)] = new
                section_bytes[value - tags.start : end - tags.start] = bytes(end - value)
                return bytes(section_bytes)
    return None
