"""Counts TCP segments by the file from which they come, in a file that was merged from several (captures.joining)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kproxy.captures.formats.gather import Bytes
from kproxy.captures.formats.pcapng import PACKET_HEADER, PcapngWalker
from kproxy.captures.formats.pcapng_writer import interface_name
from kproxy.captures.formats.records import Records, Walker
from kproxy.captures.given import Given
from kproxy.captures.tcp.packets import Ints

_INTERFACE: Final = 8
"""Offset, in a packet block, of the number of the packet's interface."""


class Tally:
    """Counts the segments of the `files` of a merged file: the interface of a packet has the name of its file."""

    def __init__(self, given: Sequence[Given]) -> None:
        """`given` are the files that were merged; they stay unchanged."""
        self.files = [replace(one) for one in given]
        self._numbers = {interface_name(one.name): number for number, one in enumerate(self.files)}
        self._of_interface: Ints = np.empty(0, np.int64)
        """For each interface of the merged file, the index of its file; -1 if the interface has another name."""

    def count(
        self, walker: Walker, view: memoryview, records: Records, which: Ints, times: Ints, unknown: Collection[int]
    ) -> Ints:
        """Count the segments in `records`, which `walker` has read from `view`.

        `which` and `times` are, for each segment, the index of its record and its time. `unknown` are the link-layer
        types that cannot be read. Returns, for each segment, the index of its file in `files`; -1 if it is unknown.
        """
        if not isinstance(walker, PcapngWalker) or not len(records):
            return np.full(len(which), -1, np.int64)
        if len(walker.names) != len(self._of_interface):
            self._of_interface = np.array([self._numbers.get(name, -1) for name in walker.names], np.int64)
        numbers = Bytes(view).view("<u4")[records.data - PACKET_HEADER + _INTERFACE]
        files = self._of_interface[numbers]
        of_segments: Ints = files[which]
        for number in np.unique(of_segments).tolist():
            if number >= 0:
                self.files[number].count(times[of_segments == number])
        if unknown:
            self._note_unknown(files, records, unknown)
        return of_segments

    def _note_unknown(self, files: Ints, records: Records, unknown: Collection[int]) -> None:
        links = np.broadcast_to(records.link, len(records))
        for link in unknown:
            for number in np.unique(files[links == link]).tolist():
                if number >= 0:
                    self.files[number].note_unknown([link])
