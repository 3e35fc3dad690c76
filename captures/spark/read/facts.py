"""Facts that flows share: names of topic ids, node ids of brokers, each valid from a position in the capture on."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kproxy.decoders.knowledge import MOST, RESERVED, Fact, Knowledge

NODE: Final = "node"
"""The kind of facts that are not Facts of Knowledge: the node id of a broker."""

Position = tuple[int, int, int]
"""Position at which an item was complete: (done, born, nth)."""
LearnedFact = tuple[str, str, str, Position]
"""A fact's kind, its subject, its value, and the position from which it is known."""


class Facts:
    """The facts of all flows, and from which position each is known."""

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
        """The value that is known at a position."""
        held = self._known.get((fact, about))
        index = 0 if held is None else bisect_right(held[0], position)
        return None if held is None or not index else held[1][index - 1]

    def about(self, fact: str) -> list[str]:
        """The subjects of facts of a kind."""
        return [about for kind, about in self._known if kind == fact]

    @property
    def nodes(self) -> dict[tuple[str, int], tuple[list[Position], list[str]]]:
        """Node ids by host and port."""
        found = {}
        for (fact, about), held in self._known.items():
            if fact == NODE:
                port, _, host = about.partition(" ")
                found[host, int(port)] = held
        return found


class Then(Knowledge):
    """What was known at a position."""

    def __init__(self, facts: Facts, position: Position) -> None:
        super().__init__()
        self._facts = facts
        self.position = position

    def topic(self, topic_id: Any) -> str | None:
        return self._facts.known(Fact.TOPIC.value, bytes(topic_id).hex(), self.position)


def changing(first: Iterable[LearnedFact]) -> list[str]:
    """The subjects of one kind with several values, for which every change counts and not only the first value."""
    seen = Counter((fact, about) for fact, about, _, _ in first)
    return [about for (_, about), count in seen.items() if count > 1]


def learned_facts(batch: Any) -> Iterator[LearnedFact]:
    """The facts in the items of a batch."""
    columns = (batch.column(name).to_pylist() for name in ("learned", "done", "born", "nth"))
    for learned, *position in zip(*columns, strict=True):
        for one in learned or ():
            yield one["fact"], one["about"], one["known"], tuple(position)
