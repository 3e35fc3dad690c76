"""Clients that Kafka 4 cuts off, or refuses: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.findings.model import Confidence
from kproxy.captures.findings.rules.upgrade import floors
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from tests.support.facts import Story
from tests.support.scripts import Script, eyes, play, request, response

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
    (finding, old) = story.tells(CUTOFF, "NOTE client.outdated old@host-old")
    assert "librdkafka 0.11" in finding.summary
    assert old.parent == finding.id


def test_a_single_probe_is_a_note() -> None:
    Story().exchange("old", "Produce", version=2).closes("old").tells("NOTE upgrade.cutoff old@host-old")


# --- guards ---


def test_who_was_offered_nothing_newer_may_know_newer_versions() -> None:
    Story().offered("app", Fetch=(0, 2)).exchange("app", "Fetch", version=2, number=9).closes("app").is_quiet()


def test_who_uses_a_newer_version_as_well_is_quiet() -> None:
    story = Story().exchange("app", "Fetch", version=2, number=9).exchange("app", "Fetch", version=12)
    story.closes("app").is_quiet()


def test_who_has_no_client_id_because_it_was_cut_may_be_a_broker() -> None:
    Story().exchange("", "Fetch", version=2, number=9).trouble("", Code.CUT_BY_SNAPLEN).closes("").tells(
        "NOTE capture.health "
    )
    story = Story().exchange("", "Fetch", version=2, number=9).closes("")
    assert "upgrade.cutoff" in {one.rule for one in story.found()}


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


def test_an_error_tells_of_no_versions() -> None:
    """A broker that does not know the version of ApiVersions names the versions of this API alone (KIP-511)."""
    story = Story().offered("new", ApiVersions=(0, 3))
    story.made[-1] = story.made[-1]._replace(error=35)
    story.exchange("app", "Fetch", Status.NO_RESPONSE, version=12, took=0.002).closes("app").is_quiet()
    story.offered("new", Fetch=(0, 11)).at(1).exchange("b", "Fetch", Status.NO_RESPONSE, version=12, took=0.002)
    story.closes("b").tells("ERROR upgrade.refused app@host-app", "ERROR upgrade.refused b@host-b")


def test_produce_v2_at_an_older_broker_is_quiet() -> None:
    story = Story().offered("app", Fetch=(0, 11), Produce=(0, 8)).at(1)
    story.exchange("app", "Produce", Status.NO_RESPONSE, version=2, took=0.002).closes("app")
    assert not [one for one in story.found() if one.rule == "upgrade.refused"]


def test_a_refusal_on_a_connection_with_missing_bytes_is_quiet() -> None:
    story = Story().offered("app", Fetch=(4, 18)).at(1).trouble("old")
    story.exchange("old", "Fetch", Status.NO_RESPONSE, version=3, took=0.002).closes("old")
    assert not [one for one in story.found() if one.rule == "upgrade.refused"]


# --- client.outdated ---


@pytest.mark.parametrize(
    "software",
    ["apache-kafka-java 2.8.1", "librdkafka 1.9.2", "confluent-kafka-python 1.8.2-rdkafka-1.8.2"],
)
def test_a_client_that_says_that_it_is_old(software: str) -> None:
    story = Story().offered("app", software).exchange("app", "Fetch", number=3)
    (finding,) = story.tells("NOTE client.outdated app@host-app")
    assert finding.summary == f"app@host-app uses {software}"


@pytest.mark.parametrize(
    "software",
    ["apache-kafka-java 3.0.0", "apache-kafka-java 10.1.0", "librdkafka v2.0.2", "sarama 1.20", "librdkafka", ""],
)
def test_newer_and_unknown_software_is_quiet(software: str) -> None:
    Story().offered("app", software).exchange("app", "Fetch", number=3).closes("app").tells(at_least="INFO")


def test_a_client_that_asks_for_no_versions() -> None:
    story = Story().exchange("app", "Fetch", number=3).closes("app")
    (finding,) = story.tells("INFO client.outdated app@host-app", at_least="INFO")
    assert finding.summary == "app@host-app works over 1 connection and never asked for versions"


def test_a_client_that_may_have_asked_is_quiet() -> None:
    Story().exchange("app", "Fetch", number=3).closes("app", opened=False).tells(at_least="INFO")
    Story().exchange("app", "Metadata", number=9).closes("app").tells(at_least="INFO")
    Story().exchange("app", "ApiVersions").exchange("app", "Fetch").closes("app").tells(at_least="INFO")
    Story().exchange("app", "Fetch", number=3).tells(at_least="INFO")
    Story().exchange("broker-1-fetcher-0", "Fetch", number=9).closes("broker-1-fetcher-0").tells(at_least="INFO")


# --- deprecated.use ---


def uses(client: str, *keys: int, version: int = 1) -> Story:
    story = Story()
    for key in keys:
        story.made.append(facts.Replaced(story.where(client, key=key, version=version)))
    return story


def test_alter_configs() -> None:
    (finding,) = uses("app", 33, 33).tells("NOTE deprecated.use app@host-app")
    assert finding.summary == "app@host-app uses AlterConfigs v1"
    assert finding.numbers["count"] == 2


def test_a_controller_in_zookeeper_mode() -> None:
    (finding,) = uses("1", 4, 6).tells("NOTE deprecated.use 1@host-1")
    assert finding.summary == "1@host-1 uses LeaderAndIsr, UpdateMetadata (of ZooKeeper mode, which Kafka 4 lacks)"


def test_first_versions() -> None:
    uses("app", 3, 10, version=0).tells("INFO deprecated.use app@host-app", at_least="INFO")


def test_brokers_that_use_first_versions_are_quiet() -> None:
    uses("1", 3, 33, version=0).tells(at_least="INFO")


def test_replaced_requests_are_facts() -> None:
    script = Script()
    talk = [(3, 0), (3, 1), (10, 0), (10, 1), (33, 0), (33, 2), (4, 4), (6, 5), (18, 0)]
    for number, (key, version) in enumerate(talk):
        script.client(request(key, version, number, "app")).broker(response(key, version, number))
    played = play(script.end())
    found = FactMaker(played.tape, eyes(), (facts.Replaced,)).make(played.exchanges)
    used = [(one.at.key, one.at.version) for one in found if isinstance(one, facts.Replaced)]
    assert used == [(3, 0), (10, 0), (33, 0), (33, 2), (4, 4), (6, 5)]


# --- upgrade.cluster ---

OLD, NEW = "10.0.0.1:9092", "10.0.0.2:9092"


def asks(story: Story, broker: str, fetch: int, **more: tuple[int, int]) -> Story:
    story.broker = broker
    return story.offered("app", "", Produce=(0, 9), Fetch=(0, fetch), **more)


def mixed(seconds: float, every: float = 300) -> Story:
    story = Story()
    for turn in range(int(seconds / every) + 1):
        asks(story.at(turn * every), OLD, 11)
        asks(story, NEW, 13)
    return story


@pytest.mark.parametrize(("seconds", "severity"), [(0, "INFO"), (600, "NOTE"), (86_400, "WARN")])
def test_brokers_of_two_releases(seconds: float, severity: str) -> None:
    (finding,) = mixed(seconds).tells(f"{severity} upgrade.cluster ", at_least="INFO")
    assert finding.summary.startswith(f"{OLD} answers Fetch up to v11, {NEW} up to v13: they differ in 1 API, for")


def test_a_mix_that_ended_counts_anew() -> None:
    story = mixed(300)
    for turn in range(10):
        asks(asks(story.at(600 + turn * 300), OLD, 13), NEW, 13)
    asks(asks(story.at(9000), OLD, 13), NEW, 15).tells("INFO upgrade.cluster ", at_least="INFO")


def test_brokers_that_differ_rightly_are_quiet() -> None:
    asks(asks(Story(), OLD, 11), NEW, 11, Metadata=(0, 9)).tells(at_least="INFO")
    asks(asks(Story(), OLD, 11).at(601), NEW, 13).tells(at_least="INFO")
    controller = Story().offered("app", Fetch=(0, 17))
    asks(controller, NEW, 11).tells(at_least="INFO")
    asks(Story().cluster("a", "one").cluster("a", "two"), OLD, 11).offered("app", Fetch=(0, 17)).tells(at_least="INFO")
    two = asks(Story().cluster("a", "one").cluster("a", "two"), OLD, 11)
    asks(two, NEW, 13).tells(at_least="INFO")


def levels(*features: tuple[str, int, int], story: Story | None = None) -> Story:
    story = story or Story()
    story.made.append(facts.Features(story.where("app", key=18), features))
    return story


def test_features_that_were_not_finalized() -> None:
    (finding,) = levels(("metadata.version", 33, 20), ("group.version", 1, 0)).tells("NOTE upgrade.cluster ")
    assert finding.summary == (
        "metadata.version is finalized at 20, and the broker supports 33; "
        "group.version is finalized at 0, and the broker supports 1"
    )
    found = levels(("metadata.version", 33, 20), story=mixed(0)).found()
    assert [one.severity.name for one in found] == ["INFO", "INFO"], "the upgrade is under way"


def test_features_that_may_be_off_are_quiet() -> None:
    levels(("metadata.version", 33, 33), ("kraft.version", 1, 0), ("share.version", 2, 0)).tells(at_least="INFO")
    levels(("metadata.version", 33, 0)).tells(at_least="INFO")


def test_features_are_facts() -> None:
    answered: dict[str, Any] = {
        "supportedFeatures": [{"name": "a", "minVersion": 1, "maxVersion": 3}, {"name": "b", "maxVersion": 1}],
        "finalizedFeatures": [{"name": "a", "maxVersionLevel": 2, "minVersionLevel": 1}],
    }
    script = Script().client(request(18, 3, 1, "app")).broker(response(18, 3, 1, **answered))
    played = play(script.client(request(18, 3, 2, "app")).broker(response(18, 3, 2)).end())
    maker = FactMaker(played.tape, eyes(), (facts.Features,))
    found = [one for one in maker.make(played.exchanges) if isinstance(one, facts.Features)]
    assert [one.levels for one in found] == [(("a", 3, 2), ("b", 1, 0))]
