"""Formats transactions as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kproxy.captures.analysis.display.filters import equal, own
from kproxy.captures.analysis.display.parts import joined
from kproxy.captures.views import Clock, Kind, Line
from kproxy.decoders.plurals import counted


def text(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        if one["schema"] == "kproxy.aborted_transaction/1":
            fetches = f"listed by {counted(len(one['exchanges']), 'Fetch')}  #{one['exchanges'][0]}"
            aborted = f"producer {one['producer_id']} from offset {one['first_offset']} on"
            yield f"{one['topic']}-{one['partition']}  aborted: {aborted}, {fetches}"
            continue
        facts = [
            f"producer {one['producer_id']}/{one['producer_epoch']}",
            "producer not seen" if one["client_id"] is None else f"{one['client_id']}@{one['host']}",
            one["state"] + (f" after {one['duration_ms']:.1f} ms" if one["duration_ms"] is not None else ""),
            f"{counted(one['records'], 'record')} to {counted(len(one['partitions']), 'partition')}",
            "group " + ", ".join(one["groups"]) if one["groups"] else None,
            one["failure"],
        ]
        yield f"{one['transactional_id']}  {joined(facts)}"
        for step in one["steps"]:
            yield f"  {clock(step['time'])} {step['step']}  #{step['exchange']}"


def _filters(line: Line) -> Iterator[list[str]]:
    """Display filter for a transaction's exchanges: those of its transactional id, from its first to its last one."""
    ended = [] if line["ended"] is None else [f"exchange <= {line['last_exchange']}"]
    yield [equal("txn", line["transactional_id"]), f"exchange >= {line['first_exchange']}", *ended]


KINDS: Final[Mapping[str, Kind]] = {
    "kproxy.transaction/1": Kind(
        ("transactional_id", "first_exchange"),
        _filters,
    ),
    "kproxy.aborted_transaction/1": Kind(("topic", "partition", "producer_id", "first_offset"), own("topic", "topic")),
}
