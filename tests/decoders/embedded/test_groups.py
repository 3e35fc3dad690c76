"""Structures that group members exchange: which one it is, and the mark of a guess if no message says so."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.decoders.embedded import Kind, inside
from tests.decoders.embedded.support import lines, newest, structure, text
from tests.support.scripts import request, response

SUBSCRIPTION = structure("ConsumerProtocolSubscription", 3, topics=["orders"], userData=b"\1\2", generationId=4)
ASSIGNMENT = structure("ConsumerProtocolAssignment", 1, assignedPartitions=[{"topic": "orders", "partitions": [0, 7]}])
ASSIGNED = {"version": 1, "assignedPartitions": [{"topic": "orders", "partitions": [0, 7]}], "userData": None}
WORKER = structure("ConnectWorkerState", 0, url="http://a:8083/", configOffset=12)


def join(group: str, protocol_type: str, protocol: str, metadata: bytes, version: int = 5) -> tuple[bytes, bytes]:
    return (
        request(
            11, version, 1, groupId=group, protocolType=protocol_type,
            protocols=[{"name": protocol, "metadata": metadata}],
        ),
        response(11, version, 1, protocolName=protocol, members=[{"memberId": "m", "metadata": metadata}]),
    )  # fmt: skip


def sync(group: str, assignment: bytes, version: int = 3, **more: Any) -> tuple[bytes, bytes]:
    return (
        request(
            14, version, 2, groupId=group, assignments=[{"memberId": "m", "assignment": assignment}], **more
        ),
        response(14, version, 2, assignment=assignment, **more),
    )  # fmt: skip


@pytest.mark.parametrize("version", range(10))
def test_a_subscription_in_both_directions(version: int) -> None:
    (line,) = lines(join("g", "consumer", "range", SUBSCRIPTION, version))
    expected = {
        "base64": text(SUBSCRIPTION),
        "decoded": {
            "version": 3, "topics": ["orders"], "userData": "AQI=", "ownedPartitions": [], "generationId": 4,
            "rackId": None,
        },
    }  # fmt: skip
    assert line["request"]["body"]["protocols"][0]["metadata"] == expected
    assert line["response"]["body"]["members"][0]["metadata"] == expected
    assert line["problems"] == []


@pytest.mark.parametrize("version", range(6))
def test_an_assignment_of_a_group_whose_type_is_known(version: int) -> None:
    more = {"protocolType": "consumer", "protocolName": "range"} if version == 5 else {}
    before = [join("g", "consumer", "range", SUBSCRIPTION)] if version < 5 else []
    line = lines(*before, sync("g", ASSIGNMENT, version, **more))[-1]
    expected = {"base64": text(ASSIGNMENT), "decoded": ASSIGNED}
    assert line["request"]["body"]["assignments"][0]["assignment"] == expected
    assert line["response"]["body"]["assignment"] == expected


def test_an_assignment_of_a_group_of_which_nothing_is_known_is_a_guess() -> None:
    (line,) = lines(sync("g", ASSIGNMENT))
    assert line["response"]["body"]["assignment"] == {
        "base64": text(ASSIGNMENT), "decoded": ASSIGNED, "guessed": True,
    }  # fmt: skip
    (line,) = lines(sync("g", ASSIGNMENT + b"\0"))
    assert line["response"]["body"]["assignment"] == text(ASSIGNMENT + b"\0")
    assert line["problems"] == []


def test_a_guess_must_fit_one_structure_alone() -> None:
    found = inside(None, Kind.SUBSCRIPTION, WORKER)
    assert found is not None
    assert found.label == "Connect worker state v0"
    assert found.guessed
    assert inside(None, Kind.SUBSCRIPTION, b"{}") is None
    assert inside(None, Kind.SUBSCRIPTION, b"") is None


def test_a_type_that_nobody_knows_stays_base64() -> None:
    (line,) = lines(join("g", "sr", "v0", SUBSCRIPTION))
    assert line["request"]["body"]["protocols"][0]["metadata"] == text(SUBSCRIPTION)
    assert line["problems"] == []


def test_describe_groups_names_the_type_beside_its_members() -> None:
    group = {
        "groupId": "g", "groupState": "Stable", "protocolType": "consumer", "protocolData": "range",
        "members": [{"memberMetadata": SUBSCRIPTION, "memberAssignment": ASSIGNMENT}, {}],
    }  # fmt: skip
    described, after = lines(
        (request(15, 5, 1, groups=["g"]), response(15, 5, 1, groups=[group])), sync("g", ASSIGNMENT)
    )
    members = described["response"]["body"]["groups"][0]["members"]
    assert members[0]["memberMetadata"]["decoded"]["topics"] == ["orders"]
    assert members[0]["memberAssignment"]["decoded"] == ASSIGNED
    assert members[1]["memberAssignment"] == ""
    assert "guessed" not in after["response"]["body"]["assignment"]


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    high = newest("ConsumerProtocolAssignment")
    data = structure("ConsumerProtocolAssignment", high, prefix=high + 6) + b"what came later"
    (line,) = lines(join("g", "consumer", "range", SUBSCRIPTION), sync("g", data))[1:]
    shown = line["response"]["body"]["assignment"]
    assert shown["decoded"] == {"version": high + 6, "assignedPartitions": [], "userData": None}
    assert line["problems"] == []


def test_what_does_not_fit_is_a_problem_with_its_place() -> None:
    cut = SUBSCRIPTION[:-3]
    asked, answered = join("g", "consumer", "range", cut)
    (line,) = lines((asked, answered))
    assert line["request"]["body"]["protocols"][0]["metadata"] == text(cut)
    problem = line["problems"][0]
    assert problem["where"] == "request"
    assert problem["path"].startswith("protocols[0].metadata.")
    assert problem["code"] == "truncated"
    assert asked.index(cut) < problem["offset"] <= asked.index(cut) + len(cut)
    assert line["problems"][1]["path"].startswith("members[0].metadata.")

    (line,) = lines(join("g", "consumer", "range", structure("ConsumerProtocolSubscription", 0) + b"xy"))
    assert [(one["path"], one["code"]) for one in line["problems"]] == [
        ("protocols[0].metadata", "trailing_bytes"),
        ("members[0].metadata", "trailing_bytes"),
    ]
    assert "decoded" in line["request"]["body"]["protocols"][0]["metadata"]

    (line,) = lines(join("g", "connect", "compatible", b"\0\x09rest"))
    assert line["problems"][0]["code"] == "unknown_version"


def test_text_that_is_no_utf8_is_a_problem_and_shown() -> None:
    data = structure("ConsumerProtocolSubscription", 0, topics=["orders"]).replace(b"orders", b"\xffrders")
    (line,) = lines(join("g", "consumer", "range", data))
    assert line["request"]["body"]["protocols"][0]["metadata"]["decoded"]["topics"] == ["\ufffdrders"]
    assert [problem["code"] for problem in line["problems"]] == ["bad_utf8", "bad_utf8"]


def test_a_connect_worker_tells_what_it_holds() -> None:
    held = structure("ConnectAssignment", 2, leader="w", assignment=[{"connector": "c", "tasks": [-1, 0]}], delay=9)
    data = structure("ConnectWorkerState", 2, url="http://a/", configOffset=3, allocation=held)
    (line,) = lines(join("connect-cluster", "connect", "sessioned", data))
    worker = line["request"]["body"]["protocols"][0]["metadata"]["decoded"]
    assert worker["allocation"]["decoded"]["assignment"] == [{"connector": "c", "tasks": [-1, 0]}]
    assert worker["allocation"]["base64"] == text(held)


@pytest.mark.parametrize("version", [1, 7, 11])
def test_streams_puts_its_own_into_user_data(version: int) -> None:
    info = structure("SubscriptionInfoData", version, processId=bytes(range(16)))
    plan = structure("AssignmentInfo", version, activeTasks=[{"topicGroupId": 1, "partition": 2}])
    subscription = structure("ConsumerProtocolSubscription", 1, topics=["t"], userData=info)
    assignment = structure("ConsumerProtocolAssignment", 1, userData=plan)
    joined, synced = lines(join("g", "consumer", "stream", subscription), sync("g", assignment))
    for shown in (joined["request"]["body"]["protocols"][0], joined["response"]["body"]["members"][0]):
        told = shown["metadata"]["decoded"]["userData"]["decoded"]
        assert (told["version"], told["processId"]) == (version, "AAECAwQFBgcICQoLDA0ODw")
    for body in (synced["request"]["body"]["assignments"][0], synced["response"]["body"]):
        assert body["assignment"]["decoded"]["userData"]["decoded"]["activeTasks"][0]["partition"] == 2
    (line,) = lines(join("g", "consumer", "range", subscription))
    assert line["request"]["body"]["protocols"][0]["metadata"]["decoded"]["userData"] == text(info)
