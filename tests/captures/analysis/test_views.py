"""The views agree with the reading of the captures by Kafka's own classes (the .jsonl.gz beside each)."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis.texts import view_text
from kproxy.captures.analysis.views import Views
from kproxy.captures.reader import read
from kproxy.captures.views import VIEWS
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from tests.decoders.batches.support import batch, record
from tests.decoders.sasl.test_session import handshake, token
from tests.support.judged import CAPTURES, NEW, OLD, OLDEST, judged
from tests.support.scripts import Script, eyes, play, request, response

DATA = Path(__file__).parents[2] / "data"


@lru_cache(maxsize=8)
def views_of(name: str) -> Views:
    path = CAPTURES / f"{name}.pcap"
    with closing(read([path if path.exists() else DATA / "golden" / f"{name}.pcap"])) as reader:
        views = Views(reader.source, reader.definitions)
        for item in reader:
            if isinstance(item, Exchange):
                views.add(item)
        return views


def lines_of(name: str, view: str) -> list[dict[str, Any]]:
    return list(views_of(name)[view].lines())


def test_who_fetches() -> None:
    (cluster,) = [line for line in lines_of(OLDEST, "cluster") if line["schema"] == "kproxy.cluster/1"]
    replicas = Counter(body["replicaId"] for body in judged(OLDEST, "request", 1))
    followers = sum(count for replica, count in replicas.items() if replica >= 0)
    assert cluster["fetches"] == {"debugging": replicas[-2], "follower": followers} == {"debugging": 3, "follower": 53}


def test_controllers_follow_each_other() -> None:
    told = dict.fromkeys((body["controllerId"], body["controllerEpoch"]) for body in judged(OLDEST, "request", 4, 5, 6))
    assert list(told) == [(1, 1), (2, 2)]
    changes = [line["text"] for line in lines_of(OLDEST, "cluster") if line.get("kind") == "controller"]
    assert changes == [f"controller {node} at epoch {epoch}" for node, epoch in told]
    assert lines_of(OLDEST, "cluster")[0]["controller"] == 2
    assert lines_of(OLDEST, "cluster")[0]["controller_epoch"] == 2


def test_leaders_and_replicas_are_those_that_were_told_last() -> None:
    newest: dict[str, tuple[int, int, list[int]]] = {}
    for body in judged(OLDEST, "request", 4):
        for one in body["ungroupedPartitionStates"]:
            name = f"{one['topicName']}-{one['partitionIndex']}"
            known = newest.get(name)
            if known is None or one["leaderEpoch"] >= known[1]:
                newest[name] = (one["leader"], one["leaderEpoch"], one["replicas"])
    shown = {
        f"{one['topic']}-{one['partition']}": (one["leader"], one["leader_epoch"], list(one["replicas"]))
        for one in lines_of(OLDEST, "cluster")
        if one["schema"] == "kproxy.partition/1" and one["replicas"] is not None
    }
    assert {name: shown[name] for name in newest} == newest
    assert any("leader 1 -> 2" in line.get("text", "") for line in lines_of(OLDEST, "cluster"))
    assert any(line.get("text") == "broker 1 asks to shut down" for line in lines_of(OLDEST, "cluster"))


def test_topics_that_are_being_deleted() -> None:
    deleted = {
        f"{one['topicName']}-{one['partitionIndex']}"
        for body in judged(OLD, "request", 6)
        for one in body["ungroupedPartitionStates"]
        if one["leader"] == -2
    }
    assert deleted
    lines = lines_of(OLD, "cluster")
    events = [line for line in lines if line["schema"] == "kproxy.cluster_event/1"]
    assert {line["about"] for line in events if line["text"] == "is being deleted"} == deleted
    assert not [line for line in events if "-2" in line["text"]]
    partitions = [line for line in lines if line["schema"] == "kproxy.partition/1"]
    assert {f"{one['topic']}-{one['partition']}" for one in partitions if one["leader"] == -2} == deleted


def test_events_of_the_cluster_are_in_order() -> None:
    times = [line["time"] for line in lines_of(OLDEST, "cluster") if line["schema"] == "kproxy.cluster_event/1"]
    assert times == sorted(times)


def test_a_group_and_its_generations() -> None:
    (group,) = lines_of(OLD, "groups")
    answers = [body for body in judged(OLD, "response", 11) if not body["errorCode"]]
    (leader,) = {body["leader"] for body in answers}
    first, second = group["generations"]
    assert [first["generation"], second["generation"]] == sorted({body["generationId"] for body in answers}) == [1, 2]
    assert first["leader"] == second["leader"] == leader
    assert second["members"] == sorted({body["memberId"] for body in answers})
    (joined,) = set(second["members"]) - set(first["members"])
    assert second["why"] == [f"{joined} joined"]
    assert (group["kind"], group["protocol"], group["rebalances"]) == ("classic", "range", 1)
    # the final assignment: each partition has one member
    given = Counter(
        (topic, number)
        for member in group["members"]
        for topic, numbers in member["assignment"].items()
        for number in numbers
    )
    assert set(given.values()) == {1}
    assert len(given) == 8
    assert all(member["left"] for member in group["members"])


def test_groups_whose_members_only_send_heartbeats() -> None:
    group = next(line for line in lines_of(NEW, "groups") if line["kind"] == "consumer")
    epochs = {body["memberEpoch"] for body in judged(NEW, "response", 68) if body["memberEpoch"] > 0}
    assert [one["generation"] for one in group["generations"]] == sorted(epochs)
    reasons = [why for one in group["generations"] for why in one["why"]]
    assert [why.rpartition(" ")[2] for why in reasons] == ["joined", "joined", "left"]
    # The second member joins in epoch 2, whose assignment does not include it; it learns of epoch 3, which does.
    first, second = (member["member_id"] for member in group["members"])
    members = [one["members"] for one in group["generations"]]
    assert members == [[first], sorted([first, second]), [second]]


def heartbeats(*beats: tuple[str, int, int, list[int] | None]) -> dict[str, Any]:
    """The group in ConsumerGroupHeartbeats (member, epoch in request, epoch in response, partitions)."""
    script = Script()
    for number, (member, asked, answered, partitions) in enumerate(beats):
        script.client(request(68, 0, number, member, groupId="g", memberId=member, memberEpoch=asked))
        given = None if partitions is None else [{"topicId": bytes(15) + b"\7", "partitions": partitions}]
        assignment = None if given is None else {"topicPartitions": given if partitions else []}
        told = response(68, 0, number, memberId=member, memberEpoch=answered, assignment=assignment)
        script.broker(told)
    played = play(script.end())
    views = Views(played.tape, eyes())
    for exchange in played.exchanges:
        views.add(exchange)
    (group,) = views["groups"].lines()
    return group


@pytest.mark.parametrize(
    ("beats", "expected"),
    [
        # a member gets the previous epoch, then its own
        ([("a", 0, 2, [0]), ("b", 0, 2, []), ("b", 2, 2, None), ("a", 2, 3, None), ("b", 2, 3, [1])],
         {2: ["a"], 3: ["a", "b"]}),
        # one epoch for both members
        ([("a", 0, 2, [0]), ("b", 0, 2, [1])], {2: ["a", "b"]}),
        ([("a", 0, 2, [0]), ("b", 0, 2, []), ("b", 2, 2, [1])], {2: ["a", "b"]}),
        # a member is the first to get its epoch
        ([("a", 0, 2, [0]), ("b", 0, 3, [])], {2: ["a"], 3: ["a", "b"]}),
    ],
)  # fmt: skip
def test_a_member_is_of_the_epoch_in_which_it_has_its_share(beats: list[Any], expected: dict[int, list[str]]) -> None:
    generations = heartbeats(*beats)["generations"]
    assert {one["generation"]: one["members"] for one in generations} == expected


def test_the_interval_of_heartbeats_is_between_them() -> None:
    """Three heartbeats 2 ms apart (each millisecond of the script is a packet) span two intervals."""
    (member,) = heartbeats(*[("a", 2, 2, None)] * 3)["members"]
    assert (member["heartbeats"], member["heartbeat_interval_ms"]) == (3, 2.0)


def test_transactions() -> None:
    found = [line for line in lines_of(NEW, "transactions") if line["schema"] == "kproxy.transaction/1"]
    ends = [body["committed"] for body in judged(NEW, "request", 26)]
    assert [line["state"] for line in found] == ["committed" if end else "aborted" for end in ends]
    assert [line["state"] for line in found] == ["committed", "aborted", "committed"]
    assert all(line["records"] == 5 and line["partitions"] == ["shop-payments-0"] for line in found)
    assert [step["step"] for step in found[0]["steps"]] == ["1 partition added", "first Produce", "commit"]


def test_what_readers_are_told_of_aborted_transactions() -> None:
    (met,) = [line for line in lines_of(NEW, "transactions") if line["schema"] == "kproxy.aborted_transaction/1"]
    told = [
        (partition["partitionIndex"], one["producerId"], one["firstOffset"])
        for body in judged(NEW, "response", 1)
        for topic in body["responses"]
        for partition in topic["partitions"]
        for one in partition["abortedTransactions"] or ()
    ]
    assert len(met["exchanges"]) == len(told) == 2
    assert {(met["partition"], met["producer_id"], met["first_offset"])} == set(told)


def test_producers_and_the_partitioner_of_their_keys() -> None:
    topics = {line["topic"]: line for line in lines_of(OLD, "topics")}
    for name in ("t-none", "t-gzip", "t-lz4", "t-snappy"):
        (producer,) = topics[name]["producers"]
        assert producer["partitioner"] == "murmur2"  # kafka-python's
        assert list(producer["compression"]) == [name.removeprefix("t-")]
        assert producer["records"] == 120
    acks = {body["acks"] for body in judged(OLD, "request", 0)}
    assert {one for line in topics.values() for producer in line["producers"] for one in producer["acks"]} == acks


def test_consumers_and_followers() -> None:
    topics = {line["topic"]: line for line in lines_of(OLD, "topics")}
    users = topics["t-gzip"]["consumers"]
    assert {one["replica_id"] for one in users if one["role"] == "follower"} == {1, 2}
    assert {tuple(one["groups"]) for one in users if one["role"] == "consumer"} == {("grp",)}
    followed = sum(one["records"] for one in users if one["role"] == "follower")
    assert followed == 120


def test_software_is_what_clients_say_of_themselves() -> None:
    (said,) = {
        f"{body['clientSoftwareName']} {body['clientSoftwareVersion']}"
        for body in judged(NEW, "request", 18)
        if "rdkafka" in body["clientSoftwareVersion"]
    }
    links = [line for line in lines_of(NEW, "connections") if line["schema"] == "kproxy.connection/1"]
    assert {line["software"] for line in links if line["client_ids"][0].startswith("shop")} == {said}


def test_how_far_clients_came() -> None:
    clients = {line["client_id"]: [step["api"] for step in line["steps"]] for line in lines_of(NEW, "clients")}
    steps = clients["shop-c-classic-0"]
    assert steps[:5] == ["ApiVersions", "Metadata", "FindCoordinator", "JoinGroup", "SyncGroup"]
    assert {"OffsetFetch", "Fetch", "Heartbeat"} < set(steps)


@pytest.mark.parametrize("name", [OLDEST, OLD, NEW, "golden-4.4.0", "golden-3.9.2"])
def test_every_view_has_a_text_for_all_that_it_tells(name: str) -> None:
    for view in (one.name for one in VIEWS.values() if one.collector):
        lines = lines_of(name, view)
        json.dumps(lines)
        shown = list(view_text(view, lines))
        assert len(shown) >= len(lines)
        assert all(line.isprintable() for line in shown)


def test_who_authenticated_on_a_connection() -> None:
    script = token(handshake(Script(), 1, "PLAIN"), 2, b"\0alice\0secret", b"", sessionLifetimeMs=1000)
    script = token(handshake(script, 3, "PLAIN"), 4, b"\0alice\0secret", b"", sessionLifetimeMs=1000)
    played = play(script.end())
    views = Views(played.tape, eyes())
    for one in played.exchanges:
        views.add(one)
    (line,) = [one for one in views["connections"].lines() if one["schema"] == "kproxy.connection/1"]
    assert line["sasl_mechanism"] == "PLAIN"
    assert (line["sasl"]["principal"], line["sasl"]["state"], line["sasl"]["authentications"]) == (
        "alice",
        "authenticated",
        2,
    )
    assert "alice by PLAIN, authenticated 2 times" in "\n".join(view_text("connections", [line]))


TXN_PRODUCER, BROKER = "payments", "AddPartitionsManager-client-2"


Exchanged = tuple[int, int, str, dict[str, Any], dict[str, Any]]
"""API key, version, client id, request, response."""


def transactional(*steps: Exchanged, order: list[int] | None = None) -> list[dict[str, Any]]:
    """The transactions in exchanges whose responses come in `order`."""
    script = Script()
    for number, (key, version, client, asked, _) in enumerate(steps):
        script.client(request(key, version, number, client, **asked))
    for number in order or range(len(steps)):
        key, version, _, _, answered = steps[number]
        script.broker(response(key, version, number, **answered))
    played = play(script.end())
    views = Views(played.tape, eyes())
    for exchange in played.exchanges:
        views.add(exchange)
    lines = list(views["transactions"].lines())
    assert all(line.isprintable() for line in view_text("transactions", lines))
    return lines


def added_by_broker() -> Exchanged:
    topics = [{"name": "t", "partitions": [0]}]
    asked = {"transactionalId": "pay", "producerId": 7, "producerEpoch": 1, "verifyOnly": False, "topics": topics}
    return 24, 5, BROKER, {"transactions": [asked]}, {}


def produced() -> Exchanged:
    records = batch(record(0, b"k", b"v"), 1, attributes=0x10, producer=7)
    data = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
    return 0, 11, TXN_PRODUCER, {"transactionalId": "pay", "acks": -1, "topicData": data}, {}


INIT: Exchanged = (22, 4, TXN_PRODUCER, {"transactionalId": "pay", "transactionTimeoutMs": 900}, {"producerId": 7})
END: Exchanged = (
    26,
    3,
    TXN_PRODUCER,
    {"transactionalId": "pay", "producerId": 7, "producerEpoch": 1, "committed": True},
    {},
)


@pytest.mark.parametrize("steps", [[INIT, produced(), added_by_broker(), END], [produced(), added_by_broker(), END]])
def test_a_transaction_is_its_producer_s_though_a_broker_adds_its_partitions(steps: list[Any]) -> None:
    """KIP-890: the leader asks the coordinator while the Produce waits, so the coordinator's answer comes first."""
    at = len(steps) - 3
    (line,) = transactional(*steps, order=[*range(at), at + 1, at, at + 2])
    assert (line["client_id"], line["state"], line["records"]) == (TXN_PRODUCER, "committed", 1)
    assert [step["step"] for step in line["steps"]] == ["first Produce", "1 partition added", "commit"]
    assert (line["began"], line["first_exchange"]) == (line["steps"][0]["time"], line["steps"][0]["exchange"])


def test_the_producer_of_a_transaction_may_be_known_from_its_id_or_not_at_all() -> None:
    (known,) = transactional(INIT, added_by_broker())
    assert known["client_id"] == TXN_PRODUCER
    (unknown,) = transactional(added_by_broker())
    assert (unknown["client_id"], unknown["host"]) == (None, None)


@pytest.mark.parametrize("name", [OLDEST, OLD, NEW, "golden-4.4.0"])
def test_errors_stand_beside_an_exchange_that_was_answered_so(name: str) -> None:
    """Each line with an error leads to an exchange with it, not to the first one of topic, group or connection."""
    path = CAPTURES / f"{name}.pcap"
    with closing(read([path if path.exists() else DATA / "golden" / f"{name}.pcap"])) as reader:
        found = [item for item in reader if isinstance(item, Exchange)]
        failed = {one.number: exchange_json(one, reader.source, reader.definitions)["error_codes"] for one in found}
    compared = 0
    for view in ("topics", "groups", "connections", "clients"):
        for line in view_text(view, lines_of(name, view)):
            named = re.fullmatch(r" +\d+ (\w+)  #(\d+)", line) or re.search(r"\d+ (errors?) from #(\d+) on", line)
            if named is not None:
                codes = failed[int(named[2])]
                assert named[1] in codes if named[1].isupper() else codes, line
                compared += 1
    assert compared


def test_a_compressed_message_set_counts_as_its_messages() -> None:
    topics = {line["topic"]: line for line in lines_of(OLDEST, "topics")}
    for name in ("j-gzip", "j-snappy"):
        copies = [user["records"] for user in topics[name]["consumers"] if user["role"] == "follower"]
        assert sum(copies) == topics[name]["records_in"] == 60
