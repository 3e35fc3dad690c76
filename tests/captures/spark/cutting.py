"""Plans that cut captures at any of their packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from kproxy.captures.spark.plan.splits import Plan, moved, plan
from tests.captures.spark.test_edges import beginnings


def cut_at(path: Path, places: Sequence[float]) -> Plan:
    """The plan of a pcap file with splits that begin at `places`, given as the share of packets before."""
    whole = plan([path], 1 << 40)
    one = whole.splits[0]
    if one.walker is None:
        return whole  # the capture has no packets
    records = sorted(beginnings(path.read_bytes()))[:-1]
    starts = sorted({one.start, *(records[int(place * len(records))] for place in places)}) if records else [one.start]
    splits = tuple(
        replace(
            one,
            number=number,
            start=start,
            end=end,
            walker=moved(one.walker, start),
            last=end == one.end,
            alone=len(starts) == 1,
        )
        for number, (start, end) in enumerate(pairwise([*starts, one.end]))
    )
    return Plan(whole.capture, whole.groups, splits)
