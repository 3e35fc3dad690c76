"""Counts the matches of a rule, and decides on which of them the rule acts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from kproxy.faults.rule import Trigger

MOST_KEYS = 10_000
"""Maximum number of keys of `per` that a rule counts; beyond it, the oldest are forgotten."""


class Counter:
    """The state of a rule's trigger; `seed` decides all chances, together with the rule's name."""

    def __init__(self, trigger: Trigger, name: str, seed: int, clock: Callable[[], float]) -> None:
        self._trigger = trigger
        self._name = name
        self._seed = seed
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forget all matches."""
        self.matches = 0
        self.hits = 0
        self.random = random.Random(f"{self._seed}/{self._name}")  # noqa: S311 (faults, no secrets)
        self._counts: dict[object, int] = {}
        self._since: float | None = None

    @property
    def lasting(self) -> bool:
        """Whether the rule has matched, and its time is not over."""
        lasts = self._trigger.lasts
        return self._since is not None and (lasts is None or self._clock() - self._since < lasts)

    def fires(self, keys: Sequence[object]) -> bool:
        """Count a match for each of `keys`; returns whether the trigger fires for one of them."""
        trigger = self._trigger
        now = self._clock()
        if self._since is None:
            self._since = now
        if trigger.lasts is not None and now - self._since >= trigger.lasts:
            return False
        self.matches += 1
        hit = False
        for key in keys:
            count = self._counts.get(key, 0) + 1
            if key not in self._counts and len(self._counts) >= MOST_KEYS:
                del self._counts[next(iter(self._counts))]
            self._counts[key] = count
            hit = self._turn(count) or hit
        self.hits += hit
        return hit

    def _turn(self, count: int) -> bool:
        trigger, n = self._trigger, self._trigger.n
        match trigger.kind:
            case "nth":
                return count == n
            case "first":
                return count <= n
            case "once":
                return count == 1
            case "every":
                return count % n == 0
            case "after":
                return count > n
            case "p":
                return self.random.random() < trigger.chance
            case _:
                return True
