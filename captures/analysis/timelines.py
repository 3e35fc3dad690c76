"""Draws groups, transactions and clients' start-ups as rows over time, with spans and marks.

A timeline is {"title", "from", "to", "rows", "more"}: "from" and "to" are nanoseconds since the epoch, "rows" are
{"name", "spans": [[from, to, how]], "marks": [[time, letter]]}, and "more" is the number of rows left out. "how" is
"ok" or "failed"; LEGEND explains the letters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

Line = Mapping[str, Any]
Row = dict[str, Any]

MOST_ROWS: Final = 40
MOST_MARKS: Final = 500
"""Maximum number of marks in a row; the latest are kept."""
OK, FAILED = "ok", "failed"
LEGEND: Final[Mapping[str, str]] = MappingProxyType({
    "G": "generation", "J": "join", "S": "sync", "A": "assigned", "X": "left or aborted",
    "+": "partition or offsets added", "P": "first produce", "C": "commit", "!": "error", "*": "other",
})  # fmt: skip
_EVENTS: Final = {"join": "J", "sync": "S", "assigned": "A", "leave": "X"}


def timeline(line: Line) -> dict[str, Any] | None:
    """The timeline of a view's JSON object; None if its kind has none."""
    if line["schema"] not in _KINDS:
        return None
    title, make = _KINDS[line["schema"]]
    rows = make(line)
    times = [time for row in rows for start, end, _ in row["spans"] for time in (start, end)]
    times += [time for row in rows for time, _ in row["marks"]]
    if not times:
        return None
    return {
        "title": title.format_map(line),
        "from": min(times),
        "to": max(times),
        "rows": rows[:MOST_ROWS],
        "more": max(0, len(rows) - MOST_ROWS),
    }


def nanoseconds(time: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time with nine decimals, as views write times."""
    whole, _, rest = time.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 1_000_000_000 + int(rest.ljust(9, "0")[:9] or 0)


def _row(name: str) -> Row:
    return {"name": name, "spans": [], "marks": []}


def _group(line: Line) -> list[Row]:
    whole = _row("generations")
    whole["marks"] = [[nanoseconds(one["time"]), "G"] for one in line["generations"]][-MOST_MARKS:]
    events: dict[str, list[list[Any]]] = {}
    for event in line["events"]:
        letter = "!" if event["detail"][:1].isdigit() else _EVENTS.get(event["event"], "*")
        events.setdefault(event["member_id"], []).append([nanoseconds(event["time"]), letter])
    times = [time for marks in (whole["marks"], *events.values()) for time, _ in marks]
    times += [nanoseconds(member["left"]) for member in line["members"] if member["left"]]
    rows = [whole]
    for member in line["members"]:
        row = _row(member["client_id"] or member["member_id"])
        row["marks"] = events.get(member["member_id"], [])[-MOST_MARKS:]
        if member["joined"]:
            end = nanoseconds(member["left"]) if member["left"] else max(times, default=0)
            begin = nanoseconds(member["joined"])
            row["spans"] = [[begin, max(begin, end), OK]]
        rows.append(row)
    return rows


def _transaction(line: Line) -> list[Row]:
    steps = [(nanoseconds(step["time"]), step["step"]) for step in line["steps"]]
    begin = nanoseconds(line["began"])
    end = nanoseconds(line["ended"]) if line["ended"] else max([time for time, _ in steps], default=begin)
    row = _row(line["transactional_id"])
    row["spans"] = [[begin, max(begin, end), OK if line["state"] in {"open", "committed"} else FAILED]]
    row["marks"] = [[time, _step(what)] for time, what in steps][-MOST_MARKS:]
    return [row]


def _step(what: str) -> str:
    if ":" in what:
        return "!"
    for word, letter in (("Produce", "P"), ("added", "+"), ("offsets", "+"), ("commit", "C"), ("abort", "X")):
        if word in what:
            return letter
    return "*"


def _client(line: Line) -> list[Row]:
    rows = []
    for step in line["steps"]:
        begin = nanoseconds(step["time"])
        end = begin + int((step["latency_ms"] or 0) * 1_000_000)
        row = _row(step["api"])
        row["spans"] = [[begin, end, OK if step["done"] else FAILED]]
        if not step["done"]:
            row["marks"] = [[end, "!"]]
        rows.append(row)
    return rows


_KINDS: Final[Mapping[str, tuple[str, Callable[[Line], list[Row]]]]] = MappingProxyType({
    "kproxy.group/1": ("{kind} group {group}", _group),
    "kproxy.transaction/1": ("{transactional_id} {state}", _transaction),
    "kproxy.client/1": ("start-up of {client_id}", _client),
})  # fmt: skip
"""By the "schema" of a view's JSON object: (title of its timeline, function that makes the rows)."""
