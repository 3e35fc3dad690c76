"""What a connection carried, and how far its client came."""

from __future__ import annotations

import pytest

from kproxy.captures.analysis import connections
from kproxy.captures.analysis.views import Views, view_text
from tests.captures.analysis.support import Exchanged, views
from tests.support.scripts import BROKER, CLIENT, Script, eyes, play, request, response

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
    client = list(views((key, version, {}, {}))["connections"].lines())[1]
    assert [step["api"] for step in client["steps"]] == [api]


def test_what_is_no_step_of_a_start_up() -> None:
    assert [line["schema"] for line in views((32, 2, {}, {}))["connections"].lines()] == ["kproxy.connection/1"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_connection_that_fitted_once_says_so(count: int) -> None:
    found = views(*[(3, 12, {}, {})] * count)["connections"].lines()
    (line, *_) = view_text("connections", found)
    assert ("1 exchange  the only sign that this is Kafka" in line) == (count == 1)


def test_a_connection() -> None:
    script = Script()
    failed: Exchanged = (10, 3, {"key": "g"}, {"errorCode": 15})
    found = views((18, 3, {"clientSoftwareName": "lib"}, {}), failed, failed, (3, 12, {}, {}), script=script)
    (link, client) = found["connections"].lines()
    assert link == {
        "schema": "kproxy.connection/1",
        "connection": 1,
        "client": "10.0.0.1:51234",
        "broker": "10.0.0.2:9092",
        "began": "1970-01-01T00:00:00.000000000Z",
        "last": "2023-11-14T22:13:20.008000000Z",
        "client_ids": ["shop"],
        "software": "lib",
        "sasl_mechanism": None,
        "sasl": None,
        "tls": False,
        "exchanges": 4,
        "errors": 2,
        "first_error": 2,
        "unanswered": 0,
        "request_bytes": script.offsets[CLIENT],
        "response_bytes": script.offsets[BROKER],
        "in_flight_most": 1,
        "first_exchange": 1,
        "last_exchange": 4,
    }
    step = {"latency_ms": 1.0, "attempts": 1, "error": None, "done": True}
    assert client == {
        "schema": "kproxy.client/1",
        "client_id": "shop",
        "host": "10.0.0.1",
        "software": "lib",
        "groups": [],
        "steps": [
            {**step, "api": "ApiVersions", "time": "2023-11-14T22:13:20.001000000Z", "exchange": 1},
            {**step, "api": "FindCoordinator", "time": "2023-11-14T22:13:20.005000000Z", "exchange": 3, "attempts": 2,
             "error": "COORDINATOR_NOT_AVAILABLE", "done": False},
            {**step, "api": "Metadata", "time": "2023-11-14T22:13:20.007000000Z", "exchange": 4},
        ],
        "stopped_at": "FindCoordinator",
    }  # fmt: skip


def test_a_step_is_the_first_that_was_answered_well() -> None:
    failed: Exchanged = (10, 3, {"key": "g"}, {"errorCode": 15})
    done: Exchanged = (10, 3, {"key": "g"}, {})
    (_, client) = views(failed, done, failed)["connections"].lines()
    (step,) = client["steps"]
    assert (step["exchange"], step["attempts"], step["error"], step["done"]) == (2, 2, None, True)
    assert client["stopped_at"] is None


def test_a_produce_that_asks_for_no_answer_is_a_step() -> None:
    (link, client) = views((0, 8, {"acks": 0}, None))["connections"].lines()
    (step,) = client["steps"]
    assert (step["api"], step["latency_ms"], step["done"]) == ("Produce", None, True)
    assert (link["unanswered"], link["response_bytes"], link["in_flight_most"]) == (0, 0, 0)
    assert link["last"] == "2023-11-14T22:13:20.001000000Z"


def test_what_was_not_answered() -> None:
    (link, client) = views((3, 12, {}, {}), (10, 3, {}, None))["connections"].lines()
    assert (link["exchanges"], link["unanswered"]) == (2, 1)
    assert [(step["api"], step["done"]) for step in client["steps"]] == [("Metadata", True), ("FindCoordinator", False)]


def test_requests_that_wait_at_once() -> None:
    script = Script()
    script.client(*(request(3, 12, number) for number in range(3)))
    script.broker(response(3, 12, 0)).broker(response(3, 12, 1))
    script.client(request(3, 12, 3)).broker(response(3, 12, 2)).broker(response(3, 12, 3))
    played = play(script.end())
    found = Views(played.tape, eyes())
    for exchange in played.exchanges:
        found.add(exchange)
    view = found["connections"]
    assert isinstance(view, connections.Connections)
    assert view.links()[0].in_flight == 3


def test_only_so_many_connections_and_clients_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 0)
    found = views((3, 12, {}, {}), (3, 12, {}, {}))
    view = found["connections"]
    assert isinstance(view, connections.Connections)
    assert (list(view.lines()), view.more) == ([], 2)
