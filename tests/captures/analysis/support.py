"""Views of scripted exchanges."""

from __future__ import annotations

from typing import Any

from kproxy.captures.analysis.views import Views
from tests.support.scripts import Script, eyes, play, request, response

Exchanged = tuple[int, int, dict[str, Any], dict[str, Any] | None]
"""API key, version, request, response (None: there is none)."""


def views(*steps: Exchanged, client_id: str | None = "shop", script: Script | None = None) -> Views:
    """One after the other on one connection, each packet a millisecond after the one before it."""
    script = script or Script()
    for number, (key, version, asked, answered) in enumerate(steps):
        script.client(request(key, version, number, client_id, **asked))
        if answered is not None:
            script.broker(response(key, version, number, **answered))
    played = play(script.end())
    found = Views(played.tape, eyes())
    for exchange in played.exchanges:
        found.add(exchange)
    return found


def at(milliseconds: int) -> str:
    """A time after the script's beginning, as lines have it."""
    return f"2023-11-14T22:13:20.{milliseconds:03}000000Z"
