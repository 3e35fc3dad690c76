"""The table of topics."""

from __future__ import annotations

from typing import Final

from kproxy.captures.analysis.columns.column import (
    BYTES,
    COUNT,
    NAME,
    SECONDS,
    TEXT,
    Column,
    Table,
    length,
    member,
    warn,
)
from kproxy.captures.analysis.display.parts import known_lag
from kproxy.captures.views import Line


def _known(line: Line) -> tuple[int, float] | None:
    """(records behind, seconds of the slowest partition) of all groups that consume the topic; None if unknown."""
    return known_lag(one for group in line["groups"] for one in group["lag"])


def _lag(line: Line) -> int | None:
    known = _known(line)
    return None if known is None else known[0]


def _lag_seconds(line: Line) -> float | None:
    known = _known(line)
    return None if known is None else known[1] or None


def _errors(line: Line) -> int:
    return sum(sum(user["errors"].values()) for user in (*line["producers"], *line["consumers"]))


def _compression(line: Line) -> str:
    return "/".join(dict.fromkeys(name for user in line["producers"] for name in user["compression"]))


TABLES: Final = (
    Table(
        "topics", "Topics", "topics", "kproxy.topic/1",
        (
            Column("topic", "Topic", NAME, member("topic")),
            Column("partitions", "Partitions", COUNT, member("partitions"), drop=4),
            Column("records_in", "Rec in", COUNT, member("records_in"), drop=2),
            Column("bytes_in", "In", BYTES, member("bytes_in")),
            Column("records_out", "Rec out", COUNT, member("records_out"), drop=2),
            Column("bytes_out", "Out", BYTES, member("bytes_out")),
            Column("producers", "Producers", COUNT, length("producers"), drop=3),
            Column("consumers", "Consumers", COUNT, length("consumers"), drop=3),
            Column("groups", "Groups", COUNT, length("groups"), drop=5),
            Column("lag", "Lag", COUNT, _lag, drop=1),
            Column("lag_seconds", "Lag time", SECONDS, _lag_seconds, drop=6),
            Column("errors", "Errors", COUNT, _errors, drop=1, severity=warn),
            Column("compression", "Compression", TEXT, _compression, drop=7),
        ),
    ),
)  # fmt: skip
