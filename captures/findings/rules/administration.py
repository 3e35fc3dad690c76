"""Reports what administrators delete or change, with the client and the time."""

from __future__ import annotations

from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import Analysis, Analyzer, Context, Key, at_evidence
from kproxy.captures.findings.model import Actor, Impact
from kproxy.decoders.schema import errors

DESTRUCTIVE = "admin.destructive"
SHOWN: Final = 5
"""Maximum number of names that a finding's text lists."""


class Changes(Analyzer):
    """For one client, reports accepted requests that delete or change something: one finding for each kind."""

    __slots__ = ("_context", "_counts", "_names")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counts: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}
        """Maps each kind of change to the names of the first things that it affected."""

    def feed(self, fact: facts.Administration) -> None:
        names = self._names.setdefault(fact.what, [])
        if fact.error and fact.number == 1:
            return
        self._counts[fact.what] = self._counts.get(fact.what, 0) + fact.number
        names += [one for one in fact.names if one not in names][: SHOWN - len(names)]
        more = self._counts[fact.what] - len(names)
        failed = f", some refused: {errors.name(fact.error)}" if fact.error else ""
        self._context.report(
            DESTRUCTIVE,
            at_evidence(fact.at, "trigger", f"{fact.what}: {'; '.join(fact.names[:SHOWN])}{failed}"),
            numbers={
                "client": fact.at.client, "what": fact.what,
                "names": "; ".join(names) + (f"; and more ({more})" if more > 0 else ""),
            },
            impact=Impact("requests", self._counts[fact.what]),
            episode=fact.what,
            actors=(Actor("culprit", fact.at.peer, fact.at.client_id or None),),
        )  # fmt: skip


ANALYSES = (Analysis(frozenset({DESTRUCTIVE}), Key.CLIENT, (facts.Administration,), Changes),)
