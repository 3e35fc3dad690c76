"""Finds the file from which a packet of a flow comes, if several files were merged to one.

A byte or a problem at an address belongs to the flow's last packet up to that address. For captured bytes that is the
packet that holds them. A problem may be found where another flow has a packet, or where the capture ends; so it belongs
to its own connection. captures.spark.read.flows.Held follows the same rule.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

import numpy as np

from kproxy.captures.tables.flows import flow_of
from kproxy.captures.tcp.packets import Ints, Packets, together


class Origins:
    """Notes, for each flow in a merged file, the addresses at which its packets begin to come from another file."""

    def __init__(self) -> None:
        self._flows: dict[int, tuple[array[int], array[int]]] = {}
        """By flow_id, two parallel arrays: ascending addresses, and the index of the file from each of them on."""
        self._reached = 0

    def add(self, packets: Packets, files: Ints) -> None:
        """Note a batch that has packets; `files` are their `Packets.files`."""
        # fragments of IP packets may come with lower addresses than packets before them
        reached = np.maximum.accumulate(np.maximum(packets.at, self._reached))
        self._reached = int(reached[-1])
        numbers: dict[int, int] = {}
        which = [numbers.setdefault(flow_of(key), len(numbers)) for key in packets.directions]
        flows = np.array(which)[packets.direction]
        order = together(flows, len(numbers))
        flows, files, reached = flows[order], files[order], reached[order]
        starts = np.flatnonzero(np.append(True, (flows[1:] != flows[:-1]) | (files[1:] != files[:-1])))
        ids = list(numbers)
        for flow, at, file in zip(
            flows[starts].tolist(), reached[starts].tolist(), files[starts].tolist(), strict=True
        ):
            addresses, changes = self._flows.setdefault(ids[flow], (array("q"), array("i")))
            if not changes or changes[-1] != file:
                addresses.append(at)
                changes.append(file)

    def file(self, flow: int, address: int) -> int | None:
        """The index of the file of the flow's last packet up to an address; None if it is unknown, or there is none."""
        addresses, files = self._flows.get(flow, _NO_PACKETS)
        # what a packet's payload shows is found at its address, of which `place` takes the byte before
        index = bisect_right(addresses, address + 1) - 1
        return None if index < 0 or files[index] < 0 else files[index]


_NO_PACKETS: Final = array("q"), array("i")
