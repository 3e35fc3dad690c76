"""Splits bytes into frames, with or without length fields."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kproxy.decoders.batches.batch import parse
from kproxy.decoders.byhand.readings import responses
from kproxy.decoders.conversation.recognition import decodes, known, plausible_request
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.schema.lookup import Definitions

SIZE: Final = 4
"""Size in bytes of a frame's length field."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame in the bytes that the user gave: `start` is its offset there, `data` has its bytes.

    `data` always begins with a length field. `is_prefixed` says that the given bytes contain this field; else it was
    added, so offsets in `data` are four too high.
    """

    start: int
    data: bytes
    is_prefixed: bool

    @property
    def is_cut(self) -> bool:
        return self.missing != 0

    @property
    def missing(self) -> int:
        """Number of bytes that the length field announces and the frame lacks.

        Negative if the length field is too low or invalid.
        """
        return _length(self.data) + SIZE - len(self.data)


def _length(data: Buffer, at: int = 0) -> int:
    return int.from_bytes(data[at : at + SIZE], "big", signed=True)


def prefixed(data: bytes) -> bytes:
    """The bytes with a length field added in front."""
    return struct.pack(">i", len(data)) + data


def frames(
    data: bytes,
    definitions: Definitions,
    fits: Callable[[bytes], bool] | None = None,
    reach: Callable[[bytes], int] | None = None,
) -> list[Frame]:
    """The consecutive frames in `data`, with or without length fields; the last frame may be cut.

    `fits(frame)` says whether the user expects this frame, given with its length field; by default, any request is
    expected. If no frame is expected, `reach(frame)`, the number of bytes that can be decoded, decides whether `data`
    begins with a length field. If the bytes cannot be split, they are one frame without length field.
    """
    expected = fits or (lambda frame: is_request(frame, definitions))
    alone = Frame(0, prefixed(data), is_prefixed=False)
    chain = list(_chain(data))
    whole = [frame for frame in chain if not frame.is_cut]
    tiles = bool(whole) and len(whole) == len(chain)
    if tiles and expected(whole[0].data):
        return chain
    if expected(alone.data):
        return [alone]
    if tiles or len(whole) > 1:
        return chain
    if whole and (expected(whole[0].data) or responses(whole[0].data, definitions)):
        return chain
    if chain and plausible_request(data, _length(data), known(definitions)):
        return chain
    if chain and reach is not None and reach(chain[0].data) >= reach(alone.data):
        return chain
    return [alone]


def _chain(data: bytes) -> Iterator[Frame]:
    """Split by length fields as long as they are plausible; the remaining bytes are one cut frame."""
    start = 0
    while len(data) - start >= SIZE and (size := _length(data, start)) >= SIZE:
        end = min(start + SIZE + size, len(data))
        yield Frame(start, data[start:end], is_prefixed=True)
        start = end
    if 0 < start < len(data):
        yield Frame(start, data[start:], is_prefixed=True)


def is_request(frame: bytes, definitions: Definitions) -> bool:
    """Whether a frame has a plausible request header and decodes as a request to its last byte."""
    return plausible_request(frame, _length(frame), known(definitions)) and decodes(frame, definitions)


def is_records(data: Buffer) -> bool:
    """Whether the bytes begin with a record batch with a valid CRC, or consist of record batches to the last byte."""
    parsed = parse(data)
    return bool(parsed.batches) and (bool(parsed.batches[0].header["crcValid"]) or not parsed.truncated_tail)
