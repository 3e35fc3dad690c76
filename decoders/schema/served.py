"""The request versions that the brokers of each release serve, and those of them that are deprecated.

Releases no longer serve the oldest versions (KIP-896). The ranges come from the definitions of each release
(`validVersions`), not from what brokers advertise: brokers of 4.x advertise Produce from version 0 on (KAFKA-18659) but
close the connection on versions 0 to 2.
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
    """The versions that brokers of one release, or of one cluster, serve, by API key.

    `unstable` versions are served only with `unstable.api.versions.enable`; `deprecated` ones are marked as deprecated.
    """

    release: str
    versions: dict[int, Versions] = field(hash=False)
    deprecated: dict[int, Versions] = field(default_factory=dict, hash=False)
    unstable: dict[int, Versions] = field(default_factory=dict, hash=False)

    def __contains__(self, pair: tuple[int, int]) -> bool:
        """Whether the brokers serve (API key, version), including early access."""
        key, version = pair
        return version in self.versions.get(key, NEVER)

    def stable(self, key: int) -> Versions:
        """The versions of an API that the brokers serve, without those of early access."""
        known = self.versions.get(key, NEVER)
        return Versions(known.low, known.high - 1) if known.high in self.unstable.get(key, NEVER) else known

    def refuses(self, key: int, version: int) -> bool:
        """Whether the brokers no longer serve a version that an earlier release served.

        False for APIs and versions newer than the release.
        """
        if key in self.versions:
            return version < self.versions[key].low
        return any(key in older.versions for older in all_served()[all_served().index(self) + 1 :])


@cache
def all_served() -> tuple[Served, ...]:
    """The versions that each release serves, for releases whose definitions kproxy has, newest first."""
    return tuple(
        Served(row["release"], *(_ranges(row[name]) for name in ("versions", "deprecated", "unstable")))
        for row in map(json.loads, store.read("served.jsonl").splitlines())
    )


def _ranges(texts: dict[str, str]) -> dict[int, Versions]:
    return {int(key): Versions.parse(text) for key, text in texts.items()}


def served(name: str = NEWEST) -> Served:
    """The versions that a release serves: given as "4.0.1", as "4.0" (its line's first known release), or as "newest".

    Raises ValueError, with the known releases, for any other name.
    """
    if name == NEWEST:
        return all_served()[0]
    for one in reversed(all_served()):
        if one.release == name or one.release.rpartition(".")[0] == name:
            return one
    known = ", ".join(one.release for one in all_served())
    raise ValueError(f"{name!r} is not a release that kproxy knows; it knows {known}")


def refused_by(key: int, version: int) -> tuple[str, ...]:
    """The releases that refuse a version of an API which earlier releases served; the oldest comes first."""
    return tuple(one.release for one in reversed(all_served()) if one.refuses(key, version))


def produce_floor(offered: Versions) -> int:
    """The lowest Produce version that a broker serves if it advertises the range `offered`.

    The highest offered version shows the broker's release: releases that know version 12 serve no version below 3,
    whatever they advertise.
    """
    high = min(offered.high, all_served()[0].versions[0].high)
    return max(offered.low, min(one.versions[0].low for one in all_served() if high <= one.versions[0].high))
