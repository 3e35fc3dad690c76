"""How many findings concern each client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kproxy.captures.views import Line

GRAVE: Final = frozenset({"warn", "error"})
"""Severities that are counted; notes and information would name most clients."""


def with_findings(clients: Iterable[Line], findings: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """The lines of clients ("kproxy.client/1") with "findings": how many warnings and errors name the client.

    `findings` have the form "kproxy.finding/1".
    """
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for finding in findings:
        if finding["severity"] in GRAVE:
            counts.update({(actor["client_id"], actor["peer"]) for actor in finding["actors"]})
    for client in clients:
        yield {**client, "findings": counts[client["client_id"], client["host"]]}
