"""Draws groups, partitions, transactions and clients' start-ups as rows over time, with spans, marks and levels.

A timeline is {"title", "from", "to", "rows", "more"}: "from" and "to" are nanoseconds since the epoch, "rows" are
{"name", "spans": [[from, to, how]], "marks": [[time, letter]], "levels": [[time, value]]}, and "more" is the number of
rows left out. "how" is "ok" or "failed"; LEGEND explains the letters. A level holds until the time of the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from kproxy.captures.text import size_text

Line = Mapping[str, Any]
Row = dict[str, Any]

MOST_ROWS: Final = 40
MOST_MARKS: Final = 500
"""Maximum number of marks in a row; the latest are kept."""
SLICES: Final = 24
"""Maximum number of slices of time for which a rate is drawn."""
OK, FAILED = "ok", "failed"
LEGEND: Final[Mapping[str, str]] = MappingProxyType({
    "G": "generation", "J": "join", "S": "sync", "A": "assigned", "X": "left or aborted",
    "+": "partition or offsets added", "P": "first produce", "C": "commit", "L": "leader", "I": "in-sync replicas",
    "!": "error", "*": "other",
})  # fmt: skip
_CHANGES: Final = {"leader": "L", "isr": "I", "offline": "!"}
_EVENTS: Final = {"join": "J", "sync": "S", "assigned": "A", "leave": "X"}


def timeline(line: Line) -> dict[str, Any] | None:
    """The timeline of a view's JSON object; None if its kind has none."""
    if line["schema"] not in _KINDS:
        return None
    title, make = _KINDS[line["schema"]]
    rows = make(line)
    times = [time for row in rows for start, end, _ in row["spans"] for time in (start, end)]
    times += [time for row in rows for time, _ in [*row["marks"], *row["levels"]]]
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
    return {"name": name, "spans": [], "marks": [], "levels": []}


def _points(over_time: Line, name: str) -> list[list[int]]:
    """[time in ns, value] for each value of a member "over_time" of the JSON."""
    begin = nanoseconds(over_time["from"])
    return [[begin + 1_000_000 * passed, value] for passed, value in zip(over_time["ms"], over_time[name], strict=True)]


def _levels(name: str, levels: list[list[int]]) -> Row:
    """A row with levels; their range, from 0 to the largest one, is added to its name."""
    largest = max(value for _, value in levels)
    return {**_row(f"{name} 0..{size_text(largest)}" if largest else f"{name} 0"), "levels": levels}


def _rates(points: list[list[int]]) -> list[list[int]]:
    """The increase per second of values that never decrease, in at most SLICES slices of equal length.

    Each rate is that of a whole slice, because rates between points that lie close together mean little.
    """
    begin, end = points[0][0], points[-1][0]
    slices = min(SLICES, len(points) - 1)
    length = max(end - begin, 1_000_000) / slices
    borders = [begin + round(length * number) for number in range(slices + 1)]
    times, values = zip(*points, strict=True)
    reached = [_between(times, values, border) for border in borders]
    rates = [round((after - before) * 1e9 / length) for before, after in pairwise(reached)]
    # the last rate holds to the end of its slice
    return [[time, rate] for time, rate in zip(borders, [*rates, rates[-1]], strict=True)]


def _between(times: Sequence[int], values: Sequence[int], at: int) -> float:
    """The value at a time, on the straight line between the points before and after it."""
    after = min(max(bisect_right(times, at), 1), len(times) - 1)
    start, end = times[after - 1], times[after]
    share = (at - start) / max(end - start, 1)
    return values[after - 1] + (values[after] - values[after - 1]) * min(max(share, 0), 1)


def _sum(each: list[list[list[int]]]) -> list[list[int]]:
    """The sum of several levels, at each time at which one of them changes."""
    latest = [0] * len(each)
    total = 0
    found: list[list[int]] = []
    for time, which, value in sorted((time, which, value) for which, one in enumerate(each) for time, value in one):
        total += value - latest[which]
        latest[which] = value
        if found and found[-1][0] == time:
            found[-1][1] = total
        else:
            found.append([time, total])
    return found


def _lags(lags: Sequence[Line]) -> list[Row]:
    """The lag of a group over time: the sum, then each partition that had lag, if it has several."""
    each = {
        f"{one['topic']}-{one['partition']}": _points(one["over_time"], "records") for one in lags if one["over_time"]
    }
    if not each:
        return []
    behind = {name: levels for name, levels in each.items() if any(value for _, value in levels)}
    return [
        _levels("lag", _sum(list(each.values()))),
        *(_levels(f"lag {name}", levels) for name, levels in behind.items() if len(each) > 1),
    ]


def _group(line: Line) -> list[Row]:
    whole = _row("generations")
    whole["marks"] = [[nanoseconds(one["time"]), "G"] for one in line["generations"]][-MOST_MARKS:]
    events: dict[str, list[list[Any]]] = {}
    for event in line["events"]:
        letter = "!" if event["detail"][:1].isdigit() else _EVENTS.get(event["event"], "*")
        events.setdefault(event["member_id"], []).append([nanoseconds(event["time"]), letter])
    times = [time for marks in (whole["marks"], *events.values()) for time, _ in marks]
    times += [nanoseconds(member["left"]) for member in line["members"] if member["left"]]
    lags = _lags(line["lag"])
    rows = [whole, *lags[:1]]
    for member in line["members"]:
        row = _row(member["client_id"] or member["member_id"])
        row["marks"] = events.get(member["member_id"], [])[-MOST_MARKS:]
        if member["joined"]:
            end = nanoseconds(member["left"]) if member["left"] else max(times, default=0)
            begin = nanoseconds(member["joined"])
            row["spans"] = [[begin, max(begin, end), OK]]
        rows.append(row)
    return [*rows, *lags[1:]]


def _partition(line: Line) -> list[Row]:
    changes = _row("changes")
    changes["marks"] = [[nanoseconds(one["time"]), _CHANGES.get(one["kind"], "*")] for one in line["changes"]]
    rows = [changes] if changes["marks"] else []
    if line["over_time"]:
        rows.append(_levels("records/s", _rates(_points(line["over_time"], "end"))))
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
    "kproxy.partition/1": ("{topic}-{partition}", _partition),
    "kproxy.transaction/1": ("{transactional_id} {state}", _transaction),
    "kproxy.client/1": ("start-up of {client_id}", _client),
})  # fmt: skip
"""By the "schema" of a view's JSON object: (title of its timeline, function that makes the rows)."""
