"""Digests: an additional item for each partition of stage 2, from which the driver learns what stage 3 needs."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import zstandard

from kproxy.captures.spark.read.facts import LearnedFact, Position
from kproxy.captures.tables.rows import Row
from kproxy.captures.tables.schema import FLOWS, TABLES

DIGEST: Final = "digest"
"""Kind of an item whose `state` is a packed Digest of the items before it."""
_GAPS: Final = TABLES[FLOWS.name].index("gap_bytes")


@dataclass(slots=True)
class Digest:
    """The totals and facts of stage 2's items that stage 3 needs.

    `facts[True]` maps each fact of final items to its first position, `facts[False]` each fact of other items. `counts`
    maps (kind, range) to how many items were not numbered by an earlier batch. `lost` is the number of missing bytes in
    rows of flows.
    """

    facts: dict[bool, dict[tuple[str, str, str], Position]] = field(default_factory=lambda: {True: {}, False: {}})
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    lost: int = 0

    @classmethod
    def of(cls, states: Iterable[bytes]) -> Digest:
        """The digest of several partitions, from the `state` of their digest items."""
        whole = cls()
        for state in states:
            other: Digest = pickle.loads(zstandard.decompress(state))  # noqa: S301  # of our own stage 2
            for final, facts in other.facts.items():
                for fact, position in facts.items():
                    whole.learn([fact], position, final=final)
            whole.counts += other.counts
            whole.lost += other.lost
        return whole

    def take(self, kind: str, span: int, number: int | None, rows: Sequence[Row] | None) -> None:
        """Add an item with this kind, range and number, and with these rows of the table flows."""
        if number is None:
            self.counts[kind, span] += 1
        for row in rows or ():
            self.lost += row[_GAPS]

    def learn(self, learned: Iterable[tuple[str, str, str]], position: Position, *, final: bool) -> None:
        """Add the facts of an item, known from `position` on."""
        facts = self.facts[final]
        for fact in learned:
            facts[fact] = min(position, facts.get(fact, position))

    def packed(self) -> bytes:
        return zstandard.compress(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))

    def learned(self, *, final: bool) -> Iterator[LearnedFact]:
        """The facts of the final items if `final` is true, else of all other items; each with its first position."""
        return ((*fact, position) for fact, position in self.facts[final].items())

    @property
    def counted(self) -> Iterator[tuple[str, int, int]]:
        """The entries of `counts` as (kind, range, number of items)."""
        return ((kind, span, count) for (kind, span), count in self.counts.items())
