"""Who clients are, what they do, and how far each came in its start-up."""

from __future__ import annotations

import pytest

from kproxy.captures.analysis import clients
from tests.captures.analysis.support import Exchanged, views
from tests.decoders.sasl.test_session import handshake, token
from tests.support.scripts import BROKER, CLIENT, Script

APIS = {
    18: ("ApiVersions", 3), 17: ("SaslHandshake", 1), 36: ("SaslAuthenticate", 2), 3: ("Metadata", 12),
    10: ("FindCoordinator", 3), 22: ("InitProducerId", 4), 11: ("JoinGroup", 9), 14: ("SyncGroup", 5),
    68: ("ConsumerGroupHeartbeat", 0), 76: ("ShareGroupHeartbeat", 1), 88: ("StreamsGroupHeartbeat", 0),
    9: ("OffsetFetch", 7), 2: ("ListOffsets", 6), 0: ("Produce", 8), 1: ("Fetch", 11), 78: ("ShareFetch", 1),
    12: ("Heartbeat", 4),
}  # fmt: skip
"""Steps of a start-up by API key, with a version of each."""


@pytest.mark.parametrize("key", APIS)
def test_a_step_of_a_start_up(key: int) -> None:
    api, version = APIS[key]
    (client,) = views((key, version, {}, {}))["clients"].lines()
    assert [step["api"] for step in client["steps"]] == [api]


def test_what_is_no_step_of_a_start_up() -> None:
    (client,) = views((32, 2, {}, {}))["clients"].lines()
    assert (client["steps"], client["does"]) == ([], ["administers"])


def test_a_client() -> None:
    script = Script()
    failed: Exchanged = (10, 3, {"key": "g"}, {"errorCode": 15, "throttleTimeMs": 20})
    found = views((18, 3, {"clientSoftwareName": "lib"}, {}), failed, failed, (3, 12, {}, {}), script=script)
    (client,) = found["clients"].lines()
    step = {"latency_ms": 1.0, "attempts": 1, "error": None, "done": True}
    moved = script.offsets[CLIENT] + script.offsets[BROKER]
    assert client == {
        "schema": "kproxy.client/1",
        "client_id": "shop",
        "host": "10.0.0.1",
        "software": "lib",
        "principals": [],
        "groups": [],
        "does": [],
        "connections": 1,
        "exchanges": 4,
        "errors": 2,
        "first_error": 2,
        "unanswered": 0,
        "throttled": 2,
        "throttle_ms": 40,
        "request_bytes": script.offsets[CLIENT],
        "response_bytes": script.offsets[BROKER],
        "bytes_per_second": round(moved / 0.007, 1),
        "refused": [],
        "first": "2023-11-14T22:13:20.001000000Z",
        "last": "2023-11-14T22:13:20.008000000Z",
        "first_exchange": 1,
        "last_exchange": 4,
        "steps": [
            {**step, "api": "ApiVersions", "time": "2023-11-14T22:13:20.001000000Z", "exchange": 1},
            {**step, "api": "FindCoordinator", "time": "2023-11-14T22:13:20.005000000Z", "exchange": 3, "attempts": 2,
             "error": "COORDINATOR_NOT_AVAILABLE", "done": False},
            {**step, "api": "Metadata", "time": "2023-11-14T22:13:20.007000000Z", "exchange": 4},
        ],
        "stopped_at": "FindCoordinator",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("step", "does"),
    [
        ((0, 8, {"acks": 1}, {}), ["produces"]),
        ((1, 11, {"replicaId": -1}, {}), ["consumes"]),
        ((1, 11, {"replicaId": 3}, {}), ["replicates"]),
        ((1, 11, {"replicaId": -2}, {}), ["debugs"]),
        ((78, 1, {}, {}), ["shares"]),
        ((22, 4, {}, {}), ["transactions"]),
        ((19, 5, {}, {}), ["administers"]),
        ((6, 6, {}, {}), ["controls"]),
        ((12, 4, {}, {}), []),
    ],
)
def test_what_a_client_does(step: Exchanged, does: list[str]) -> None:
    (client,) = views(step)["clients"].lines()
    assert client["does"] == does


def test_versions_that_a_release_refuses() -> None:
    (client,) = views((0, 2, {"acks": 1}, {}), (0, 8, {"acks": 1}, {}), (3, 0, {}, {}))["clients"].lines()
    assert client["refused"] == [{"api": "Produce", "version": 2, "since": "4.0.0"}]


def test_who_authenticates() -> None:
    script = token(handshake(Script(), 1, "PLAIN"), 2, b"\0alice\0secret", b"")
    (client,) = views((3, 12, {}, {}), script=script)["clients"].lines()
    assert client["principals"] == ["alice"]


def test_a_step_is_the_first_that_was_answered_well() -> None:
    failed: Exchanged = (10, 3, {"key": "g"}, {"errorCode": 15})
    done: Exchanged = (10, 3, {"key": "g"}, {})
    (client,) = views(failed, done, failed)["clients"].lines()
    (step,) = client["steps"]
    assert (step["exchange"], step["attempts"], step["error"], step["done"]) == (2, 2, None, True)
    assert client["stopped_at"] is None


def test_a_produce_that_asks_for_no_answer_is_a_step() -> None:
    (client,) = views((0, 8, {"acks": 0}, None))["clients"].lines()
    (step,) = client["steps"]
    assert (step["api"], step["latency_ms"], step["done"]) == ("Produce", None, True)


def test_what_was_not_answered() -> None:
    (client,) = views((3, 12, {}, {}), (10, 3, {}, None))["clients"].lines()
    assert [(step["api"], step["done"]) for step in client["steps"]] == [("Metadata", True), ("FindCoordinator", False)]


def test_only_so_many_clients_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST", 0)
    assert list(views((3, 12, {}, {}))["clients"].lines()) == []
