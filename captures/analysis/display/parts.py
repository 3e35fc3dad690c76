"""Parts of lines of text that several views share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kproxy.decoders.schema import errors

Line = Mapping[str, Any]
"""A JSON object of a view."""
Clock = Callable[[str | None], str]
"""The time of day of an RFC 3339 time, to the millisecond; "" for None."""
Text = Callable[[Iterable[Line], Clock], Iterator[str]]
"""The lines of text for the JSON objects of a view; names from the wire are not escaped."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a snapshot shows one kind of JSON object (its "schema").

    `members` identify the thing across snapshots. `filters` gives, for each line of text, the display filters that
    select its exchanges; further lines have those of the first. `timeline` gives the key of its timeline.
    """

    members: tuple[str, ...] = ()
    filters: Callable[[Line], Iterator[list[str]]] = lambda _line: iter(())
    timeline: Callable[[Line], list[Any]] | None = None


def utc(time: str | None) -> str:
    return "" if time is None else time[11:23]


def local(time: str | None) -> str:
    """The time in this machine's zone; in UTC if the zone cannot represent it."""
    if time is None:
        return ""
    try:
        moment = datetime.fromisoformat(time).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{utc(time)}Z"
    return f"{moment:%H:%M:%S}{time[19:23]}"


def joined(facts: Iterable[str | None]) -> str:
    return "  ".join(fact for fact in facts if fact)


def user_text(user: Line) -> str:
    return f"{user['client_id'] or '(no client id)'}@{user['host']}" + (
        f" {user['software']}" if user["software"] else ""
    )


def error_lines(one: Line) -> Iterator[str]:
    """A line for each error code, with its first exchange."""
    for code, count in one["errors"].items():
        yield f"    {count} {errors.name(code)}  #{one['error_exchanges'][code]}"


def first_exchange(user: Line) -> str:
    return f"#{user['first_exchange']}"
