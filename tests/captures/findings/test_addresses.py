"""Addresses, clusters and dropped connections: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.findings.rules.addresses import misfit
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from tests.support.facts import BROKER, Story
from tests.support.scripts import Script, eyes, play, request, response

PEER = "10.0.0.7"
LEAK = f"addr.leak c@{PEER}"

# --- addr.leak ---


@pytest.mark.parametrize(
    ("host", "peer", "unusable"),
    [
        ("localhost", "10.0.0.7", True),
        ("127.0.0.1", "10.0.0.7", True),
        ("::1", "10.0.0.7", True),
        ("0.0.0.0", "10.0.0.7", True),
        ("localhost", "127.0.0.1", False),
        ("localhost", "10.0.0.1", False),
        ("kafka", "10.0.0.7", False),
        ("kafka.shop.svc.cluster.local", "10.0.0.7", False),
        ("kafka.shop.svc.cluster.local", "8.8.8.8", True),
        ("10.0.0.1", "8.8.8.8", True),
        ("8.8.4.4", "8.8.8.8", False),
        ("localhost", "somewhere", False),
        ("", "10.0.0.7", False),
    ],
)
def test_addresses_that_a_client_cannot_use(host: str, peer: str, unusable: bool) -> None:
    assert (misfit(host, peer, "10.0.0.1") is not None) == unusable


def test_a_loopback_address_for_a_client_elsewhere() -> None:
    story = Story().advertises("c", "localhost", peer=PEER).at(11).exchange("d")
    (finding,) = story.tells(f"WARN {LEAK}")
    assert "told c@10.0.0.7 to connect to localhost:9092, which means the client's own host" in finding.summary


def test_a_client_that_asks_again_and_again() -> None:
    story = Story()
    for second in range(15):
        story.at(second).advertises("c", "localhost", peer=PEER)
    story.tells(f"ERROR {LEAK}")


def test_a_client_that_works_is_quiet() -> None:
    story = Story().advertises("c", "localhost", peer=PEER).at(1).exchange("c", "Produce", peer=PEER)
    story.at(20).exchange("d").is_quiet()


def test_a_client_that_left_early_or_was_told_well_is_quiet() -> None:
    Story().advertises("c", "localhost", peer=PEER).is_quiet()
    Story().advertises("c", "10.0.0.1", peer=PEER).at(20).exchange("d").is_quiet()


def test_the_address_of_a_coordinator() -> None:
    story = Story()
    at = story.where("c", key=10, peer=PEER)
    story.made.append(facts.Coordinator(at, "group", "g", 1, "localhost:9092", 0))
    story.at(20).exchange("d").tells(f"WARN {LEAK}")


def test_an_address_that_kproxy_let_pass() -> None:
    story = Story().trouble("c", Code.ADDRESS_LEAKED)
    story.made.append(story.made[-1]._replace(at=story.where("c", key=3)))
    (finding,) = story.tells("WARN addr.leak c@host-c")
    assert finding.summary == "2 responses to c@host-c held a broker's own address that kproxy let pass"


# --- meta.no_brokers ---


def test_metadata_without_brokers() -> None:
    story = Story().cluster("c", brokers=0).at(6).exchange("d")
    story.tells("WARN meta.no_brokers c@host-c")
    story.at(7).cluster("c", brokers=0).tells("ERROR meta.no_brokers c@host-c")


def test_a_starting_broker_is_quiet() -> None:
    Story().cluster("c", brokers=0).at(4).cluster("c").at(20).exchange("d").is_quiet()
    Story().cluster("c", brokers=0, topics=0).at(20).exchange("d").is_quiet()


@pytest.mark.parametrize("status", [Status.CUT, Status.NO_RESPONSE, Status.UNDECODABLE])
def test_a_response_that_cannot_be_read_may_name_brokers(status: Status) -> None:
    story = Story().cluster("c", brokers=0).at(1).exchange("c", "Metadata", status).at(20).exchange("d")
    story.is_quiet()
    story.at(21).cluster("c", brokers=0).at(27).exchange("d").tells("WARN meta.no_brokers c@host-c")
    Story().cluster("c", brokers=0).at(1).exchange("c", "Fetch", status).at(20).exchange("d").tells(
        "WARN meta.no_brokers c@host-c"
    )


# --- cluster.switched ---


def test_another_cluster_at_the_same_address() -> None:
    story = Story().cluster("c", "one").at(1).cluster("c", "one").at(2).cluster("c", "two").at(3).cluster("d", "two")
    (finding,) = story.tells(f"WARN cluster.switched {BROKER}")
    assert "answered as cluster one, then as cluster two" in finding.summary


def test_one_cluster_is_quiet() -> None:
    Story().cluster("c", "one").cluster("c", "one").cluster("c").cluster("c").is_quiet()
    Story().cluster("c", "one").at(1).cluster("c", "one").at(2).cluster("c", "two").is_quiet()


# --- conn.idle_drop ---


def dropped(story: Story, client: str, *, idle: float = 350, asks: bool = True, how: str = "RST") -> Story:
    began = story.now
    story.exchange(client).at(began + idle)
    if asks:
        story.exchange(client, "ListOffsets", Status.NO_RESPONSE, took=0.1)
    return story.at(began + idle + 0.1).closes(client, how)


def test_idle_connections_that_are_dropped() -> None:
    (finding,) = dropped(dropped(Story(), "a"), "b", idle=352).tells(f"WARN conn.idle_drop {BROKER}")
    assert "2 connections to 10.0.0.1:9092 were dropped after 350 s" in finding.summary
    assert "AWS network load balancer" in finding.cause
    dropped(dropped(Story(), "a", asks=False), "b", asks=False).tells(f"WARN conn.idle_drop {BROKER}")


def test_resets_after_other_pauses_are_a_note() -> None:
    story = dropped(dropped(Story(), "a", idle=70, asks=False), "b", idle=70, asks=False)
    story.tells(f"NOTE conn.idle_drop {BROKER}")


def test_what_is_no_drop_is_quiet() -> None:
    dropped(Story(), "a").is_quiet()
    dropped(dropped(Story(), "a"), "b", idle=100).is_quiet()
    dropped(dropped(Story(), "a", idle=20), "b", idle=20).is_quiet()
    dropped(dropped(Story(), "a", asks=False, how="FIN"), "b", asks=False, how="FIN").is_quiet()


def test_a_longer_pause_that_a_connection_survived_is_quiet() -> None:
    story = Story().exchange("s").at(500).exchange("s")
    dropped(dropped(story, "a"), "b").is_quiet()


def test_a_restart_is_quiet() -> None:
    story = Story().exchange("a").exchange("b").at(350).closes("a", "RST").closes("b", "RST")
    story.is_quiet()


def test_missing_bytes_are_quiet() -> None:
    story = Story().trouble("a", Code.GAP).trouble("b", Code.GAP)
    found = dropped(dropped(story, "a"), "b").found()
    assert not [one for one in found if one.rule == "conn.idle_drop"]


# --- the fact ---


def test_a_metadata_response_as_a_whole() -> None:
    script = Script().client(request(3, 9, 1, "app"))
    answer = response(3, 9, 1, clusterId="one", brokers=[], topics=[{"name": "t", "partitions": []}])
    maker = FactMaker((played := play(script.broker(answer).end())).tape, eyes(), (facts.ClusterView,))
    views = [one for one in maker.make(played.exchanges) if isinstance(one, facts.ClusterView)]
    assert [one[1:] for one in views] == [("one", 0, 1, None)]
