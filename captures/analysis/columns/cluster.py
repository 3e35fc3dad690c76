"""The tables of the cluster: partitions, brokers and events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kproxy.captures.analysis.columns.column import (
    BYTES,
    COUNT,
    ID,
    NAME,
    OFFSET,
    TEXT,
    TIME,
    YES,
    Column,
    Table,
    alarm,
    length,
    listed,
    member,
    warn,
)
from kproxy.captures.analysis.display.filters import equal
from kproxy.captures.analysis.leaderless import DELETED, NOBODY
from kproxy.captures.views import Line

_LEADERLESS: Final = {NOBODY: "none", DELETED: "deleted"}


def _leader(line: Line) -> str | None:
    """The leader's node id as text, or "none" or "deleted"; None if the leader is unknown."""
    leader = line["leader"]
    return None if leader is None else _LEADERLESS.get(leader, str(leader))


def _brokers(line: Line) -> Iterator[dict[str, Any]]:
    for broker in line["brokers"]:
        yield {**broker, "controller": broker["node_id"] == line["controller"]}


TABLES: Final = (
    Table(
        "partitions", "Partitions", "cluster", "kproxy.partition/1",
        (
            Column("topic", "Topic", NAME, member("topic")),
            Column("partition", "Part", ID, member("partition")),
            Column("leader", "Leader", TEXT, _leader, drop=1, severity=lambda leader: alarm(leader == "none")),
            Column("leader_epoch", "Epoch", OFFSET, member("leader_epoch"), drop=8),
            Column("replicas", "Replicas", TEXT, listed("replicas"), drop=4),
            Column("isr", "ISR", TEXT, listed("isr"), drop=2),
            Column("under_replicated", "Under-repl", YES, member("under_replicated"), severity=warn),
            Column("offline", "Offline", TEXT, listed("offline"), drop=3, severity=alarm),
            Column("end", "End", OFFSET, member("end"), drop=5),
            Column("records_in", "Rec in", COUNT, member("records_in"), drop=7),
            Column("bytes_in", "In", BYTES, member("bytes_in"), drop=6),
            Column("records_in_per_second", "In rec/s", COUNT, member("records_in_per_second"), drop=5),
            Column("records_out", "Rec out", COUNT, member("records_out"), drop=7),
            Column("bytes_out", "Out", BYTES, member("bytes_out"), drop=6),
            Column("records_out_per_second", "Out rec/s", COUNT, member("records_out_per_second"), drop=5),
            Column("changes", "Changes", COUNT, length("changes"), drop=9),
        ),
        order="-under_replicated",
    ),
    Table(
        "brokers", "Brokers", "cluster", "kproxy.cluster/1",
        (
            Column("broker", "Broker", ID, member("node_id")),
            Column("address", "Address", NAME, member("address")),
            Column("rack", "Rack", TEXT, member("rack")),
            Column("controller", "Controller", YES, member("controller")),
        ),
        ("node_id",),
        lambda row: [equal("broker", row["node_id"])],
        _brokers,
    ),
    Table(
        "events", "Events", "cluster", "kproxy.cluster_event/1",
        (
            Column("time", "Time", TIME, member("time")),
            Column("kind", "Kind", TEXT, member("kind"), drop=1),
            Column("about", "About", NAME, member("about")),
            Column("text", "Event", TEXT, member("text")),
            Column("source", "Source", TEXT, member("source"), drop=2),
            Column("exchange", "No.", ID, member("exchange"), drop=3),
        ),
        filters=lambda row: [equal("exchange", row["exchange"])],
    ),
)  # fmt: skip
