"""Reads bytes of captures by address, in stages that get no payload.

A file can be read so if it is cut into splits or slices. The payload of other files (compressed, decrypted or merged by
one task) goes with the packets from stage to stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kproxy.captures.spark.plan import files
from kproxy.captures.spark.plan.files import Blocks, Stamp
from kproxy.captures.spark.plan.splits import WIDE, Plan
from kproxy.decoders.exchange import Exchange

COPIED: Final = 1 << 12
"""Up to this number of bytes a copy is quicker than a view."""


@dataclass(frozen=True, slots=True)
class Addressed:
    """The files whose bytes can be read by address; `files` maps address // WIDE to the (path, stamp) of the file that
    has these addresses.
    """

    files: Mapping[int, tuple[str, Stamp]] = field(default_factory=dict)
    groups: frozenset[int] = frozenset()
    """The indexes (address // WIDE) of the ranges in which packets of these files have their addresses: a file's own
    range, or that of a merged file.
    """
    every: bool = False
    """Whether these are all groups of the reading."""

    @classmethod
    def of(cls, plan: Plan) -> Addressed:
        seekable = {one.base // WIDE: (one.paths[0], one.stamp) for one in plan.splits if one.stamp is not None}
        groups = set(seekable)
        for split in plan.splits:
            if split.slice is not None:
                groups.add(split.base // WIDE)
                seekable |= {one.base // WIDE: (one.path, one.stamp) for one in split.slice.ranges}
        return cls(seekable, frozenset(groups), every=len(groups) == len(plan.groups))

    def opened(self) -> ByAddress:
        """Opens a source for one task."""
        return ByAddress(self)


class ByAddress:
    """The bytes of captures by address. Each file is opened when it is first needed.

    Raises CaptureError where a file is gone or was changed since the reading was planned.
    """

    def __init__(self, addressed: Addressed) -> None:
        self.addressed = addressed
        self._views: dict[int, memoryview] = {}
        self._urls: dict[int, str] = {}
        self._blocks = Blocks()
        self.remote = any(files.is_url(path) for path, _ in addressed.files.values())
        """Whether a file is at a URL, so that `need` saves requests."""

    def read(self, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end) of one file; b"" if the payload of that file is not read by address."""
        group = start // WIDE
        base = group * WIDE
        view = self._views.get(group)
        if view is None:
            url = self._urls.get(group)
            if url is not None:
                return self._blocks.read(url, start - base, end - base)
            return self.read(start, end) if self._open(group) else b""
        found = view[start - base : end - base]
        return found if end - start > COPIED else bytes(found)

    def need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch the ranges of addresses that are read next, in few requests; does nothing for local files."""
        by_file: dict[int, list[tuple[int, int]]] = {}
        for start, end in ranges:
            by_file.setdefault(start // WIDE, []).append((start % WIDE, start % WIDE + end - start))
        for group, some in by_file.items():
            if group in self._urls or (self._open(group) and group in self._urls):
                self._blocks.need(self._urls[group], some)

    def has(self, exchange: Exchange) -> bool:
        """Whether all bytes of an exchange's frames can be read by address."""
        if self.addressed.every:
            return True
        known = self.addressed.groups
        frames = (frame for frame in (exchange.request, exchange.response) if frame is not None)
        return all(at // WIDE in known for frame in frames for at, _ in frame.spans)

    def _open(self, group: int) -> bool:
        """Open a file; returns whether it can be read by address."""
        given = self.addressed.files.get(group)
        if given is None:
            return False
        path, stamp = given
        if files.is_url(path):
            files.check_url(path, stamp)
            self._urls[group] = path
        else:
            self._views[group] = files.opened_view(path, stamp)
        return True
