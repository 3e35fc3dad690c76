"""What happens to a group, and why."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.analysis import groups
from kproxy.decoders.schema import definitions
from kproxy.decoders.writer import write
from tests.captures.analysis.support import Exchanged, at, views


def inside(name: str, **values: Any) -> bytes:
    message = definitions().message(name, 1)
    assert message is not None
    return b"\0\1" + write(message, 1, values)


def assignment(topics: dict[str, list[int]]) -> bytes:
    given = [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()]
    return inside("ConsumerProtocolAssignment", assignedPartitions=given)


def join(member: str, generation: int, *members: str, new: bool = False, **more: Any) -> Exchanged:
    """`members` are what the leader is told; `new` asks without a member id. More: topics, reason, error, instance."""
    subscription = inside("ConsumerProtocolSubscription", topics=more.get("topics", ["t"]))
    asked = {"groupId": "g", "memberId": "" if new else member, "groupInstanceId": more.get("instance")}
    asked |= {"protocolType": "consumer", "protocols": [{"name": "range", "metadata": subscription}]}
    version = 7
    if "reason" in more:
        version, asked["reason"] = 9, more["reason"]
    listed = [{"memberId": one, "metadata": b""} for one in members]
    answered = {"generationId": generation, "protocolName": "range", "leader": "a-1", "memberId": member}
    return 11, version, asked, {**answered, "members": listed, "errorCode": more.get("error", 0)}


def sync(
    member: str, mine: dict[str, list[int]], given: dict[str, dict[str, list[int]]] | None = None, error: int = 0
) -> Exchanged:
    shares = [{"memberId": one, "assignment": assignment(topics)} for one, topics in (given or {}).items()]
    asked = {"groupId": "g", "memberId": member, "generationId": 1, "assignments": shares}
    return 14, 3, asked, {"errorCode": error, "assignment": assignment(mine)}


def heartbeat(member: str, error: int = 0) -> Exchanged:
    return 12, 3, {"groupId": "g", "memberId": member, "generationId": 1}, {"errorCode": error}


def commit(**offsets: int) -> Exchanged:
    partitions = [{"partitionIndex": int(name[1:]), "committedOffset": offset} for name, offset in offsets.items()]
    return 8, 7, {"groupId": "g", "topics": [{"name": "t", "partitions": partitions}]}, {"topics": []}


def test_a_classic_group() -> None:
    found = views(
        join("", -1, new=True, error=79),
        join("a-1", 1, "a-1", instance="i"),
        sync("a-1", {"t": [0, 1]}, {"a-1": {"t": [0, 1]}}),
        heartbeat("a-1"),
        join("b-1", 2, new=True),
        join("a-1", 2, "a-1", "b-1"),
        heartbeat("a-1", 27),
        heartbeat("b-1"),
        sync("b-1", {}, error=27),
        sync("a-1", {"t": [0]}, {"b-1": {"t": [1], "u": [2, 3]}}),
        commit(p1=5, p0=7),
        commit(p1=6),
        join("a-1", 3, "a-1", topics=["t", "u"]),
        join("a-1", 4, "a-1", topics=["u", "t"], reason="rolling"),
        join("a-1", 5, "a-1", topics=["u", "t"]),
        (13, 5, {"groupId": "g", "members": [{"memberId": "a-1", "reason": "bye"}]}, {}),
        (13, 1, {"groupId": "g", "memberId": "b-1"}, {"errorCode": 25}),
        (13, 1, {"groupId": "g", "memberId": "c-1"}, {}),
    )
    (group,) = found["groups"].lines()
    gone = "shop (b-1) is gone without leaving: its session timed out, or it did not rejoin in time"
    generations = [
        (1, at(4), 2, ["a-1"], ["shop (a-1) joined"]),
        (2, at(10), 5, ["a-1", "b-1"], ["shop (b-1) joined"]),
        (3, at(26), 13, ["a-1"], [gone, "shop (a-1) changed its subscription"]),
        (4, at(28), 14, ["a-1"], ["shop (a-1): rolling"]),
        (5, at(30), 15, ["a-1"], ["the capture does not show why"]),
    ]
    events = [
        (2, 1, "join refused", "", "79 MEMBER_ID_REQUIRED"),
        (4, 2, "join", "a-1", "generation 1"),
        (6, 3, "sync", "a-1", "t 0 1"),
        (10, 5, "join", "b-1", "generation 2"),
        (12, 6, "join", "a-1", "generation 2"),
        (14, 7, "heartbeat answered", "a-1", "27 REBALANCE_IN_PROGRESS"),
        (18, 9, "sync refused", "b-1", "27 REBALANCE_IN_PROGRESS"),
        (20, 10, "sync", "a-1", "t 0"),
        (26, 13, "join", "a-1", "generation 3"),
        (28, 14, "join", "a-1", "generation 4"),
        (30, 15, "join", "a-1", "generation 5"),
        (32, 16, "leave", "a-1", "bye"),
        (36, 18, "leave", "c-1", ""),
    ]
    who = {"client_id": "shop", "host": "10.0.0.1"}
    assert group == {
        "schema": "kproxy.group/1",
        "group": "g",
        "kind": "classic",
        "protocol_type": "consumer",
        "coordinator": "10.0.0.2:9092",
        "generation": 5,
        "protocol": "range",
        "rebalances": 4,
        "members": [
            {"member_id": "a-1", **who, "instance_id": "i", "joined": at(3), "left": at(31), "heartbeats": 2,
             "heartbeat_interval_ms": 6.0, "assignment": {"t": [0]}},
            {"member_id": "b-1", **who, "instance_id": None, "joined": at(9), "left": at(26), "heartbeats": 1,
             "heartbeat_interval_ms": None, "assignment": {"t": [1], "u": [2, 3]}},
        ],
        "generations": [
            {"generation": number, "time": time, "exchange": exchange, "protocol": "range", "leader": "a-1",
             "members": members, "why": why}
            for number, time, exchange, members, why in generations
        ],
        "events": [
            {"time": at(time), "exchange": exchange, "event": what, "member_id": member, "detail": detail}
            for time, exchange, what, member, detail in events
        ],
        "more_events": 0,
        "commits": 2,
        "committed": {"t": {0: 7, 1: 6}},
        "lag": [],
        "errors": {25: 1, 27: 2, 79: 1},
        "error_exchanges": {25: 17, 27: 7, 79: 1},
        "first_exchange": 1,
        "last_exchange": 18,
    }  # fmt: skip


def test_who_is_known_already_did_not_join() -> None:
    """A capture that begins in the middle: nobody joins in the first generation that it shows."""
    (group,) = views(heartbeat("a-1"), join("a-1", 7, "a-1"), join("a-1", 8, "a-1"))["groups"].lines()
    assert [one["why"] for one in group["generations"]] == [["the capture does not show why"]] * 2
    assert group["rebalances"] == 1
    assert group["members"][0]["joined"] == at(1)


def test_a_member_whose_id_begins_with_its_client_id_is_named_once() -> None:
    (group,) = views(join("shop-1", 1, "shop-1"))["groups"].lines()
    assert group["generations"][0]["why"] == ["shop-1 joined"]
    (group,) = views(join("a-1", 1, "a-1"), client_id=None)["groups"].lines()
    assert group["generations"][0]["why"] == ["a-1 joined"]


def beat(key: int, member: str, epoch: int, reached: int, partitions: list[int] | None, **more: Any) -> Exchanged:
    asked = {"groupId": "g", "memberId": member, "memberEpoch": epoch, **more}
    given = None
    if partitions is not None:
        places = [{"topicId": bytes(15) + b"\7", "partitions": partitions}]
        given = {"topicPartitions": places if partitions else []}
    code = more.pop("error", 0)
    asked.pop("error", None)
    answered = {"memberId": member, "memberEpoch": reached, "errorCode": code, "assignment": given}
    return key, {68: 0, 76: 1}[key], asked, answered


TOPIC = "AAAAAAAAAAAAAAAAAAAABw"


def test_a_group_whose_members_only_send_heartbeats() -> None:
    found = views(
        beat(68, "a", 0, 1, [0, 1], subscribedTopicNames=["t"], serverAssignor="uniform", instanceId="i"),
        beat(68, "a", 1, 1, None),
        beat(68, "b", 0, 2, [1], subscribedTopicNames=["t"]),
        beat(68, "a", 1, 2, [0]),
        beat(68, "a", 2, 3, [0], subscribedTopicNames=["t", "u"]),
        beat(68, "b", 2, 0, None, error=110),
        beat(68, "a", -2, -2, None),
        beat(68, "b", -1, -1, None),
    )
    (group,) = found["groups"].lines()
    assert (group["kind"], group["protocol_type"], group["generation"]) == ("consumer", "consumer", 3)
    assert [(one["generation"], one["exchange"], one["protocol"], one["members"], one["why"])
            for one in group["generations"]] == [
        (1, 1, "uniform", ["a"], ["shop (a) joined"]),
        (2, 3, "uniform", ["a", "b"], ["shop (b) joined"]),
        (3, 5, "uniform", ["a", "b"], ["shop (a) changed its subscription"]),
    ]  # fmt: skip
    assert [(one["exchange"], one["event"], one["member_id"], one["detail"]) for one in group["events"]] == [
        (1, "join", "a", ""),
        (1, "assigned", "a", f"{TOPIC} 0 1"),
        (3, "join", "b", ""),
        (3, "assigned", "b", f"{TOPIC} 1"),
        (4, "assigned", "a", f"{TOPIC} 0"),
        (5, "assigned", "a", f"{TOPIC} 0"),
        (6, "heartbeat answered", "b", "110 FENCED_MEMBER_EPOCH"),
        (7, "leave", "a", "its static member comes back"),
        (8, "leave", "b", ""),
    ]
    first, second = group["members"]
    assert first == {
        "member_id": "a", "client_id": "shop", "host": "10.0.0.1", "instance_id": "i", "joined": at(1),
        "left": at(13), "heartbeats": 4, "heartbeat_interval_ms": 2.7, "assignment": {TOPIC: [0]},
    }  # fmt: skip
    assert (second["left"], second["heartbeats"], second["assignment"]) == (at(15), 1, {TOPIC: [1]})
    assert group["errors"] == {110: 1}


def test_a_member_that_keeps_asking_to_join_is_not_told_each_time() -> None:
    again = [beat(68, "a", 0, 1, [0]) for _ in range(4)]
    (group,) = views(*again)["groups"].lines()
    assert [one["event"] for one in group["events"]].count("join") == 2
    assert len(group["generations"]) == 1


def test_a_share_group() -> None:
    (group,) = views(beat(76, "a", 0, 1, [0], subscribedTopicNames=["t"]))["groups"].lines()
    assert (group["kind"], group["protocol_type"], group["rebalances"]) == ("share", "share", 0)


def test_groups_with_most_rebalances_come_first() -> None:
    def of(name: str, step: Exchanged) -> Exchanged:
        return step[0], step[1], {**step[2], "groupId": name}, step[3]

    found = views(
        of("b", heartbeat("x")),
        of("a", heartbeat("x")),
        of("c", join("x", 1)),
        of("c", join("x", 2)),
    )
    assert [line["group"] for line in found["groups"].lines()] == ["c", "a", "b"]


def test_groups_generations_and_events_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GENERATIONS", "EVENTS"):
        monkeypatch.setattr(groups, name, 2)
    (group,) = views(*(join("a-1", number, "a-1") for number in range(1, 5)))["groups"].lines()
    assert [one["generation"] for one in group["generations"]] == [3, 4]
    assert [one["exchange"] for one in group["events"]] == [1, 2]
    assert group["more_events"] == 2
    monkeypatch.setattr(groups, "MOST", 0)
    assert not list(views(heartbeat("a-1"))["groups"].lines())


def test_members_and_offsets_of_all_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_MEMBERS", 1)
    monkeypatch.setattr(groups, "MOST_OFFSETS", 1)
    steps = [join("a-1", 1, "a-1"), join("a-2", 2, "a-1", "a-2"), commit(p1=5, p0=7), commit(p1=6, p0=8)]
    (group,) = views(*steps)["groups"].lines()
    assert [one["member_id"] for one in group["members"]] == ["a-1"]
    assert group["committed"] == {"t": {1: 6}}


def test_members_beyond_the_bound_are_in_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_MEMBERS", 1)
    steps = [beat(68, one, epoch, epoch + 1, [0]) for epoch in range(3) for one in ("a", "b")]
    (group,) = views(*steps)["groups"].lines()
    assert [one["member_id"] for one in group["members"]] == ["a"]
    assert group["generations"][-1]["members"] == ["a", "b"]
