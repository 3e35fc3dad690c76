"""The table of clients."""

from __future__ import annotations

from typing import Final

from kproxy.captures.analysis.columns.column import (
    BYTES,
    COUNT,
    MILLISECONDS,
    NAME,
    TEXT,
    TIME,
    Column,
    Table,
    listed,
    member,
    warn,
)
from kproxy.captures.views import Line

_OF_BROKERS: Final = frozenset({"replicates", "controls"})


def _refused(line: Line) -> str:
    """The oldest release that refuses a version that the client uses, such as "4.0.0"; "" if none does.

    Brokers have "" too, because they are upgraded with the cluster.
    """
    if _OF_BROKERS & set(line["does"]):
        return ""
    return min((use["since"] for use in line["refused"]), key=_release, default="")


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _findings(line: Line) -> int | None:
    """The number of findings that name the client (see captures.analysis.concerned); None if they were not counted."""
    found: int | None = line.get("findings")
    return found


TABLES: Final = (
    Table(
        "clients", "Clients", "clients", "kproxy.client/1",
        (
            Column("client_id", "Client", NAME, member("client_id")),
            Column("host", "Host", TEXT, member("host"), drop=4),
            Column("software", "Software", NAME, member("software"), drop=5),
            Column("principals", "Principal", NAME, listed("principals"), drop=7),
            Column("does", "Does", TEXT, listed("does"), drop=3),
            Column("groups", "Groups", NAME, listed("groups"), drop=6),
            Column("connections", "Conns", COUNT, member("connections"), drop=6),
            Column("exchanges", "Exchanges", COUNT, member("exchanges"), drop=2),
            Column("bytes_per_second", "B/s", BYTES, member("bytes_per_second"), drop=1),
            Column("request_bytes", "Sent", BYTES, member("request_bytes"), drop=8),
            Column("response_bytes", "Received", BYTES, member("response_bytes"), drop=8),
            Column("errors", "Errors", COUNT, member("errors"), severity=warn),
            Column("findings", "Findings", COUNT, _findings, drop=3, severity=warn),
            Column("unanswered", "Unanswered", COUNT, member("unanswered"), drop=9, severity=warn),
            Column("throttle", "Throttled", MILLISECONDS, member("throttle_ms"), severity=warn),
            Column("refused_by", "Refused by", TEXT, _refused, severity=warn),
            Column("stopped_at", "Stopped at", TEXT, member("stopped_at"), drop=2, severity=warn),
            Column("first", "First", TIME, member("first"), drop=10),
            Column("last", "Last", TIME, member("last"), drop=10),
        ),
    ),
)  # fmt: skip
