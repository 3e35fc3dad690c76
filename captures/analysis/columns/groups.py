"""The tables of groups: groups, their members, and the partitions to which they commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kproxy.captures.analysis.columns.column import (
    COUNT,
    ID,
    NAME,
    OFFSET,
    SECONDS,
    TAIL,
    TEXT,
    TIME,
    Column,
    Table,
    member,
    warn,
)
from kproxy.captures.analysis.display.filters import equal
from kproxy.captures.analysis.display.parts import assignment_text, known_lag
from kproxy.captures.lag import State
from kproxy.captures.views import Line

BAD_STATES: Final = frozenset({State.STOPPED, State.REWOUND, State.STALLED, State.GROWING})
"""States of a partition whose group does not keep up."""


def _lag(line: Line) -> int | None:
    known = known_lag(line["lag"])
    return None if known is None else known[0]


def _lag_seconds(line: Line) -> float | None:
    known = known_lag(line["lag"])
    return None if known is None else known[1]


def _state(line: Line) -> str:
    """The states of a group's partitions that show that the group does not keep up, as text; "" for none."""
    return ", ".join(sorted({one["state"] for one in line["lag"] if one["state"] in BAD_STATES}))


def _present(line: Line) -> int:
    return sum(not one["left"] for one in line["members"])


def _why(line: Line) -> str:
    """Why the latest generation began."""
    return ", ".join(line["generations"][-1]["why"]) if line["generations"] else ""


def _errors(line: Line) -> int:
    return sum(line["errors"].values())


def _of(name: str) -> Any:
    """A function that makes rows of a group: the elements of its list `name`, each with the group's name."""

    def rows(line: Line) -> Iterator[dict[str, Any]]:
        for one in line[name]:
            yield {**one, "group": line["group"]}

    return rows


def _assignment(row: Line) -> str:
    return assignment_text(row["assignment"])


def _partitions(row: Line) -> int:
    return sum(map(len, row["assignment"].values()))


def _interval(row: Line) -> float | None:
    interval = row["heartbeat_interval_ms"]
    return None if interval is None else interval / 1000


def _own(row: Line) -> list[str]:
    return [equal("group", row["group"])]


TABLES: Final = (
    Table(
        "groups", "Groups", "groups", "kproxy.group/1",
        (
            Column("group", "Group", NAME, member("group")),
            Column("kind", "Kind", TEXT, member("kind"), drop=6),
            Column("members", "Members", COUNT, _present, drop=2),
            Column("generation", "Generation", OFFSET, member("generation"), drop=5),
            Column("rebalances", "Rebalances", COUNT, member("rebalances")),
            Column("protocol", "Protocol", TEXT, member("protocol"), drop=7),
            Column("commits", "Commits", COUNT, member("commits"), drop=6),
            Column("lag", "Lag", COUNT, _lag),
            Column("lag_seconds", "Lag time", SECONDS, _lag_seconds, drop=1),
            Column("state", "State", TEXT, _state, drop=1, severity=warn),
            Column("errors", "Errors", COUNT, _errors, drop=3, severity=warn),
            Column("coordinator", "Coordinator", TEXT, member("coordinator"), drop=8),
            Column("why", "Latest cause", TEXT, _why, drop=1),
        ),
    ),
    Table(
        "members", "Members", "groups", "kproxy.group/1",
        (
            Column("group", "Group", NAME, member("group"), drop=1),
            Column("client_id", "Client", NAME, member("client_id")),
            Column("host", "Host", TEXT, member("host"), drop=4),
            Column("member_id", "Member", TAIL, member("member_id")),
            Column("instance_id", "Instance", TAIL, member("instance_id"), drop=6),
            Column("joined", "Joined", TIME, member("joined"), drop=5),
            Column("left", "Left", TIME, member("left"), drop=2),
            Column("heartbeats", "Heartbeats", COUNT, member("heartbeats"), drop=7),
            Column("heartbeat_interval", "Every", SECONDS, _interval, drop=6),
            Column("partitions", "Partitions", COUNT, _partitions),
            Column("assignment", "Assignment", TEXT, _assignment, drop=3),
        ),
        ("group", "member_id"),
        lambda row: [*_own(row), *([equal("client.id", row["client_id"])] if row["client_id"] else [])],
        _of("members"),
    ),
    Table(
        "lag", "Lag", "groups", "kproxy.group/1",
        (
            Column("group", "Group", NAME, member("group")),
            Column("topic", "Topic", NAME, member("topic")),
            Column("partition", "Part", ID, member("partition")),
            Column("committed", "Committed", OFFSET, member("committed"), drop=2),
            Column("end", "End", OFFSET, member("end"), drop=2),
            Column("lag", "Lag", COUNT, member("records")),
            Column("lag_seconds", "Lag time", SECONDS, member("seconds")),
            Column("committed_per_second", "Rec/s", COUNT, member("rate"), drop=3),
            Column("state", "State", TEXT, member("state"), drop=1, severity=lambda state: warn(state in BAD_STATES)),
        ),
        ("group", "topic", "partition"),
        lambda row: [*_own(row), equal("topic", row["topic"])],
        _of("lag"),
        order="-lag",
    ),
)  # fmt: skip
