"""What members of groups and brokers put into bytes, as Kafka's, Connect's and Streams' own classes write it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from base64 import b64decode
from collections import Counter
from ipaddress import ip_address
from typing import Any

import pytest

from kproxy.decoders.embedded import Scope
from kproxy.decoders.embedded.envelope import PRINCIPAL
from kproxy.decoders.embedded.group import PROTOCOLS, USER_DATA
from kproxy.decoders.embedded.structure import Structured, read
from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.message import decode_request
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.support.java import members_classpath

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROUNDS = int(os.environ.get("KPROXY_ORACLE_MESSAGES", "30"))
STRUCTURES = {one.name: one for one in (*PROTOCOLS.values(), *USER_DATA.values(), PRINCIPAL)}
VERSIONS = {
    "ConsumerProtocolSubscription": 4,
    "ConsumerProtocolAssignment": 4,
    "ConnectWorkerState": 3,
    "ConnectAssignment": 3,
    "SubscriptionInfoData": 11,
    "AssignmentInfo": 11,
    "EnvelopeRequest": 1,
}


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    seed = os.environ.get("KPROXY_ORACLE_SEED") or str(secrets.randbits(48))
    run = subprocess.run(
        [
            "java",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-cp",
            members_classpath(),
            "kproxy.oracle.Members",
            seed,
            str(ROUNDS),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    print(f"seed {seed}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_every_structure_and_version_is_read_as_kafka_does(lines: list[dict[str, Any]]) -> None:
    seen: Counter[tuple[str, int]] = Counter()
    wrong = []
    for line in lines:
        name, version, data = line["structure"], line["version"], b64decode(line["bytes"])
        seen[name, version] += 1
        if name == "EnvelopeRequest":
            continue
        found = read(STRUCTURES[name], data)
        assert found.readable, line
        assert found.given == version
        assert not found.wrong, line
        assert found.whole, line
        decoded = json.loads(json.dumps(found.json(body_json, Scope())))
        ours = _canonical(FACTS[name](decoded, version))
        theirs = _canonical(line["facts"])
        if ours != theirs:
            wrong.append(f"{name} v{version}: {ours} is not Kafka's {theirs}")
        assert _written(found) == data[found.start :], line
    assert wrong[:3] == []
    assert Counter(name for name, _ in seen) == VERSIONS
    assert min(seen.values()) >= ROUNDS


def test_envelopes_hold_what_a_broker_forwards(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        if line["structure"] != "EnvelopeRequest":
            continue
        data = b64decode(line["bytes"])
        frame = len(data).to_bytes(4, "big") + data
        read = decode_request(frame, definitions())
        assert read.message is not None
        assert read.body is not None
        body = body_json(read.body, read.message, read.version, View(), Scope())
        inner, principal = body["requestData"]["decoded"], body["requestPrincipal"]["decoded"]
        assert "base64" in body["requestData"]
        assert {
            "api": inner["api"],
            "correlationId": inner["header"]["correlationId"],
            "topicNames": inner["body"]["topicNames"],
            "name": principal["name"],
            "tokenAuthenticated": principal["tokenAuthenticated"],
        } == {name: value for name, value in line["facts"].items() if name != "address"}
        # Java writes all groups of an IPv6 address, and Python shortens.
        assert ip_address(body["clientHostAddress"]["decoded"]) == ip_address(line["facts"]["address"])
        root = frame_tree(frame, Side.CLIENT, None, None, definitions())
        (node,) = [node for node in root.walk() if node.name == "requestData"]
        assert node.label == "DeleteTopicsRequest v5"
        assert [child.name for child in node.children] == ["header", "body"]
        assert node.children[-1].end == node.end


def _written(found: Structured) -> bytes:
    assert found.message is not None
    assert found.values is not None
    return write(found.message, found.version, found.values)


def _canonical(value: Any) -> Any:
    """The same in any order of a list: Kafka's maps and sets have none."""
    if isinstance(value, list):
        return sorted((_canonical(one) for one in value), key=json.dumps)
    if isinstance(value, dict):
        return {name: _canonical(inner) for name, inner in sorted(value.items())}
    return value


def _pairs(topics: list[dict[str, Any]] | None) -> list[Any]:
    return [[topic["topic"], number] for topic in topics or () for number in topic["partitions"]]


def _subscription(read: dict[str, Any], version: int) -> dict[str, Any]:
    del version
    return {
        "topics": read["topics"],
        "userData": read["userData"],
        "ownedPartitions": _pairs(read.get("ownedPartitions")),
        "generationId": read.get("generationId", -1),
        "rackId": read.get("rackId"),
    }


def _assignment(read: dict[str, Any], version: int) -> dict[str, Any]:
    del version
    return {"assignedPartitions": _pairs(read["assignedPartitions"]), "userData": read["userData"]}


def _connectors(of: list[dict[str, Any]] | None) -> list[Any]:
    return [[one["connector"], task] for one in of or () for task in one["tasks"]]


def _connect_assignment(read: dict[str, Any], version: int) -> dict[str, Any]:
    facts = {name: read[name] for name in ("error", "leader", "leaderUrl", "configOffset")}
    facts["assignment"] = _connectors(read["assignment"])
    if version > 0:
        facts |= {"revoked": _connectors(read["revoked"]), "delay": read["delay"]}
    return facts


def _worker(read: dict[str, Any], version: int) -> dict[str, Any]:
    facts = {"url": read["url"], "configOffset": read["configOffset"]}
    if version > 0:
        held = read["allocation"]
        facts["allocation"] = None if held is None else _connect_assignment(held["decoded"], version)
    return facts


def _task(task: dict[str, Any]) -> list[Any]:
    name = task.get("namedTopology") or ""
    if isinstance(name, list):
        name = b"".join(unit.to_bytes(2, "big") for unit in name).decode("utf-16-be")
    return [task["topicGroupId"], task["partition"], name]


def _text(data: Any) -> Any:
    """Text that is written as bytes: as we decode it, which must be what they are."""
    if not data:
        return None
    assert b64decode(data["base64"]).decode() == data["decoded"]
    return data["decoded"]


def _subscription_info(read: dict[str, Any], version: int) -> dict[str, Any]:
    sums = []
    for entry in read.get("taskOffsetSums", ()):
        one = [entry] if version >= 10 else [{**entry, **each} for each in entry["partitionToOffsetSum"]]
        sums += [[_task(each), each["offsetSum"]] for each in one]
    return {
        "latestSupportedVersion": read.get("latestSupportedVersion", 11),
        "processId": read["processId"],
        "prevTasks": [_task(task) for task in read.get("prevTasks", ())],
        "standbyTasks": [_task(task) for task in read.get("standbyTasks", ())],
        "userEndPoint": _text(read.get("userEndPoint")),
        "taskOffsetSums": sums,
        "uniqueField": read.get("uniqueField"),
        "errorCode": read.get("errorCode", 0),
        "clientTags": {_text(tag["key"]): _text(tag["value"]) for tag in read.get("clientTags", ())},
    }


def _hosts(hosts: list[dict[str, Any]], names: dict[int, str]) -> list[Any]:
    return [
        [
            host["host"],
            host["port"],
            [[one.get("topic") or names[one["topicIndex"]], one["partition"]] for one in host["partitions"]],
        ]
        for host in hosts
    ]


def _assignment_info(read: dict[str, Any], version: int) -> dict[str, Any]:
    del version
    names = {topic["topicIndex"]: topic["topic"] for topic in read.get("topics", ())}
    by_host = read.get("partitionsByHost", read.get("partitionsByHostIndexed", []))
    return {
        "commonlySupportedVersion": read.get("commonlySupportedVersion", -1),
        "activeTasks": [_task(task) for task in read["activeTasks"]],
        "standbyTasks": [
            [_task(task), [[one["topic"], one["partition"]] for one in task["partitions"]]]
            for task in read["standbyTasks"]
        ],
        "partitionsByHost": _hosts(by_host, names),
        "standbyPartitionsByHost": _hosts(read.get("standbyPartitionsByHostIndexed", []), names),
        "errorCode": read.get("errorCode", 0),
        "nextRebalanceMs": read.get("nextRebalanceMs"),
    }


FACTS = {
    "ConsumerProtocolSubscription": _subscription,
    "ConsumerProtocolAssignment": _assignment,
    "ConnectWorkerState": _worker,
    "ConnectAssignment": _connect_assignment,
    "SubscriptionInfoData": _subscription_info,
    "AssignmentInfo": _assignment_info,
}
