"""Answers with errors, for every API and version: our decoder reads them to the last byte, with the code in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.decoders.errorcodes import error_codes
from kproxy.decoders.message import Decoded
from kproxy.decoders.schema.layout import Layout, Shape, Slot, layout
from kproxy.faults.rule import At
from kproxy.faults.synthesis import Fault, NoPlaceError, answer, carries, frame, places, stamped
from tests.kproxy.core.frames import DEFINITIONS
from tests.kproxy.faults.support import answered, asked, asking

SOME = 41
"""NOT_CONTROLLER"""


def sample(layout: Layout) -> dict[str, Any]:
    """Values with one element in every list."""
    found: dict[str, Any] = {}
    for slot in layout.slots:
        if slot.shape is Shape.ARRAY:
            found[slot.name] = [sample(slot.layout) if slot.layout is not None else _one(slot.one)]
        else:
            found[slot.name] = sample(slot.struct) if slot.shape is Shape.STRUCT else _one(slot)
    return found


def _one(slot: Slot) -> Any:
    kinds: dict[str, Any] = {"string": f"a-{slot.name}", "bool": False, "uuid": b"\1" * 16, "bytes": b"x"}
    return kinds.get(slot.type, b"" if slot.type == "records" else 1.0 if slot.type == "float64" else 1)


def requests(*, empty: bool = False) -> Iterator[tuple[int, int, Decoded]]:
    """(API key, version, request) of every API and version."""
    for api_key, version in DEFINITIONS.pairs():
        message = DEFINITIONS.request(api_key, version)
        assert message is not None
        yield api_key, version, asked(asking(api_key, version, 7, {} if empty else sample(layout(message, version))))


def fault(code: int = SOME, *at: At) -> Fault:
    return Fault(code, at, lambda _: None)


@pytest.mark.parametrize("empty", [False, True])
def test_an_answer_of_every_version_reads_back_with_its_code(empty: bool) -> None:
    count = 0
    for api_key, version, request in requests(empty=empty):
        made = answer(request, api_key, version, fault(), DEFINITIONS)
        given = answered(frame(api_key, version, 7, made, DEFINITIONS), api_key, version)
        assert given.header == {"correlationId": 7}, (api_key, version)
        assert given.body is not None
        assert given.message is not None
        assert error_codes(given.body, given.message, given.version) == [SOME], (api_key, version)
        count += 1
    assert count > 300


def test_every_version_of_every_response_carries_a_code() -> None:
    for key, version in DEFINITIONS.pairs():
        message = DEFINITIONS.response(key, version)
        assert message is not None
        assert carries(message, version), message.name
    fetch = DEFINITIONS.response(1, 12)
    assert fetch is not None
    assert places(fetch, 12) == ["errorCode", "responses[].partitions[].errorCode"]


def test_a_stamped_answer_of_every_version_reads_back() -> None:
    for api_key, version in DEFINITIONS.pairs():
        message = DEFINITIONS.response(api_key, version)
        assert message is not None
        new = stamped(message, version, sample(layout(message, version)), api_key, fault())
        given = answered(frame(api_key, version, 7, (message, version, new), DEFINITIONS), api_key, version)
        assert given.body is not None
        assert SOME in error_codes(given.body, message, version), (api_key, version)


def body(api_key: int, version: int, values: dict[str, Any], *at: At, code: int = SOME) -> dict[str, Any]:
    return answer(asked(asking(api_key, version, 7, values)), api_key, version, fault(code, *at), DEFINITIONS)[2]


def test_elements_mirror_what_the_request_names() -> None:
    topics = [{"name": "t", "partitionIndexes": [3, 4]}]
    found = body(9, 1, {"groupId": "g", "topics": topics})["topics"]
    assert [(one["name"], [each["partitionIndex"] for each in one["partitions"]]) for one in found] == [("t", [3, 4])]
    assert found[0]["partitions"][0]["committedOffset"] == -1
    (group,) = body(15, 5, {"groups": ["g"]})["groups"]
    assert (group["groupId"], group["errorCode"]) == ("g", SOME)
    (coordinator,) = body(10, 4, {"keyType": 0, "coordinatorKeys": ["g"]})["coordinators"]
    assert (coordinator["key"], coordinator["nodeId"], coordinator["port"]) == ("g", -1, -1)
    (user,) = body(50, 0, {"users": [{"name": "u"}]})["results"]
    assert user["user"] == "u"
    (entry,) = body(49, 1, {"entries": [{"entity": [{"entityType": "user", "entityName": "u"}], "ops": []}]})["entries"]
    assert entry["entity"] == [{"entityType": "user", "entityName": "u"}]
    marker = {"producerId": 5, "producerEpoch": 0, "topics": [{"name": "t", "partitionIndexes": [1]}]}
    assert body(27, 1, {"markers": [marker]})["markers"][0]["producerId"] == 5


def test_elements_mirror_the_request_by_place_or_from_one_array_deeper() -> None:
    one = {"resourceType": 2, "resourceName": "t", "principal": "p", "host": "*", "operation": 3, "permissionType": 3}
    assert body(30, 3, {"creations": [one, one]})["results"] == [{"errorCode": SOME, "errorMessage": None}] * 2
    (found,) = body(31, 3, {"filters": [{}]})["filterResults"]
    assert (found["errorCode"], found["matchingAcls"]) == (SOME, [])
    topics = [{"name": "t", "partitions": [3, 4]}]
    dirs = [{"path": "/a", "topics": topics}, {"path": "/b", "topics": [{"name": "u", "partitions": [5]}]}]
    made = body(34, 2, {"dirs": dirs})["results"]
    assert [(one["topicName"], [each["partitionIndex"] for each in one["partitions"]]) for one in made] == [
        ("t", [3, 4]),
        ("u", [5]),
    ]


def test_errors_of_partitions_do_not_stand_where_fetch_has_those_of_its_session() -> None:
    topics = [{"topic": "t", "partitions": [{"partition": 1}]}]
    found = body(1, 11, {"topics": topics}, code=6)
    assert "errorCode" not in found
    assert found["responses"][0]["partitions"][0]["errorCode"] == 6
    assert found["responses"][0]["partitions"][0]["highWatermark"] == -1
    assert found["responses"][0]["partitions"][0]["records"] == b""
    found = body(1, 11, {"topics": topics}, code=70)
    assert (found["errorCode"], found.get("responses", [])) == (70, [])
    assert body(1, 11, {"topics": []}, code=6)["errorCode"] == 6


def test_a_condition_binds_at_the_depth_that_has_its_fields() -> None:
    topics = [{"name": name, "partitions": [{"partitionIndex": 1}, {"partitionIndex": 2}]} for name in "ab"]
    one = body(8, 7, {"groupId": "g", "topics": topics}, At("topic", "b"), At("partition", "2"))
    assert [(each["name"], [p["partitionIndex"] for p in each["partitions"]]) for each in one["topics"]] == [("b", [2])]
    whole = body(8, 7, {"groupId": "g", "topics": topics}, At("topic", "b"))
    assert [len(each["partitions"]) for each in whole["topics"]] == [2]
    with pytest.raises(NoPlaceError, match="no such element"):
        body(8, 7, {"groupId": "g", "topics": topics}, At("topic", "c"))


def test_an_unsupported_version_is_answered_in_version_0() -> None:
    request = asked(asking(18, 4, 7, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}))
    made = answer(request, 18, 4, fault(35), DEFINITIONS)
    assert made[1] == 0
    assert answered(frame(18, 4, 7, made, DEFINITIONS), 18, 4).version == 0
