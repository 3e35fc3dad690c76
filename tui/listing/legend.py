"""What every mark of the interface means, by place; the help shows it."""

from __future__ import annotations

from typing import Final

from kproxy.captures.index.format import State
from kproxy.tui.listing.rows import CUT, EVIDENCE, STATE_LETTER
from kproxy.tui.views.plot import BOTH, HIGH, LEVELS, LOW

SHORT_WORDS: Final = "Short words in titles"
LEGEND: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    (
        "Marks: column S of the list, first letter",
        (
            ("E", "could not be read, wholly or in part"),
            ("W", "an error that clients do not retry"),
            ("N", "an error that clients retry"),
        ),
    ),
    (
        "Marks: column S of the list, second letter",
        (
            (STATE_LETTER[State.WAITING], "waits for its response"),
            (STATE_LETTER[State.NO_RESPONSE], "one half is missing: no response, no request, or bytes cut off"),
            (STATE_LETTER[State.NO_REPLY_EXPECTED], "no response is due (acks 0)"),
            ("~", "kproxy changed bytes of it"),
        ),
    ),
    (
        "Marks: column S of the list, third letter",
        (
            ("*", "marked by you (m)"),
            (";", "has a comment of yours"),
            (EVIDENCE, "proves a finding; the Overview names it"),
            (CUT, "its last record batch is incomplete, as brokers send them"),
        ),
    ),
    (
        "Marks: fields, bytes, records and times",
        (
            ("▸ ▾", "folded, unfolded (enter)"),
            ("✖", "decoding stopped or failed here"),
            ("•", "a secret that is withheld"),
            (
                "below, abort",
                "in Skip: consumers skip the record, which is before their offset or of an aborted transaction",
            ),
            ("█ ░", "in Timing: lasted that long, at most that long"),
            ("E W N", "at a field: an error code, as in the list"),
        ),
    ),
    (
        "Marks: tables and figures",
        (
            ("▲ ▼", "the table is sorted by this column, least or greatest first"),
            ("-", "not known, or there is none"),
            (
                f"{LOW} {HIGH} {BOTH}",
                "over time: p50, p99, both at one place; the scale is logarithmic",
            ),
            (f"{LEVELS[0]} {LEVELS[-1]}", "over time: from zero, which is blank, to the largest value"),
            ("…", "cut for lack of room; enter or a wider terminal shows the rest"),
        ),
    ),
    (
        SHORT_WORDS,
        (
            ("Br", "broker, by its node id"),
            ("Conn, Conns", "connection, connections"),
            ("ISR, Under-repl", "in-sync replicas; fewer of them than replicas"),
            ("Part", "partition"),
            ("Rec, rec/s, Rec/s", "records, records a second; in the table Lag those that the group commits"),
            ("req B, rsp B", "bytes of the request, of the response"),
            ("req/s, B/s", "requests and bytes a second"),
            ("err%", "exchanges with an error, in percent"),
            ("p50, p90, p99", "50 %, 90 %, 99 % of the latencies are at most this long, in ms"),
            ("Txn, Txns", "transactional id, transactions"),
            ("S, No.", "state and marks, number"),
        ),
    ),
)
"""(title, ((mark, meaning), ...)) of each place that has marks, and of the short words."""
