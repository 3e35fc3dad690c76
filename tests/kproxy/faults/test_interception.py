"""A frame waits until somebody decides about it, and then becomes what they decided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.core.verdict import Asking
from kproxy.decoders.batches.writing import batch
from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.writer import write
from kproxy.faults.decisions import DecisionError, held_json
from tests.kproxy.core.frames import DEFINITIONS, framed, request
from tests.kproxy.faults.support import HEARTBEAT, PRODUCE, Tale, asking, beaten, beating, produced, producing
from tests.support.playbook import FIN, PASSES, RESET, altered, notice, to_broker, to_client

RULE = "look: api == Produce => intercept"
ANSWERS = "look: api == Produce => intercept response"


def held(tale: Tale) -> Asking:
    (one,) = tale.engine.intercepted
    return one


def shown(tale: Tale) -> dict[str, Any]:
    """The frame that waits, as whoever decides sees it."""
    found: dict[str, Any] = json.loads(json.dumps(held_json(held(tale), DEFINITIONS, tale.story.now)))
    return found


def decide(tale: Tale, **decision: Any) -> Tale:
    tale.engine.decide(held(tale).number, decision)
    return tale


def record(value: str) -> bytes:
    return batch({"records": [{"key": "k", "value": value}], "baseTimestamp": 5})


def sending(correlation_id: int, value: str) -> bytes:
    data = [{"index": 0, "records": record(value)}]
    return asking(PRODUCE, 9, correlation_id, {"acks": -1, "topicData": [{"name": "t", "partitionData": data}]})


def test_it_is_shown_with_its_body_and_its_time() -> None:
    tale = Tale(f"{RULE} 30s")
    tale.story.client(sending(1, "one")).later(10)
    form = shown(tale)
    assert form["schema"] == "kproxy.held/1"
    assert {name: form[name] for name in ("rule", "side", "api", "api_version", "client_id", "left_ms")} == {
        "rule": "look", "side": "request", "api": "Produce", "api_version": 9, "client_id": "app", "left_ms": 20_000,
    }  # fmt: skip
    batches = form["body"]["topicData"][0]["partitionData"][0]["records"]["batches"]
    assert [one["value"] for one in batches[0]["records"]] == ["one"]


def test_let_go_it_leaves_as_it_came_and_what_waited_behind_it() -> None:
    tale = Tale(RULE)
    tale.story.client(producing(1) + beating(2))
    decide(tale, do="forward").story.later(0, altered(producing(1)), to_broker(beating(2)))
    tale.story.broker(produced(1) + beaten(2), PASSES).counted()
    assert not tale.engine.intercepted


def test_a_record_is_changed_and_the_recording_says_so() -> None:
    tale = Tale(RULE)
    tale.story.client(sending(1, "one"))
    body = shown(tale)["body"]
    body["topicData"][0]["partitionData"][0]["records"]["batches"][0]["records"][0]["value"] = "two"
    decide(tale, do="forward", body=body).story.later(0, altered(sending(1, "two")))
    ((side, frame, comment),) = tale.story.recorded
    assert (side, frame) == (0, sending(1, "two"))
    assert "look: topicData[0].partitionData[0].records" in comment


def test_what_is_not_touched_keeps_its_bytes() -> None:
    tale = Tale(RULE)
    tale.story.client(producing(1))  # its records are no batch, and could not be written
    body = {**shown(tale)["body"], "timeoutMs": 5}
    decide(tale, do="forward", body=body)
    tale.story.later(0, altered(producing(1).replace((1000).to_bytes(4, "big"), (5).to_bytes(4, "big"))))


def test_a_secret_that_was_withheld_stays_what_it_was() -> None:
    tale = Tale("look: api == SaslAuthenticate => intercept")
    frame = asking(36, 2, 1, {"authBytes": b"\0me\0secret"})
    tale.story.client(frame)
    form = shown(tale)
    assert "secret" not in json.dumps(form)
    decide(tale, do="forward", body=form["body"]).story.later(0, altered(frame))


def test_dropped_it_is_never_answered() -> None:
    tale = Tale(RULE)
    tale.story.client(producing(1) + beating(2))
    decide(tale, do="drop").story.later(0, to_broker(beating(2)))
    tale.story.broker(beaten(2), PASSES).counted()
    assert tale.story.recorded[0][:2] == (0, producing(1))
    assert "look: drop request" in tale.story.recorded[0][2]


def test_an_error_answers_it_in_its_turn() -> None:
    tale = Tale(RULE)
    tale.story.client(beating(1) + producing(2), to_broker(beating(1)))
    decide(tale, do="error", code="NOT_LEADER_OR_FOLLOWER").story.later(0)
    tale.story.broker(beaten(1), to_client(beaten(1) + produced(2, error=6))).counted()


def test_the_connection_ends() -> None:
    tale = Tale(RULE)
    tale.story.client(producing(1) + producing(2))
    tale.engine.decide(tale.engine.intercepted[0].number, {"do": "disconnect", "reset": True})
    tale.story.later(0, RESET).counted()
    assert not tale.engine.intercepted


def test_a_response_is_changed() -> None:
    tale = Tale(ANSWERS)
    tale.story.client(producing(1), PASSES).broker(produced(1))
    body = shown(tale)["body"]
    body["responses"][0]["partitionResponses"][0]["errorCode"] = "NOT_ENOUGH_REPLICAS"
    decide(tale, do="forward", body=body)
    tale.story.later(0, to_client(with_error(19)))
    ((side, frame, comment),) = tale.story.recorded
    assert (side, frame) == (1, produced(1))
    assert "errorCode: 0 -> 19" in comment


def with_error(code: int) -> bytes:
    """The broker's response with another error code, and all else as it was."""
    frame = produced(1)
    decoded = decode_response(frame, PRODUCE, 9, DEFINITIONS)
    assert decoded.body is not None
    assert decoded.message is not None
    decoded.body["responses"][0]["partitionResponses"][0]["errorCode"] = code
    return framed(frame[4 : decoded.body_start] + write(decoded.message, 9, decoded.body))


@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        ({"do": "forward"}, [to_client(produced(1))]),
        ({"do": "duplicate"}, [to_client(produced(1) * 2)]),
        ({"do": "drop"}, []),
        ({"do": "disconnect"}, [FIN]),
        ({"do": "error", "code": 19}, [to_client(produced(1, error=19))]),
    ],
)
def test_a_response_becomes_what_was_decided(decision: Mapping[str, Any], outcome: list[Any]) -> None:
    tale = Tale(ANSWERS)
    tale.story.client(producing(1), PASSES).broker(produced(1))
    decide(tale, **decision).story.later(0, *outcome).counted()
    assert [frame for side, frame, _ in tale.story.recorded] == [produced(1)]


def test_after_its_deadline_it_leaves_unchanged_with_a_warning() -> None:
    tale = Tale(f"{RULE} 5s")
    tale.story.client(producing(1))
    number = held(tale).number
    tale.story.later(5, notice("deadline-look"), altered(producing(1))).counted()
    with pytest.raises(LookupError, match=f"no frame {number} waits"):
        tale.engine.decide(number, {"do": "drop"})


@pytest.mark.parametrize("end", ["client_ended", "broker_ended", "dropped"])
def test_nothing_waits_once_an_end_is_gone(end: str) -> None:
    tale = Tale(RULE)
    tale.story.client(producing(1))
    if end == "client_ended":
        tale.story.client_ended(altered(producing(1)))
    elif end == "broker_ended":
        tale.story.client(b"")
        tale.story.connection.dropped()
    else:
        tale.story.connection.dropped()
    assert not tale.engine.intercepted


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        ({}, '"do" is one of forward, drop, error, disconnect, duplicate'),
        ({"do": "fly"}, "not 'fly'"),
        ({"do": ["drop"]}, '"do" is one of'),
        ({"do": "drop", "body": {}}, "drop has no member 'body'"),
        ({"do": "disconnect", "reset": "yes"}, '"reset" is true or false'),
        ({"do": "duplicate"}, "a request cannot be sent twice by a decision"),
        ({"do": "error"}, '"code" is the name or number of an error'),
        ({"do": "error", "code": "NO_SUCH"}, "not 'NO_SUCH'"),
        ({"do": "error", "code": True}, "not True"),
        ({"do": "error", "code": 0}, "not 0"),
        ({"do": "forward", "body": 5}, "write a JSON object"),
        ({"do": "forward", "body": {"nosuch": 5}}, "no field nosuch"),
        ({"do": "forward", "body": {"acks": "all"}}, "not a valid int16 for acks"),
        ({"do": "forward", "body": {"acks": 1 << 20}}, "acks"),
        ({"do": "forward", "body": {"topicData": [5]}}, "has fields"),
        ({"do": "forward", "body": {"topicData": None}}, "topicData"),
    ],
)
def test_a_wrong_decision_is_refused_and_the_frame_waits_on(decision: dict[str, Any], why: str) -> None:
    tale = Tale(RULE)
    tale.story.client(producing(1))
    with pytest.raises(DecisionError) as caught:
        decide(tale, **decision)
    assert why in str(caught.value)
    decide(tale, do="forward").story.later(0, altered(producing(1)))


def test_a_frame_that_cannot_be_read_can_be_let_go_but_not_edited() -> None:
    tale = Tale("look: api == Heartbeat => intercept")
    frame = request(HEARTBEAT, 4, 1, b"\xff" * 30)
    assert decode_request(frame, DEFINITIONS).problems
    tale.story.client(frame)
    assert shown(tale)["api"] == "Heartbeat"
    with pytest.raises(DecisionError, match="cannot be decoded"):
        decide(tale, do="forward", body={})
    decide(tale, do="forward").story.later(0, altered(frame))
