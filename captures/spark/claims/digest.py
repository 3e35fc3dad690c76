"""Digests: a further item for each partition of stage 2, from which the driver learns what stage 3 needs of all items.

Items of an unproven flow do not count.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import zstandard

from kproxy.captures.spark.read.facts import LearnedFact, Position
from kproxy.captures.spark.read.flows import FINAL, ITEMS, NUMBERED
from kproxy.captures.tables.schema import FLOWS, TABLES
from kproxy.captures.tcp.packets import Ints

VERDICT: Final = "verdict"
"""Kind of an item whose `state` is a captures.spark.claims.judging.Verdict about the portion `range`."""
UNPROVEN: Final = "unproven"
"""Kind of an item that says that the items of its flow must not be used."""
DIGEST: Final = "digest"
"""Kind of an item whose `state` is a packed Digest of the items before it."""

_KIND, _RANGE, _STARTED, _LEARNED, _FLOW, _STATE, _ROWS = map(
    ITEMS.names.index, ("kind", "range", "started", "learned", "flow_id", "state", FLOWS.name)
)
_PLACE: Final = tuple(map(ITEMS.names.index, ("done", "born", "nth")))
_GAPS: Final = TABLES[FLOWS.name].index("gap_bytes")

Verdicts = list[bytes]
"""The packed verdicts on a portion (`verdicts_in`), one entry for each partition with flows of it.

They are packed because the driver and every task hold those of all portions.
"""


@dataclass(slots=True)
class Digest:
    """What stage 3 needs of the items of stage 2.

    `facts` maps each fact to its first position, `counts` (kind, range) to a number of items. `began` are the
    addresses, unsorted, where exchanges among the items began. `lost` is the number of missing bytes in rows of flows.
    `unproven` are flow_ids.
    """

    unproven: set[int] = field(default_factory=set)
    verdicts: dict[int, Verdicts] = field(default_factory=dict)
    facts: dict[tuple[str, str, str], Position] = field(default_factory=dict)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    began: list[Ints] = field(default_factory=list)
    lost: int = 0

    def join(self, other: Digest) -> None:
        """Add the digest of other flows."""
        self.unproven |= other.unproven
        for portion, packed in other.verdicts.items():
            self.verdicts.setdefault(portion, []).extend(packed)
        for fact, position in other.facts.items():
            self.add_fact(fact, position)
        self.counts += other.counts
        self.began += other.began
        self.lost += other.lost

    def mend(self, other: Digest) -> None:
        """Add the digest of formerly unproven flows, now read with all their bytes.

        Raises RuntimeError if they are still unproven, because tables would lack them.
        """
        if other.unproven:
            raise RuntimeError(f"flows could not be read though all their bytes were there: {sorted(other.unproven)}")
        self.join(other)

    def add_fact(self, fact: tuple[str, str, str], position: Position) -> None:
        self.facts[fact] = min(position, self.facts.get(fact, position))

    @property
    def learned_facts(self) -> Iterator[LearnedFact]:
        """The facts, each with its first position."""
        return ((*fact, position) for fact, position in self.facts.items())

    @property
    def counted(self) -> Iterator[tuple[str, int, int]]:
        """Kind, range, and number of items."""
        return ((kind, span, count) for (kind, span), count in self.counts.items())

    @property
    def others(self) -> Ints:
        """The sorted addresses where exchanges among the items began."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *self.began]))


class _OfFlow:
    """The digest of the items of one flow."""

    def __init__(self) -> None:
        self.unproven = False
        self.verdicts: dict[int, Any] = {}
        self.began: list[int] = []
        self.digest = Digest()

    def take(self, item: tuple[Any, ...]) -> None:
        kind = item[_KIND]
        if kind == UNPROVEN:
            self.unproven = True
        elif kind == VERDICT:
            self.verdicts[item[_RANGE]] = item[_STATE]
        else:
            self._count(kind, item)

    def _count(self, kind: str, item: tuple[Any, ...]) -> None:
        digest = self.digest
        digest.counts[kind, item[_RANGE]] += 1
        if kind in NUMBERED:
            self.began.append(item[_STARTED])
        for row in item[_ROWS] or ():
            digest.lost += row[_GAPS]
        if item[_LEARNED]:
            done, born, nth = (item[index] for index in _PLACE)
            for fact in item[_LEARNED]:
                digest.add_fact(fact, (done, born, nth))


def digested(items: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows of captures.spark.read.flows.ITEMS, adjacent for each flow, with their digest in place of verdicts."""
    whole = Digest()
    verdicts: dict[int, dict[int, Any]] = {}
    flow: int | None = None
    mine = _OfFlow()

    def end() -> None:
        if mine.unproven:
            whole.unproven.add(flow or 0)
            return
        mine.digest.began = [np.array(mine.began, np.int64)]
        whole.join(mine.digest)
        for portion, verdict in mine.verdicts.items():
            verdicts.setdefault(portion, {})[flow or 0] = verdict

    for item in items:
        if item[_FLOW] != flow:
            end()
            flow, mine = item[_FLOW], _OfFlow()
        mine.take(item)
        if item[_STATE] is None and item[_KIND] != UNPROVEN:
            yield item
    end()
    whole.verdicts = {portion: [_packed(held)] for portion, held in verdicts.items()}
    given = {"kind": DIGEST, "range": 0, "nth": 0, "rank": 0, "standing": FINAL, "state": _packed(whole)}
    yield tuple(given.get(name) for name in ITEMS.names)


def of_states(states: Iterable[bytes]) -> Digest:
    """The digest of several partitions, from the `state` of their digest items."""
    whole = Digest()
    for state in states:
        whole.join(_unpacked(state))
    return whole


def verdicts_in(packed: Verdicts) -> dict[int, Any]:
    """The verdicts on a portion (captures.spark.claims.judging.Verdict) by flow_id."""
    return {flow: verdict for one in packed for flow, verdict in _unpacked(one).items()}


def _packed(held: Any) -> bytes:
    return zstandard.compress(pickle.dumps(held, pickle.HIGHEST_PROTOCOL))


def _unpacked(data: bytes) -> Any:
    return pickle.loads(zstandard.decompress(data))  # noqa: S301  # of our own stage 2
