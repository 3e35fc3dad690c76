"""Formats connections as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kproxy.captures.analysis.display.filters import own
from kproxy.captures.analysis.display.parts import joined
from kproxy.captures.text import size_text
from kproxy.captures.views import Clock, Kind, Line
from kproxy.decoders.plurals import counted


def text(lines: Iterable[Line], _clock: Clock) -> Iterator[str]:
    for one in lines:
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


KINDS: Final[Mapping[str, Kind]] = {
    "kproxy.connection/1": Kind(
        ("connection",),
        own("connection", "connection"),
    ),
}
