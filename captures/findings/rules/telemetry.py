"""Finds client telemetry that brokers refuse (KIP-714)."""

from __future__ import annotations

from collections import deque
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, Analysis, Analyzer, Context, Key, at_evidence, error_field
from kproxy.captures.findings.model import Actor, Impact
from kproxy.decoders.schema import errors

REJECTED = "telemetry.rejected"
WINDOW: Final = 600 * SECOND
ERRORS: Final = {
    76: "the broker does not support their compression",
    89: "it pushes more often than the broker allows",
    117: "it uses an outdated subscription id",
    118: "they are larger than the broker accepts",
}
POINTLESS: Final = "it pushes metrics although its subscription has none"


class Rejected(Analyzer):
    """For one client, finds pushes that brokers refuse, and pushes of metrics that the broker has not requested."""

    __slots__ = ("_context", "_empty", "_recent", "_times")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._times = max(1, int(context.limit(REJECTED, "times")))
        self._empty: dict[int, bool] = {}
        self._recent: dict[int, deque[facts.At]] = {}
        """Maps error codes to the latest pushes with this error; 0: pushes of metrics that were not requested."""

    def feed(self, fact: facts.Telemetry) -> None:
        if fact.what == "subscribe":
            if not fact.error:
                self._empty = {fact.at.connection: fact.metrics == 0}
        elif fact.terminating:
            return
        if fact.error in ERRORS:
            self._add(fact, fact.error, f"{ERRORS[fact.error]} ({errors.name(fact.error)})")
        elif fact.what == "push" and fact.size and not fact.error and self._empty.get(fact.at.connection):
            self._add(fact, 0, POINTLESS)

    def _add(self, fact: facts.Telemetry, error: int, why: str) -> None:
        at = fact.at
        recent = self._recent.setdefault(error, deque(maxlen=self._times))
        recent.append(at)
        if len(recent) < self._times or at.time - recent[0].time >= WINDOW:
            return
        path = error_field(error) if error else "request.metrics"
        what = f"{why}, {self._times} times within 10 minutes, the last one with {fact.size} bytes"
        self._context.report(
            REJECTED,
            *(at_evidence(one, "trigger", why, path=path) for one in recent),
            numbers={"client": at.client, "what": what, "size": fact.size},
            impact=Impact("bytes_wasted", fact.size * self._times),
            episode=error,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )


ANALYSES = (Analysis(frozenset({REJECTED}), Key.CLIENT, (facts.Telemetry,), Rejected),)
