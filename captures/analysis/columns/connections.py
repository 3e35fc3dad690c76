"""The table of connections."""

from __future__ import annotations

from typing import Final

from kproxy.captures.analysis.columns.column import (
    BYTES,
    COUNT,
    ID,
    NAME,
    TEXT,
    TIME,
    YES,
    Column,
    Table,
    listed,
    member,
    warn,
)
from kproxy.captures.views import Line


def _login(line: Line) -> str | None:
    sasl = line["sasl"]
    return None if sasl is None else sasl.get("principal") or sasl.get("mechanism")


def _login_failed(line: Line) -> str | None:
    return None if line["sasl"] is None else line["sasl"].get("error")


TABLES: Final = (
    Table(
        "connections", "Connections", "connections", "kproxy.connection/1",
        (
            Column("connection", "Conn", ID, member("connection")),
            Column("client_ids", "Client", NAME, listed("client_ids")),
            Column("client", "From", NAME, member("client"), drop=2),
            Column("broker", "To", NAME, member("broker"), drop=1),
            Column("software", "Software", NAME, member("software"), drop=7),
            Column("tls", "TLS", YES, member("tls"), drop=8),
            Column("login", "Login", NAME, _login, drop=8),
            Column("login_error", "Login failed", TEXT, _login_failed, drop=8, severity=warn),
            Column("began", "Began", TIME, member("began"), drop=5),
            Column("last", "Last", TIME, member("last"), drop=6),
            Column("exchanges", "Exchanges", COUNT, member("exchanges")),
            Column("errors", "Errors", COUNT, member("errors"), severity=warn),
            Column("unanswered", "Unanswered", COUNT, member("unanswered"), drop=3, severity=warn),
            Column("request_bytes", "Sent", BYTES, member("request_bytes"), drop=2),
            Column("response_bytes", "Received", BYTES, member("response_bytes"), drop=2),
            Column("in_flight", "In flight", COUNT, member("in_flight_most"), drop=4),
        ),
    ),
)  # fmt: skip
