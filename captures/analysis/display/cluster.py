"""Formats the view of the control plane as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kproxy.captures.analysis.display.filters import equal
from kproxy.captures.analysis.display.parts import joined, user_text
from kproxy.captures.text import size_text
from kproxy.captures.views import Clock, Kind, Line
from kproxy.decoders.plurals import counted


def text(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        if one["schema"] == "kproxy.cluster/1":
            controller = one["controller"]
            epoch = "" if one["controller_epoch"] is None else f" at epoch {one['controller_epoch']}"
            who = "unknown" if controller is None else f"{controller}{epoch}"
            yield f"cluster {one['cluster_id'] or '(id unknown)'}  controller {who}"
            for broker in one["brokers"]:
                yield f"  broker {broker['node_id']}  {broker['address']}" + (
                    f"  rack {broker['rack']}" if broker["rack"] else ""
                )
            if one["fetches"]:
                yield "  fetches: " + ", ".join(f"{count} {role}" for role, count in one["fetches"].items())
            continue
        if one["schema"] == "kproxy.partition/1":
            yield from _partition(one, clock)
            continue
        about = f"{one['about']}: " if one["about"] and one["kind"] != "controller" else ""
        yield f"  {clock(one['time'])} {about}{one['text']}  {one['source']} #{one['exchange']}"


def _partition(one: Line, clock: Clock) -> Iterator[str]:
    facts = [
        f"{name} {_ids(one[name])}" for name in ("replicas", "isr", "offline") if one[name]
    ]  # fmt: skip
    leader = "none" if one["leader"] is not None and one["leader"] < 0 else one["leader"]
    yield f"{one['topic']}-{one['partition']}  " + joined([
        f"leader {'unknown' if leader is None else leader}",
        f"epoch {one['leader_epoch']}" if one["leader_epoch"] is not None else None,
        *facts,
        "under-replicated" if one["under_replicated"] else None,
        f"end {one['end']}" if one["end"] is not None else None,
    ])  # fmt: skip
    for user in one["users"]:
        yield "  " + joined([
            f"{user['role']:<9} {user_text(user)}",
            f"{counted(user['records'], 'record')} {size_text(user['bytes'])}B",
            f"{user['records'] / user['seconds']:,.1f} records/s" if user["seconds"] else None,
            f"#{user['first_exchange']}",
        ])  # fmt: skip
    for change in one["changes"]:
        yield f"  {clock(change['time'])} {change['text']}  {change['source']} #{change['exchange']}"


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _partition_filters(line: Line) -> Iterator[list[str]]:
    own = [equal("topic", line["topic"])]
    yield own
    for user in line["users"]:
        yield [*own, *([equal("client.id", user["client_id"])] if user["client_id"] else [])]


KINDS: Final[Mapping[str, Kind]] = {
    "kproxy.cluster/1": Kind(),
    "kproxy.cluster_event/1": Kind(("exchange", "about", "text")),
    "kproxy.partition/1": Kind(("topic", "partition"), _partition_filters),
}
