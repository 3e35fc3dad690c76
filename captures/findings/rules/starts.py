"""Finds clients that cannot complete a step of their start."""

from __future__ import annotations

from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    SECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    at_evidence,
    error_field,
)
from kproxy.captures.findings.model import Actor, Impact
from kproxy.decoders.schema import api_keys, errors

STUCK = "client.stuck_start"
WORDS: Final = {
    "metadata": "to read metadata",
    "coordinator": "to find the coordinator",
    "join": "to join",
    "producer id": "to get a producer id",
}


class Stuck(Analyzer):
    """For one client, finds a step of its start that fails again and again; stops once the client works."""

    __slots__ = ("_context", "_failing", "_passed")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._passed: frozenset[str] = frozenset()
        self._failing: dict[str, tuple[facts.At, int]] = {}
        """Maps each step to its consecutive failures: (first one, number)."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Beginning):
            # a JoinGroup, even an unanswered one, still belongs to the start of a consumer
            if fact.work and fact.at.key != api_keys.JOIN_GROUP:
                self._context.rest()
        elif not fact.error:
            if fact.step == "join":
                self._context.rest()
            self._passed |= {fact.step}
            self._failing.pop(fact.step, None)
        elif fact.step not in self._passed and fact.step in WORDS:
            first, count = self._failing.get(fact.step, (fact.at, 0))
            self._failing[fact.step] = first, count + 1
            self._judge(fact, first, count + 1)

    def _judge(self, fact: facts.StartStep, first: facts.At, count: int) -> None:
        at, lasted = fact.at, fact.at.time - first.time
        if count < self._context.limit(STUCK, "tries") or lasted < self._context.limit(STUCK, "stuck_ms") * MILLISECOND:
            return
        error = errors.name(fact.error)
        self._context.report(
            STUCK,
            at_evidence(first, "trigger", f"the first try {WORDS[fact.step]}"),
            at_evidence(at, "symptom", f"try {count}: {error}", path=error_field(fact.error)),
            numbers={
                "client": at.client, "step": WORDS[fact.step], "name": f" of {fact.name}" if fact.name else "",
                "lasted_s": lasted / SECOND, "count": count, "error": error,
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=fact.step,
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip


ANALYSES = (Analysis(frozenset({STUCK}), Key.CLIENT, (facts.StartStep, facts.Beginning), Stuck),)
