"""Finds clients that keep using the id of a topic that was deleted or recreated (KIP-516)."""

from __future__ import annotations

from typing import Final

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
    lasting_errors,
)
from kproxy.captures.findings.model import Actor, Impact
from kproxy.decoders.schema import errors

RECREATED = "topic.recreated_commit"
ID_ERRORS: Final = frozenset({100, 103})
"""Error codes UNKNOWN_TOPIC_ID and INCONSISTENT_TOPIC_ID."""


class OldId(Analyzer):
    """For one topic, finds clients that get errors about its id for some time."""

    __slots__ = ("_context", "_streaks")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._streaks: dict[str, tuple[facts.At, int]] = {}
        """Maps each client to its errors since the last success: (first response, number of responses)."""

    def feed(self, fact: facts.PartitionIO) -> None:
        at = fact.at
        if fact.error not in ID_ERRORS:
            if not fact.error:
                self._streaks.pop(at.client, None)
            return
        lasting = lasting_errors(self._context, RECREATED, self._streaks, at.client, at)
        if lasting is None:
            return
        first, count, lasted = lasting
        error, field = errors.name(fact.error), error_field(fact.error)
        self._context.report(
            RECREATED,
            at_evidence(first, "trigger", f"{error} from {first.broker}", path=field),
            at_evidence(at, "symptom", f"still {error}, {count} times by now", path=field),
            numbers={
                "client": at.client, "topic": fact.topic, "error": error, "count": count, "seconds": lasted / SECOND,
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=(at.client, first.time),
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip


ANALYSES = (Analysis(frozenset({RECREATED}), Key.TOPIC, (facts.PartitionIO,), OldId, errors=ID_ERRORS),)
