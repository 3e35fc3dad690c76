"""What a response without its request may be: the one API whose definitions read it to its last byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kproxy.decoders.message import Decoded, decode_response, response_fits
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.records.places import PLACES
from kproxy.decoders.schema.lookup import Definitions

MOST: Final = 1 << 20
"""Of a longer frame only answers that carry records are tried: a wrong layout may find millions of fields in it."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A reading of a response. `versions` are those of the API that read the same values from it, in order."""

    api_key: int
    versions: tuple[int, ...]
    decoded: Decoded

    def text(self, definitions: Definitions) -> str:
        """The guess in words: "a guess without the request: Metadata v9 to v12"."""
        low, high = self.versions[0], self.versions[-1]
        name = definitions.api_name(self.api_key)
        return f"a guess without the request: {name} v{low}" + (f" to v{high}" if high > low else "")


def guess(frame: Buffer, definitions: Definitions) -> Guess | None:
    """The only reading of a response, its length field included.

    None where no definition reads it to its last byte, where several APIs do, or where versions of one API read
    different values.
    """
    found: list[tuple[int, Decoded]] = []
    api_key = -1
    for key, version in definitions.pairs():
        if len(frame) > MOST and key not in PLACES:
            continue
        if not response_fits(frame, key, version, definitions):
            continue
        decoded = decode_response(frame, key, version, definitions)
        if decoded.body is None or decoded.problems or decoded.guessed_version is not None:
            continue
        if found and (key != api_key or decoded.body != found[0][1].body):
            return None
        api_key = key
        found.append((version, decoded))
    if not found:
        return None
    versions = tuple(version for version, _ in found)
    return Guess(api_key, versions, found[-1][1])
