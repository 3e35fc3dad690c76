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
WINDOW: Final = 16 << 20
"""Number of bytes of a file that are mapped at a time; it divides WIDE."""
WINDOWS: Final = 8
"""Maximum number of windows that are mapped at a time: flows of merged files are read from several files in turn."""
_NOTHING: Final = memoryview(b"")


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
    """The bytes of captures by address. Files are opened where their bytes are needed.

    Local files are mapped in windows, because a file may be larger than the address space that Spark's workers are
    allowed. Raises CaptureError where a file is gone or was changed since the reading was planned.
    """

    def __init__(self, addressed: Addressed) -> None:
        self.addressed = addressed
        self._windows: dict[int, memoryview] = {}
        """The mapped bytes by address // WINDOW."""
        self._urls: dict[int, str] = {}
        self._blocks = Blocks()
        self.remote = any(files.is_url(path) for path, _ in addressed.files.values())
        """Whether a file is at a URL, so that `need` saves requests."""

    def read(self, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end) of one file; b"" if the payload of that file is not read by address."""
        window = start // WINDOW
        view = self._windows.get(window)
        base = window * WINDOW
        if view is None or end > base + WINDOW:
            return self._read_elsewhere(start, end)
        found = view[start - base : end - base]
        return found if end - start > COPIED else bytes(found)

    def need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch the ranges of addresses that are read next, in few requests; does nothing for local files."""
        by_file: dict[int, list[tuple[int, int]]] = {}
        for start, end in ranges:
            by_file.setdefault(start // WIDE, []).append((start % WIDE, start % WIDE + end - start))
        for group, some in by_file.items():
            if self._open(group) and group in self._urls:
                self._blocks.need(self._urls[group], some)

    def has(self, exchange: Exchange) -> bool:
        """Whether all bytes of an exchange's frames can be read by address."""
        if self.addressed.every:
            return True
        known = self.addressed.groups
        frames = (frame for frame in (exchange.request, exchange.response) if frame is not None)
        return all(at // WIDE in known for frame in frames for at, _ in frame.spans)

    def _read_elsewhere(self, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end) of a file that is at a URL, or of which not all of these bytes are mapped."""
        group = start // WIDE
        if not self._open(group):
            return b""
        if group in self._urls:
            return self._blocks.read(self._urls[group], start % WIDE, start % WIDE + end - start)
        windows = range(start // WINDOW, -(-end // WINDOW))
        parts = [self._window(one)[max(start - one * WINDOW, 0) : end - one * WINDOW] for one in windows]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _window(self, window: int) -> memoryview:
        """The bytes of a window of a local file; fewer if the file ends before."""
        held = self._windows.get(window)
        if held is None:
            if len(self._windows) == WINDOWS:
                del self._windows[next(iter(self._windows))]
            held = self._windows[window] = self._mapped(window * WINDOW)
        return held

    def _mapped(self, base: int) -> memoryview:
        path, stamp = self.addressed.files[base // WIDE]
        start = base % WIDE
        if start >= stamp.size:
            return _NOTHING
        with files.unchanged(path, stamp, start, start + WINDOW) as held:
            return held.view

    def _open(self, group: int) -> bool:
        """Whether a file can be read by address; opens it if it is at a URL."""
        if group in self._urls:
            return True
        given = self.addressed.files.get(group)
        if given is None:
            return False
        path, stamp = given
        if files.is_url(path):
            files.check_url(path, stamp)
            self._urls[group] = path
        return True
