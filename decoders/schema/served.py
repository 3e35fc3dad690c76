"""The request versions that each release of Kafka's brokers serves: the floors of KIP-896, and what is deprecated.

Taken from the definitions of each release (`validVersions`), not from what brokers advertise: brokers of 4.x advertise
Produce from version 0 on (KAFKA-18659) but close the connection on versions 0 to 2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache

from kproxy.decoders.schema import store
from kproxy.decoders.schema.model import NEVER, Versions

NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class Served:
    """What brokers of one release, or of one cluster, serve, by API key.

    `unstable` versions are served only with `unstable.api.versions.enable`; `deprecated` ones are marked so.
    """

    release: str
    versions: dict[int, Versions] = field(hash=False)
    deprecated: dict[int, Versions] = field(default_factory=dict, hash=False)
    unstable: dict[int, Versions] = field(default_factory=dict, hash=False)

    def __contains__(self, pair: tuple[int, int]) -> bool:
        """Whether it serves (API key, version), be it as early access."""
        key, version = pair
        return version in self.versions.get(key, NEVER)

    def stable(self, key: int) -> Versions:
        """The versions of an API without those of early access."""
        known = self.versions.get(key, NEVER)
        return Versions(known.low, known.high - 1) if known.high in self.unstable.get(key, NEVER) else known

    def refuses(self, key: int, version: int) -> bool:
        """Whether it dropped a version that an earlier release served; false for APIs and versions newer than it."""
        if key in self.versions:
            return version < self.versions[key].low
        return any(key in older.versions for older in all_served()[all_served().index(self) + 1 :])


@cache
def all_served() -> tuple[Served, ...]:
    """Every release whose definitions are known, newest first."""
    return tuple(
        Served(row["release"], *(_ranges(row[name]) for name in ("versions", "deprecated", "unstable")))
        for row in map(json.loads, store.read("served.jsonl").splitlines())
    )


def _ranges(texts: dict[str, str]) -> dict[int, Versions]:
    return {int(key): Versions.parse(text) for key, text in texts.items()}


def served(name: str = NEWEST) -> Served:
    """A release: "4.0.1"; "4.0", the first one of its line that is known; or "newest".

    Raises ValueError, with the known releases, for any other name.
    """
    if name == NEWEST:
        return all_served()[0]
    for one in reversed(all_served()):
        if one.release == name or one.release.rpartition(".")[0] == name:
            return one
    known = ", ".join(one.release for one in all_served())
    raise ValueError(f"{name!r} is no release that kproxy knows; it knows {known}")


def refused_by(key: int, version: int) -> tuple[str, ...]:
    """The releases that dropped a version of an API, oldest first."""
    return tuple(one.release for one in reversed(all_served()) if one.refuses(key, version))


def produce_floor(offered: Versions) -> int:
    """The lowest Produce version that a broker serves which advertises `offered`.

    It is the floor of the releases that know the highest version: those that know version 12 serve none below 3,
    whatever they advertise.
    """
    high = min(offered.high, all_served()[0].versions[0].high)
    return max(offered.low, min(one.versions[0].low for one in all_served() if high <= one.versions[0].high))
