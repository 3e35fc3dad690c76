"""Numbers of exchanges that were found separately: claims, which stay with their portions, and all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from kproxy.captures.tcp.packets import Ints

Counted = tuple[int, int, int, bytes]
"""The confirmed claims of a portion, in relation to other exchanges: (portion, number of claims, index, data).

`index` is that of the first other exchange that began among the claims. `data` has, for it and each further one, the
number of claims that began before, as 64-bit numbers.
"""
COUNTED: Final = pa.schema([
    ("portion", pa.int64()), ("count", pa.int64()), ("first", pa.int64()), ("here", pa.binary()),
])  # fmt: skip
"""The members of Counted as columns."""


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Among:
    """How claims and other exchanges, which began at the sorted addresses `others`, follow one another.

    For each other exchange, `claimed` is the number of claims that began before it. By portion, `before` is the number
    of claims in all portions before it.
    """

    others: Ints = field(default_factory=_none)
    claimed: Ints = field(default_factory=_none)
    before: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, others: Ints, counts: Iterable[Counted]) -> Among:
        before: dict[int, int] = {}
        within, behind = np.zeros(len(others), np.int64), np.zeros(len(others) + 1, np.int64)
        total = 0
        for portion, count, first, data in sorted(counts):
            here = np.frombuffer(data, np.int64)
            before[portion] = total
            within[first : first + len(here)] += here
            behind[first + len(here)] += count
            total += count
        return cls(others, within + np.cumsum(behind)[:-1], before)

    def numbers(self, portion: int, started: Ints) -> Ints:
        """The numbers, over all exchanges, of a portion's claims, whose requests began at these addresses."""
        own = np.empty(len(started), np.int64)
        own[np.argsort(started)] = np.arange(1, len(started) + 1)
        return own + self.before.get(portion, 0) + np.searchsorted(self.others, started)

    def claims_before(self, started: int) -> int:
        """The number of claims that began before another exchange, which began at this address."""
        if not len(self.others):
            return 0
        return int(self.claimed[np.searchsorted(self.others, started)])
