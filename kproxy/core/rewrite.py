"""Replaces broker addresses in a frame by the proxy's addresses; all other bytes stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kproxy.core.addresses import Endpoint, TagSection

Ours = Callable[[int, str, int], tuple[str, int]]
"""A function from a broker's (node id, host, port) to the proxy's (host, port) for it."""

_PADDING_TAGS = (120, 16_000)
"""Numbers of tagged fields that no message uses, for padding: the first takes one byte, the second two."""
_RETAGGED = (121, 16_001)


class Change(NamedTuple):
    """One field that was changed; `path` is its path in the decoded message ("brokers[0].host")."""

    path: str
    old: str | int
    new: str | int

    def __str__(self) -> str:
        def shown(value: str | int) -> str:
            return f'"{value}"' if isinstance(value, str) else str(value)

        return f"{self.path}: {shown(self.old)} -> {shown(self.new)}"


class Splice(NamedTuple):
    """A replacement of the bytes [start, end) of a frame by `new`."""

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
    """The (replacements, changed fields) for all endpoints that have a host.

    A response that names no node has host "" and port -1; these are not replaced. If a node has several endpoints in
    one message, the first is used as its address, and all get the same replacement. `flexible` says that string lengths
    are varints.
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
    """The bytes [start, end) of `data`, with those replacements applied that lie inside this range."""
    parts: list[bytes | memoryview] = []
    for one in sorted(replacements, key=lambda splice: splice.start):
        if start <= one.start and one.end <= end:
            parts += (data[start : one.start], one.new)
            start = one.end
    parts.append(data[start:end])
    return b"".join(parts)


def with_size(frame: bytes) -> bytes:
    """The frame with its length field corrected."""
    return (len(frame) - 4).to_bytes(4, "big") + frame[4:]


def section(data: bytes | memoryview, tags: TagSection, replacements: Sequence[Splice]) -> bytes:
    """The section of tagged fields with the replacements applied and the sizes corrected."""
    parts = [varint(len(tags.tags))]
    for tag, _, value, end in tags.tags:
        new = spliced(data, value, end, replacements)
        parts += (varint(tag), varint(len(new)), new)
    return b"".join(parts)


def padded(new: bytes, tags: TagSection) -> bytes | None:
    """Pads a rewritten section `new` to the old section's length with a tagged field unknown to Kafka.

    None if impossible.

    It is impossible if `new` is longer than the old section, or shorter by one byte: the smallest tagged field has two
    bytes.
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
    """The section with tag `replaced_tag` replaced by a tag that no message uses, and that field's value zeroed.

    The length stays equal. The client skips the field and asks Metadata for the addresses. None if no unused tag is
    free.
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
