"""Parses the search input: a text, a regular expression between slashes, or bytes in hex after 0x.

Regular expressions are RE2's, as in filters: the time of a search is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from kproxy.decoders.filters.regex import LARGEST

_HEX: Final = re.compile(r"0x([0-9a-f\s]+)", re.IGNORECASE)
LONGEST: Final = 1_000


class Sought(NamedTuple):
    """A compiled search: `pattern` searches bytes, and texts as UTF-8; `bytes_only` if bytes in hex were typed."""

    words: str
    pattern: Any
    bytes_only: bool

    def in_text(self, text: str) -> bool:
        return not self.bytes_only and self.in_bytes(text.encode("utf-8", "surrogatepass"))

    def in_bytes(self, data: bytes) -> bool:
        return self.pattern.search(data) is not None

    def places(self, data: bytes) -> list[int]:
        """Offsets of all matches that are not empty."""
        return [match.start() for match in self.pattern.finditer(data) if match.end() > match.start()]


def read(words: str) -> Sought:
    """Compile a typed search text. Raises ValueError with the reason if it is wrong."""
    import re2

    if not words or len(words) > LONGEST:
        raise ValueError(f"between 1 and {LONGEST} characters")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    hexadecimal = _HEX.fullmatch(words)
    if hexadecimal is not None:
        digits = "".join(hexadecimal[1].split())
        if not digits or len(digits) % 2:
            raise ValueError("an odd number of hex digits")
        options.encoding = re2.Options.Encoding.LATIN1
        options.literal = True
        pattern = bytes.fromhex(digits)
    else:
        options.case_sensitive = False
        options.literal = not (len(words) > 2 and words[0] == words[-1] == "/")
        pattern = (words if options.literal else words[1:-1]).encode("utf-8", "surrogatepass")
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        (why,) = error.args
        said = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise ValueError(f"invalid regular expression: {said}") from error
    if compiled.programsize > LARGEST:
        raise ValueError("too large an expression")
    return Sought(words, compiled, hexadecimal is not None)
