"""The request versions of each release, against what was read in the jars by hand, and against the newest data."""

from __future__ import annotations

import pytest

from kproxy.decoders.schema import store
from kproxy.decoders.schema.model import Versions
from kproxy.decoders.schema.served import NEWEST, all_served, produce_floor, refused_by, served

FLOORS = {
    0: ("0-11", "3-12", 3, "3-13"),
    1: ("0-17", "4-17", 4, "4-18"),
    2: ("0-9", "1-10", 1, "1-11"),
    8: ("0-9", "2-9", 2, "2-10"),
    9: ("0-9", "1-9", 1, "1-10"),
    11: ("0-9", "2-9", 0, "0-9"),
    19: ("0-7", "2-7", 2, "2-7"),
    20: ("0-6", "1-6", 1, "1-6"),
    23: ("0-4", "2-4", 2, "2-4"),
    27: ("0-1", "1", 1, "1-2"),
    29: ("0-3", "1-3", 1, "1-3"),
    30: ("0-3", "1-3", 1, "1-3"),
    31: ("0-3", "1-3", 1, "1-3"),
    32: ("0-4", "1-4", 1, "1-4"),
    34: ("0-2", "1-2", 1, "1-2"),
    35: ("0-4", "1-4", 1, "1-5"),
    38: ("0-3", "1-3", 1, "1-3"),
    39: ("0-2", "1-2", 1, "1-2"),
    40: ("0-2", "1-2", 1, "1-2"),
    41: ("0-3", "1-3", 1, "1-3"),
    56: ("0-3", "2-3", 2, "2-3"),
    76: ("0", "0", {"4.0.1": 0, "4.1.0": 1}, "1"),
    77: ("0", "0", {"4.0.1": 0, "4.1.0": 1}, "1"),
    78: ("0", "0", {"4.0.1": 0, "4.1.0": 1}, "1-2"),
    79: ("0", "0", {"4.0.1": 0, "4.1.0": 1}, "1-2"),
}
"""Every API whose floor moved: versions of 3.9.2 and 4.0.0, the floor of 4.0.1 and 4.1.0, versions of 4.4.0."""
REMOVED = {4: "0-7", 5: "0-4", 6: "0-8", 7: "0-3"}
"""The requests of ZooKeeper mode, with their versions in 3.9.2."""


@pytest.mark.parametrize("key", FLOORS)
def test_versions_of_the_apis_whose_floor_moved(key: int) -> None:
    old, first, between, newest = FLOORS[key]
    for release, text in {"3.9.2": old, "4.0.0": first, "4.4.0": newest}.items():
        assert str(served(release).versions[key]) == text, release
    for release in ("4.0.1", "4.1.0"):
        floor = between[release] if isinstance(between, dict) else between
        assert served(release).versions[key].low == floor, release


def test_every_other_floor_stayed_at_zero() -> None:
    old = served("3.9.2")
    for release in ("4.0.0", "4.0.1", "4.1.0", "4.4.0"):
        new = served(release)
        moved = {key for key, versions in old.versions.items() if new.versions.get(key) is None or
                 new.versions[key].low != versions.low}  # fmt: skip
        assert moved <= FLOORS.keys() | REMOVED.keys(), release
        assert REMOVED.keys().isdisjoint(new.versions)
    assert {key: str(old.versions[key]) for key in REMOVED} == REMOVED


def test_deprecated_versions_are_not_all_that_were_refused() -> None:
    old = served("3.9.2")
    assert str(old.deprecated[0]) == "0-2"
    assert {27, 56, 11}.isdisjoint(old.deprecated)
    assert refused_by(11, 1) == ("4.0.0",)
    assert refused_by(27, 0) == ("4.0.0", "4.0.1", "4.1.0", "4.2.0", "4.3.0", "4.4.0")
    assert refused_by(76, 0) == ("4.1.0", "4.2.0", "4.3.0", "4.4.0")
    assert refused_by(6, 8) == refused_by(27, 0)
    assert refused_by(88, 0) == ()  # newer than 4.0, refused by none


def test_early_access() -> None:
    assert str(served("4.1.0").stable(8)) == "2-9"
    assert str(served("4.2.0").stable(8)) == "2-10"
    assert not served("4.0.0").stable(76)
    assert (76, 0) in served("4.0.0")
    assert str(served("4.4.0").stable(22)) == "0-5"


def test_names_of_releases() -> None:
    assert served() is served(NEWEST) is all_served()[0]
    assert [served(name).release for name in ("4.0", "4.0.1", "4.4", "3.9")] == ["4.0.0", "4.0.1", "4.4.0", "3.9.2"]
    with pytest.raises(ValueError, match=r"'4\.9' is not a release that kproxy knows; it knows 4\.4\.0, "):
        served("4.9")


def test_they_are_those_of_the_definitions() -> None:
    """Against the ranges that Kafka's classes print, where these are kept."""
    for release in store.releases():
        printed = {one["key"]: one["versions"][release] for one in store.apis() if release in one["versions"]}
        assert {key: str(versions) for key, versions in served(release).versions.items()} == printed


@pytest.mark.parametrize(
    ("offered", "floor"), [("0-13", 3), ("0-12", 3), ("0-11", 0), ("0-5", 0), ("1-5", 1), ("4-13", 4), ("0-14", 3)]
)
def test_produce_is_advertised_from_zero_on_but_not_served(offered: str, floor: int) -> None:
    assert produce_floor(Versions.parse(offered)) == floor
