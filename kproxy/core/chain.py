"""Several actors on one connection: each actor changes the verdict that the actor before it made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kproxy.core.acting import Actors
from kproxy.core.verdict import Turn, Verdict
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Side


class Chain:
    """Actors in the order in which they decide; implements the protocol `kproxy.core.acting.Actors`."""

    def __init__(self, actors: Sequence[Actors]) -> None:
        self.actors = actors
        self.plans: dict[int, Any] = {}
        for one in actors:
            one.plans = self.plans

    @property
    def definitions(self) -> Definitions:
        return self.actors[0].definitions

    def act_on(self, side: Side, api_key: int) -> bool:
        return any(one.act_on(side, api_key) for one in self.actors)

    def offer(self, side: Side, turn: Turn, verdict: Verdict) -> None:
        for one in self.actors:
            if verdict.final:
                return
            one.offer(side, turn, verdict)

    def passed(self, side: Side, api_key: int, api_version: int, reason: str) -> None:
        for one in self.actors:
            if one.act_on(side, api_key):
                one.passed(side, api_key, api_version, reason)
