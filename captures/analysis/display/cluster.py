"""Formats the view of the control plane as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kproxy.captures.views import Clock, Kind, Line


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
        about = f"{one['about']}: " if one["about"] and one["kind"] != "controller" else ""
        yield f"  {clock(one['time'])} {about}{one['text']}  {one['source']} #{one['exchange']}"


KINDS: Final[Mapping[str, Kind]] = {
    "kproxy.cluster/1": Kind(),
    "kproxy.cluster_event/1": Kind(("exchange", "about", "text")),
}
