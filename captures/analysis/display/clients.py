"""Formats clients as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kproxy.captures.analysis.display.filters import equal
from kproxy.captures.analysis.display.parts import joined
from kproxy.captures.text import size_text
from kproxy.captures.views import Clock, Kind, Line
from kproxy.decoders.plurals import counted


def text(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        facts = [
            one["software"],
            ", ".join(one["principals"]) or None,
            "group " + ", ".join(one["groups"]) if one["groups"] else None,
            ", ".join(one["does"]) or None,
            counted(one["connections"], "connection"),
            counted(one["exchanges"], "exchange"),
            f"{size_text(one['request_bytes'])}B > < {size_text(one['response_bytes'])}B",
            f"{counted(one['errors'], 'error')} from #{one['first_error']} on" if one["errors"] else None,
            f"{one['unanswered']} unanswered" if one["unanswered"] else None,
            f"throttled {counted(one['throttled'], 'time')}, {one['throttle_ms']} ms" if one["throttled"] else None,
            f"stopped at {one['stopped_at']}" if one["stopped_at"] else None,
        ]
        yield f"{one['client_id'] or '(no client id)'}@{one['host']}  {joined(facts)}  #{one['first_exchange']}"
        for use in one["refused"]:
            yield f"  Kafka {use['since']} refuses its {use['api']} v{use['version']}"
        for step in one["steps"]:
            latency = "-" if step["latency_ms"] is None else f"{step['latency_ms']:.1f} ms"
            end = "" if step["done"] else f"  {step['error'] or 'no answer'}"
            tries = f"  {step['attempts']} attempts" if step["attempts"] > 1 else ""
            yield f"  {clock(step['time'])} {step['api']} {latency}{tries}{end}  #{step['exchange']}"


def _filters(line: Line) -> Iterator[list[str]]:
    if line["client_id"]:
        own = [equal("client.id", line["client_id"])]
        yield own
        for use in line["refused"]:
            yield [*own, equal("api", use["api"]), equal("version", use["version"])]


KINDS: Final[Mapping[str, Kind]] = {
    "kproxy.client/1": Kind(("client_id", "host"), _filters),
}
