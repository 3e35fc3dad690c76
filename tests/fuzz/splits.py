"""Tables of a capture in splits are those of an export of it, whatever became of its packets and wherever it is cut.

So no row depends on what a split cannot see.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from random import Random
from unittest.mock import patch

from kproxy.captures.spark import local
from kproxy.captures.spark.read import parcels
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tables.schema import WITHOUT_BODIES
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, assert_same, counted, exported
from tests.captures.spark.cutting import cut_at
from tests.captures.spark.test_crossing import in_pieces, kept_alive, overlapping
from tests.captures.spark.test_damaged import (
    again,
    disordered,
    dropped,
    foreign,
    fragmented,
    later,
    repeated,
    tiny,
    wrapped,
)

CAPTURES = (traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA)
DAMAGE = (
    again, disordered, dropped, foreign, fragmented, in_pieces, kept_alive, later, overlapping, repeated, tiny, wrapped,
)  # fmt: skip
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
            found = local.of_plan(planned, Options(tables, bodies=bodies, record_sizes=sizes), size=1 << 40)
        assert_same({name: counted(found[name].to_pylist()) for name in tables}, expected)
