"""Guesses the API of an orphan: the only API whose definitions decode it to its last byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kproxy.decoders.message import Decoded, decode_response, response_fits
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.records.places import PLACES
from kproxy.decoders.schema.lookup import Definitions

MOST_GUESSED: Final = 1 << 20
"""Largest frame in bytes that is tried as every API: in more bytes a wrong layout may find millions of fields."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess at the API of a response.

    `versions` are the API's versions that decode the response to the same values, in order.
    """

    api_key: int
    versions: tuple[int, ...]
    decoded: Decoded

    def text(self, definitions: Definitions) -> str:
        """The guess in words: "a guess without the request: Metadata v9 to v12"."""
        low, high = self.versions[0], self.versions[-1]
        name = definitions.api_name(self.api_key)
        return f"a guess without the request: {name} v{low}" + (f" to v{high}" if high > low else "")


def readings(
    frame: Buffer, definitions: Definitions, *, api_key: int | None = None, version: int | None = None
) -> Iterator[tuple[int, int, Decoded]]:
    """(API key, version, decoded response) for each definition that decodes a frame to its last byte.

    The frame includes its length field. `api_key` and `version` restrict the definitions. If the frame is longer than
    MOST_GUESSED and no API is given, only the APIs whose responses carry records are tried.
    """
    for key, one in definitions.pairs():
        if api_key not in {None, key} or version not in {None, one}:
            continue
        if api_key is None and len(frame) > MOST_GUESSED and key not in PLACES:
            continue
        if response_fits(frame, key, one, definitions):
            decoded = decode_response(frame, key, one, definitions)
            if decoded.body is not None and not decoded.problems:
                yield key, one, decoded


def guess(frame: Buffer, definitions: Definitions) -> Guess | None:
    """The only API that decodes a response, its length field included, to its last byte.

    None if no API does, if several do, or if versions of one API decode it to different values.
    """
    found: list[tuple[int, Decoded]] = []
    api_key = -1
    for key, version, decoded in readings(frame, definitions):
        if decoded.guessed_version is not None:
            continue
        if found and (key != api_key or decoded.body != found[0][1].body):
            return None
        api_key = key
        found.append((version, decoded))
    if not found:
        return None
    versions = tuple(version for version, _ in found)
    return Guess(api_key, versions, found[-1][1])
