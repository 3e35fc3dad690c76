"""What a connection carried."""

from __future__ import annotations

import pytest

from kproxy.captures.analysis import connections
from kproxy.captures.analysis.texts import view_text
from kproxy.captures.analysis.views import Views
from tests.captures.analysis.support import Exchanged, views
from tests.support.scripts import BROKER, CLIENT, Script, eyes, play, request, response


@pytest.mark.parametrize("count", [1, 2])
def test_a_connection_that_fitted_once_says_so(count: int) -> None:
    found = views(*[(3, 12, {}, {})] * count)["connections"].lines()
    (line, *_) = view_text("connections", found)
    assert ("1 exchange  the only sign that this is Kafka" in line) == (count == 1)


def test_a_connection() -> None:
    script = Script()
    failed: Exchanged = (10, 3, {"key": "g"}, {"errorCode": 15})
    found = views((18, 3, {"clientSoftwareName": "lib"}, {}), failed, failed, (3, 12, {}, {}), script=script)
    (link,) = found["connections"].lines()
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


def test_a_produce_that_asks_for_no_answer_is_answered() -> None:
    (link,) = views((0, 8, {"acks": 0}, None))["connections"].lines()
    assert (link["unanswered"], link["response_bytes"], link["in_flight_most"]) == (0, 0, 0)
    assert link["last"] == "2023-11-14T22:13:20.001000000Z"


def test_what_was_not_answered() -> None:
    (link,) = views((3, 12, {}, {}), (10, 3, {}, None))["connections"].lines()
    assert (link["exchanges"], link["unanswered"]) == (2, 1)


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


def test_only_so_many_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 0)
    found = views((3, 12, {}, {}), (3, 12, {}, {}))
    view = found["connections"]
    assert isinstance(view, connections.Connections)
    assert (list(view.lines()), view.more) == ([], 2)
