"""Tables of a capture in splits are those of an export of it, whatever became of its packets and wherever it is cut.

So no row depends on what a split cannot see. The tasks that share the rows of the capture (captures.spark.shares) have
the same rows together.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import Plan
from kproxy.captures.spark.read import flows, parcels
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.shares import DIVISIBLE
from kproxy.captures.tables.schema import WITHOUT_BODIES
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported
from tests.captures.spark.cutting import cut_at
from tests.captures.spark.damage import DAMAGE
from tests.captures.spark.test_damaged import fragmented

CAPTURES = (traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA)
PACKETS = 600
"""Packets of a capture before it is damaged."""

_packets = cache(traffic.packets)


def once(random: Random) -> None:
    taken = _packets(random.choice(CAPTURES))
    start = random.randrange(max(1, len(taken) - PACKETS))
    taken = taken[start : start + random.randrange(1, PACKETS)]
    # what is a fragment has no TCP header to be damaged
    for damage in sorted(random.sample(DAMAGE, random.choice((0, 1, 1, 2))), key=lambda one: one is fragmented):
        taken = damage(taken, random)
    bodies = random.random() < 0.5
    sizes = bodies and random.random() < 0.5
    tables = tuple(TABLES) if bodies else WITHOUT_BODIES
    more = ["--record-sizes"] if sizes else [] if bodies else ["--no-bodies"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.pcap"
        path.write_bytes(files.pcap(taken))
        expected = exported([path], *more, tables=tables)
        planned = cut_at(path, [random.random() for _ in range(random.randrange(8))])
        portion, group = random.choice((1, 30, 1 << 20)), random.choice((1, 30, parcels.GROUP))
        with patch.object(parcels, "SEGMENTS_OF_PORTION", portion), patch.object(parcels, "GROUP", group):
            options = Options(tables, bodies=bodies, record_sizes=sizes)
            found = local.of_plan(planned, options, size=1 << 40)
            in_shares = _shared(planned, options, random)
        assert_same({name: counted(found[name].to_pylist()) for name in tables}, expected)
        assert_same(in_shares, {name: expected[name] for name in in_shares})


def _shared(planned: Plan, options: Options, random: Random) -> Rows:
    """The rows of tasks whose shares begin anywhere in the capture."""
    granule = random.choice((6, 10, 14))
    last = planned.splits[-1].end >> granule
    borders = sorted(random.randrange(last + 2) for _ in range(random.randrange(4)))
    names = [name for name in DIVISIBLE if name in options.tables]
    rows: dict[str, list[Any]] = {name: [] for name in names}
    with patch.object(flows, "GRANULE", granule):
        for begin, end in pairwise([0, *borders, 1 << 62]):
            ours = replace(options, ranges=range(begin, end))
            for name, batch in local.rows(planned, ours, names, size=1 << 40):
                rows[name] += batch.to_pylist()
    return {name: counted(found) for name, found in rows.items()}
