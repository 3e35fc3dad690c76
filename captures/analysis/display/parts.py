"""Formats parts of lines that several views share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kproxy.captures.views import Line
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import errors

MOST_LAGS: Final = 20
"""Maximum number of partitions whose lag is listed; --json has all."""


def joined(facts: Iterable[str | None]) -> str:
    return "  ".join(fact for fact in facts if fact)


def user_text(user: Line) -> str:
    return f"{user['client_id'] or '(no client id)'}@{user['host']}" + (
        f" {user['software']}" if user.get("software") else ""
    )


def lag_text(lags: Sequence[Line]) -> str:
    """The lag of a group in records and seconds: "lag 1,200 records  12.3 s".

    The records are the sum over all partitions, the seconds those of the slowest. "lag unknown" if no partition's end
    is known.
    """
    known = known_lag(lags)
    if known is None:
        return "lag unknown"
    records, seconds = known
    return f"lag {counted(records, 'record', ',')}" + (f"  {seconds:,.1f} s" if seconds else "")


def known_lag(lags: Iterable[Line]) -> tuple[int, float] | None:
    """(records behind in all partitions, seconds of the slowest); None if no partition's end is known."""
    known = [(one["records"], one["seconds"]) for one in lags if one["records"] is not None]
    if not known:
        return None
    return sum(records for records, _ in known), max(seconds for _, seconds in known)


def assignment_text(assignment: Mapping[str, Iterable[int]]) -> str:
    """The partitions that a member is assigned: "orders 0 1, payments 3"."""
    return ", ".join(f"{topic} {' '.join(map(str, numbers))}" for topic, numbers in assignment.items())


def lag_lines(lags: Sequence[Line]) -> Iterator[str]:
    """A line for each partition with lag; the largest lag comes first."""
    behind = [one for one in lags if one["records"]]
    for one in behind[:MOST_LAGS]:
        facts = [
            f"lag {counted(one['records'], 'record', ',')}",
            f"{one['seconds']:,.1f} s",
            f"committed {one['committed']}",
            f"end {one['end']}",
            None if one["rate"] is None else f"{one['rate']:,.1f} committed a second",
            one["state"],
        ]
        yield f"  {one['topic']}-{one['partition']}  {joined(facts)}"
    if len(behind) > MOST_LAGS:
        yield f"  {counted(len(behind) - MOST_LAGS, 'more partition')} with lag (--json has them)"


def error_lines(one: Line) -> Iterator[str]:
    """A line for each error code with its first exchange."""
    for code, count in one["errors"].items():
        yield f"    {count} {errors.name(code)}  #{one['error_exchanges'][code]}"


def first_exchange(user: Line) -> str:
    return f"#{user['first_exchange']}"
