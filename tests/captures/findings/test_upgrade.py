"""Clients that Kafka 4 cuts off, or refuses: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings.model import Confidence
from kproxy.captures.findings.rules.upgrade import floors
from kproxy.decoders.exchange import Status
from tests.support.facts import Story

CUTOFF = "WARN upgrade.cutoff old@host-old"


def test_the_floors_are_those_of_kip_896() -> None:
    known = floors()
    assert {key: known[key] for key in (0, 1, 2, 3, 8, 9, 11, 19, 20, 23)} == {
        0: 3, 1: 4, 2: 1, 3: 0, 8: 2, 9: 1, 11: 0, 19: 2, 20: 1, 23: 2,
    }  # fmt: skip
    assert not known.keys() & {4, 5, 6, 7}, "removed with ZooKeeper"


def test_a_client_that_never_asks_for_versions() -> None:
    story = Story().exchange("old", "Produce", version=2, number=3).at(9).closes("old")
    (finding,) = story.tells(CUTOFF)
    assert finding.confidence is Confidence.PROVEN
    assert "uses Produce v2 at most" in finding.summary


def test_a_client_that_was_offered_newer_versions() -> None:
    story = Story().offered("old", "librdkafka 0.11", Fetch=(0, 11)).exchange("old", "Fetch", version=2, number=3)
    (finding,) = story.tells(CUTOFF)
    assert "librdkafka 0.11" in finding.summary


def test_a_single_probe_is_a_note() -> None:
    Story().exchange("old", "Produce", version=2).closes("old").tells("NOTE upgrade.cutoff old@host-old")


# --- guards ---


def test_who_was_offered_nothing_newer_may_know_newer_versions() -> None:
    Story().offered("app", Fetch=(0, 2)).exchange("app", "Fetch", version=2, number=9).closes("app").is_quiet()


def test_who_uses_a_newer_version_as_well_is_quiet() -> None:
    story = Story().exchange("app", "Fetch", version=2, number=9).exchange("app", "Fetch", version=12)
    story.closes("app").is_quiet()


@pytest.mark.parametrize("name", ["broker-1-fetcher-0", "ReplicaFetcherThread-0-1", "1"])
def test_brokers_among_themselves_are_quiet(name: str) -> None:
    Story().exchange(name, "Fetch", version=2, number=9).closes(name).is_quiet()


def test_a_connection_whose_beginning_is_missing_is_less_sure() -> None:
    story = Story().exchange("old", "Fetch", version=2, number=9).closes("old", opened=False)
    (finding,) = story.tells(CUTOFF)
    assert finding.confidence is Confidence.INFERRED


# --- refused by the broker that is there ---

REFUSED = "ERROR upgrade.refused old@host-old"


def test_a_refused_version() -> None:
    story = Story().offered("app", Fetch=(4, 18), Produce=(0, 13))
    story.at(1).exchange("old", "Fetch", Status.NO_RESPONSE, version=3, took=0.002).closes("old")
    (finding, _) = story.tells(REFUSED, "NOTE upgrade.cutoff old@host-old")
    assert "Fetch v3" in finding.summary
    assert "v4 to v18" in finding.summary


def test_produce_v2_is_refused_though_it_is_offered() -> None:
    story = Story().at(1).exchange("old", "Produce", Status.NO_RESPONSE, version=2, took=0.002)
    story.closes("old").at(2).offered("app", Fetch=(4, 18), Produce=(0, 13))
    story.tells(REFUSED, "NOTE upgrade.cutoff old@host-old")


def test_an_unanswered_request_of_a_version_that_is_there_is_quiet() -> None:
    story = Story().offered("app", Fetch=(4, 18))
    story.exchange("app", "Fetch", Status.NO_RESPONSE, version=12, took=0.002).closes("app").is_quiet()


def test_a_connection_that_stays_open_for_long_is_quiet() -> None:
    story = Story().offered("app", Fetch=(4, 10))
    story.exchange("app", "Fetch", Status.NO_RESPONSE, version=12, took=20).closes("app").is_quiet()


def test_versions_of_a_broker_that_told_none_are_unknown() -> None:
    Story().exchange("app", "Fetch", Status.NO_RESPONSE, version=12, took=0.002).closes("app").is_quiet()
