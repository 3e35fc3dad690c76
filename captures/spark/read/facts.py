"""Facts that flows share: names of topic ids, and node ids of brokers. Each is known from its position on."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kproxy.decoders.knowledge import MOST, RESERVED, Fact, Knowledge

NODE: Final = "node"
"""Kind of the facts about brokers' node ids; the kinds of all others are values of `Fact`."""

Position = tuple[int, int, int]
"""(done, born, nth) of an item in captures.spark.read.flows.ITEMS: where it was complete."""
LearnedFact = tuple[str, str, str, Position]
"""(kind, subject, value, position from which the fact is known)."""


class Facts:
    """The facts of all flows, each with the positions from which its values are known."""

    def __init__(self, facts: Iterable[LearnedFact]) -> None:
        self._known: dict[tuple[str, str], tuple[list[Position], list[str]]] = {}
        for topic_id, name in RESERVED.items():
            self._known[Fact.TOPIC.value, topic_id.hex()] = [(-1, 0, 0)], [name]
        kept = Counter({Fact.TOPIC.value: len(RESERVED)})
        for fact, about, known, position in sorted(facts, key=lambda one: one[3]):
            held = self._known.get((fact, about))
            if held is None:
                if fact != NODE and kept[fact] >= MOST:
                    continue
                kept[fact] += 1
                held = self._known[fact, about] = [], []
            if not held[1] or held[1][-1] != known:
                held[0].append(position)
                held[1].append(known)

    def known(self, fact: str, about: str, position: Position) -> str | None:
        """The value of a fact about a subject at a position; None if it is not known there."""
        held = self._known.get((fact, about))
        index = 0 if held is None else bisect_right(held[0], position)
        return None if held is None or not index else held[1][index - 1]

    def about(self, fact: str) -> list[str]:
        """The subjects of all facts of this kind."""
        return [about for kind, about in self._known if kind == fact]

    @property
    def nodes(self) -> dict[tuple[str, int], tuple[list[Position], list[str]]]:
        """Maps (host, port) to (positions, node ids): from each position on, the node id at the same index is known."""
        found = {}
        for (fact, about), held in self._known.items():
            if fact == NODE:
                port, _, host = about.partition(" ")
                found[host, int(port)] = held
        return found


class Then(Knowledge):
    """The facts that were known at `position`. The caller may change `position`."""

    def __init__(self, facts: Facts, position: Position) -> None:
        super().__init__()
        self._facts = facts
        self.position = position

    def topic(self, topic_id: Any) -> str | None:
        return self._facts.known(Fact.TOPIC.value, bytes(topic_id).hex(), self.position)


def changing(first: Iterable[LearnedFact]) -> list[str]:
    """The subjects of facts whose value changes: for these, all positions are needed and not only the first."""
    seen = Counter((fact, about) for fact, about, _, _ in first)
    return [about for (_, about), count in seen.items() if count > 1]


def learned_facts(batch: Any) -> Iterator[LearnedFact]:
    """The facts in the column `learned` of a batch of items."""
    columns = (batch.column(name).to_pylist() for name in ("learned", "done", "born", "nth"))
    for learned, *position in zip(*columns, strict=True):
        for one in learned or ():
            yield one["fact"], one["about"], one["known"], tuple(position)
