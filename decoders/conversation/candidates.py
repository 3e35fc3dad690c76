"""Finds possible frame headers in a window of bytes by compiled regular expressions.

A pattern matches at the first byte of each possible header, also of overlapping ones. It never misses a header; the
caller must test each match by the exact rule. Both patterns begin with the length's first byte, which rejects most
bytes of text and of compressed data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

HIGHEST_SIZE = 0x7FFFFFFF
MOST_LEADS = 4
"""Maximum number of different first halves of correlation ids in one pattern."""

_T = TypeVar("_T")


def _one_of(values: Iterable[int]) -> bytes:
    """A regular expression that matches one of these byte values."""
    return b"[" + b"".join(b"\\x%02x" % value for value in sorted(values)) + b"]"


def _first_byte(limit: int) -> bytes:
    """A regular expression for the first byte of a length from 0 to `limit`."""
    return b"[\\x00-\\x%02x]" % (min(limit, HIGHEST_SIZE) >> 24)


def request_starts(versions: Mapping[int, tuple[int, int]], limit: int) -> re.Pattern[bytes]:
    """A pattern for request headers (size, API key, API version, correlation id, client id's length) of known API keys.

    `versions` holds the lowest and highest version of each key, `limit` is the size of the longest frame. A
    ControlledShutdown v0 has no client id.
    """
    groups: dict[tuple[int, int, int], list[int]] = {}
    for key, (low, high) in versions.items():
        groups.setdefault((key >> 8, low, high), []).append(key & 0xFF)
    leads: dict[int, list[bytes]] = {}
    for (lead, low, high), keys in groups.items():
        version = b"\\x00[\\x%02x-\\x%02x]" % (low, high) if high <= 0xFF else b".."
        leads.setdefault(lead, []).append(_one_of(keys) + version)
    known = b"|".join(b"\\x%02x(?:%s)" % (lead, b"|".join(parts)) for lead, parts in sorted(leads.items()))
    client_id = rb"(?:[\x00-\x03].|\x04\x00|\xff\xff)"
    common = rb"...(?<!\x00\x00\x00[\x00-\x09])(?:" + known + rb")...." + client_id
    return re.compile(
        _first_byte(limit) + rb"(?=" + common + rb"|(?<=\x00)\x00\x00\x0c\x00\x07\x00\x00......)", re.DOTALL
    )


class Awaited:
    """Finds response headers (size, correlation id) whose correlation id is, or may be, in `outstanding`.

    `outstanding` may change between calls; new ids must be added at its end.
    """

    __slots__ = ("_coarse", "_leads", "_limit", "_newest", "_outstanding", "_pattern", "_tops")

    def __init__(self, outstanding: Mapping[int, object], limit: int) -> None:
        self._outstanding = outstanding
        self._limit = limit
        self._newest: object = None
        self._leads: dict[int, set[int]] = {}
        """Maps the first two bytes of the correlation ids seen so far to the set of their third bytes."""
        self._tops: set[int] = set()
        self._coarse = False
        self._pattern: re.Pattern[bytes] | None = None

    def starts(self, window: bytes) -> Iterator[re.Match[bytes]]:
        """The matches in `window`, each at the first byte of a possible header."""
        newest = _last(self._outstanding.values())
        if newest is not self._newest:
            self._learn(newest)
        return iter(()) if self._pattern is None else self._pattern.finditer(window)

    def _learn(self, newest: object) -> None:
        """Extend the pattern by the ids added since the last call; `newest` is the newest of them."""
        known = self._newest
        self._newest = newest
        changed = False
        for correlation_id, one in reversed(self._outstanding.items()):  # type: ignore[call-overload]
            if one is known:
                break
            lead, third = correlation_id >> 16 & 0xFFFF, correlation_id >> 8 & 0xFF
            if self._coarse:
                changed |= lead >> 8 not in self._tops
                self._tops.add(lead >> 8)
            elif third not in (thirds := self._leads.setdefault(lead, set())):
                thirds.add(third)
                changed = True
                if len(self._leads) > MOST_LEADS:
                    self._coarse = True
                    self._tops.update(lead >> 8 for lead in self._leads)
        if changed:
            self.remake()

    def remake(self) -> None:
        """Rebuild the pattern from all ids seen so far."""
        self._pattern = None
        if not self._leads:
            return
        if self._coarse:
            ids = _one_of(self._tops) + b"..."
        else:
            each = (
                b"\\x%02x\\x%02x" % (lead >> 8, lead & 0xFF) + _one_of(thirds) + b"."
                for lead, thirds in sorted(self._leads.items())
            )
            ids = b"(?:" + b"|".join(each) + b")"
        first = _first_byte(self._limit) + rb"(?=...(?<!\x00\x00\x00[\x00-\x03])"
        self._pattern = re.compile(first + ids + b")", re.DOTALL)


def _last(values: Iterable[_T]) -> _T | None:
    return next(reversed(values), None)  # type: ignore[call-overload]
