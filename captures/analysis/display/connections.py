"""Formats connections and the start-up of clients as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kproxy.captures.analysis.display.filters import equal, own
from kproxy.captures.analysis.display.parts import joined
from kproxy.captures.text import size_text
from kproxy.captures.views import Clock, Kind, Line
from kproxy.decoders.plurals import counted


def text(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        if one["schema"] == "kproxy.client/1":
            facts = [one["software"], "group " + ", ".join(one["groups"]) if one["groups"] else None]
            stopped = one["stopped_at"]
            facts.append(f"stopped at {stopped}" if stopped else None)
            yield f"{one['client_id'] or '(no client id)'}@{one['host']}  {joined(facts)}".rstrip()
            for step in one["steps"]:
                latency = "-" if step["latency_ms"] is None else f"{step['latency_ms']:.1f} ms"
                end = "" if step["done"] else f"  {step['error'] or 'no answer'}"
                tries = f"  {step['attempts']} attempts" if step["attempts"] > 1 else ""
                yield f"  {clock(step['time'])} {step['api']} {latency}{tries}{end}  #{step['exchange']}"
            continue
        facts = [
            ", ".join(one["client_ids"]) or None,
            one["software"],
            "tls" if one["tls"] else None,
            _authentication(one["sasl"]),
            counted(one["exchanges"], "exchange"),
            "the only sign that this is Kafka" if one["exchanges"] == 1 else None,
            f"{size_text(one['request_bytes'])}B > < {size_text(one['response_bytes'])}B",
            f"{one['in_flight_most']} in flight at most" if one["in_flight_most"] else None,
            f"{counted(one['errors'], 'error')} from #{one['first_error']} on" if one["errors"] else None,
            f"{one['unanswered']} unanswered" if one["unanswered"] else None,
        ]
        yield f"{one['connection']}  {one['client']} > {one['broker']}  {joined(facts)}  #{one['first_exchange']}"


def _authentication(sasl: Mapping[str, Any] | None) -> str | None:
    if sasl is None:
        return None
    who = f"{sasl.get('principal', 'somebody')} by {sasl.get('mechanism', 'a mechanism that was not seen')}"
    times = f" {sasl['authentications']} times" if sasl["authentications"] > 1 else ""
    return f"{who}, {sasl['state']}{times}" + (f": {sasl['error']}" if "error" in sasl else "")


def _client_filters(line: Line) -> Iterator[list[str]]:
    if line["client_id"]:
        yield [equal("client.id", line["client_id"])]


KINDS: Final[Mapping[str, Kind]] = {
    "kproxy.connection/1": Kind(
        ("connection",),
        own("connection", "connection"),
        lambda line: [next(iter(line["client_ids"]), ""), line["client"].rpartition(":")[0]],
    ),
    "kproxy.client/1": Kind(("client_id", "host"), _client_filters, lambda line: [line["client_id"], line["host"]]),
}
