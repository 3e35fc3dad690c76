"""Finds responses that lack, or repeat, partitions or topics of the request."""

from __future__ import annotations

from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import Analysis, Analyzer, Context, Key, api_name, at_evidence, remember
from kproxy.captures.findings.model import Actor, Impact

INCOMPLETE = "response.incomplete"
PAIRS: Final = 1_000
"""Maximum number of pairs of broker and API that are counted for a client."""


class Incomplete(Analyzer):
    """For one client, counts responses that lack or repeat something, by broker and API."""

    __slots__ = ("_context", "_counts", "_empty")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counts: dict[tuple[str, int, bool], int] = {}
        self._empty: dict[tuple[int, int], int] = {}
        """Maps (connection, API key) to the number of responses without any partition."""

    def feed(self, fact: facts.Incomplete) -> None:
        at = fact.at
        if not fact.answered:
            place = at.connection, at.key
            empty = self._empty.get(place, 0) + 1
            remember(self._empty, place, empty, PAIRS)
            if empty < self._context.limit(INCOMPLETE, "empty"):
                return
        kind = at.broker, at.key, fact.twice
        count = self._counts.get(kind, 0) + 1
        remember(self._counts, kind, count, PAIRS)
        if count < self._context.limit(INCOMPLETE, "times") or not self._context.whole(at.connection):
            return
        what = f"has {fact.number} twice" if fact.twice else f"lacks {fact.number}"
        self._context.report(
            INCOMPLETE,
            at_evidence(at, "trigger", f"{what}: {fact.what}", weight=fact.number),
            numbers={
                "api": api_name(at.key), "version": at.version, "broker": at.broker, "asked": fact.asked,
                "what": what, "example": fact.what, "client": at.client,
            },
            impact=Impact("requests", count),
            episode=kind,
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip


ANALYSES = (Analysis(frozenset({INCOMPLETE}), Key.CLIENT, (facts.Incomplete,), Incomplete),)
