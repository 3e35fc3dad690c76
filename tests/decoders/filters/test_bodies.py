"""Fields of bodies: what their values are, and what stands below them."""

from __future__ import annotations

import pytest

from kproxy.decoders.body_path import Path, Step, read_step
from kproxy.decoders.fields import Cost, Type
from kproxy.decoders.filters import bodies
from kproxy.decoders.filters.bodies import BadPath, listed, members, read

PRODUCED = "request.body.topicData[].partitionData[].records.batches[]"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("request.body", Type.STRUCT), ("response.body.topics", Type.STRUCT), ("response.body.topics[]", Type.STRUCT),
        ("response.body.topics[].errorCode", Type.ERROR), ("response.body.topics[].isInternal", Type.FLAG),
        ("response.body.topics[].name", Type.TEXT), ("response.body.topics[].topicId", Type.TEXT),
        ("response.body.throttleTimeMs", Type.DURATION), ("request.body.maxBytes", Type.SIZE),
        ("request.body.sessionEpoch", Type.NUMBER), ("response.body.apiKeys[].apiKey", Type.API),
        ("request.body.topics[].partitions[].timestamp", Type.TIME), ("request.body.acks", Type.NUMBER),
        ("response.body.transactionStates[].transactionStartTimeMs", Type.TIME), ("response.body.token", Type.TEXT),
        ("request.body.protocols[].metadata", Type.TEXT), ("request.body.protocols[].metadata.base64", Type.TEXT),
        ("request.body.protocols[].metadata.decoded", Type.ANY),
        ("request.body.protocols[].metadata.decoded.any.thing[3]", Type.ANY),
        ("request.body.topicData[].partitionData[].records", Type.STRUCT), (PRODUCED, Type.STRUCT),
        (f"{PRODUCED}.crcValid", Type.FLAG), (f"{PRODUCED}.compression", Type.TEXT), (f"{PRODUCED}.magic", Type.NUMBER),
        (f"{PRODUCED}.sizeInBytes", Type.SIZE), (f"{PRODUCED}.baseTimestamp", Type.TIME),
        (f"{PRODUCED}.records[].offset", Type.NUMBER), (f"{PRODUCED}.records[].key", Type.TEXT),
        (f"{PRODUCED}.records[].key.base64", Type.TEXT), (f"{PRODUCED}.records[].value.decoded.x", Type.ANY),
        (f"{PRODUCED}.records[].headers[].value", Type.TEXT),
    ],
)  # fmt: skip
def test_types(name: str, kind: Type) -> None:
    field = read(name)
    assert field.type is kind
    assert (field.name, field.cost, field.attributes) == (name, Cost.DECODE, ("at",))
    assert field.many == ("[]" in name)
    assert field.scale == (1_000_000 if kind in {Type.DURATION, Type.TIME} else 1)
    assert field.path is not None
    assert field.path.root == name.partition(".")[0]
    assert ".".join([field.path.root, "body", *map(str, field.path.steps)]) == name


@pytest.mark.parametrize(
    ("path", "message", "bad", "partial"),
    [
        ("response.body.topicz", "did you mean topics?", "topicz", False),
        ("response.body.topi", "no message has 'topi' in response.body", "topi", True),
        ("response.body.topi.x", "no message has 'topi' in response.body", "topi", False),
        ("response.body.throttleTimeMs[]", "throttleTimeMs is not a list; leave out []", "throttleTimeMs[]", False),
        ("response.body.throttleTimeMs[12]", "leave out [12]", "throttleTimeMs[12]", False),
        ("response.body.throttleTimeMs.x", "response.body.throttleTimeMs has no fields of its own", "x", False),
        (
            "response.body.apiKeys.apiKey",
            "apiKeys is a list; write apiKeys[] for all of it or apiKeys[0]",
            "apiKeys",
            False,
        ),
        ("response.body.", "a field's name is missing after the dot", "", True),
        ("response.body..x", "a field's name is missing after the dot", "", False),
        ("response.body.topics[", "this [ is not closed", "topics[", True),
        ("response.body.topics[x]", "'topics[x]' is not a field's name", "topics[x]", False),
        ("response.body.topics[x.y", "this [ is not closed", "topics[x", False),
        ("response.body.to-pics!", "'to-pics!' is not a field's name", "to-pics!", True),
    ],
)
def test_what_is_wrong_with_a_path(path: str, message: str, bad: str, partial: bool) -> None:
    with pytest.raises(BadPath) as error:
        read(path)
    assert message in error.value.message
    assert path[error.value.start : error.value.end] == bad
    assert error.value.partial == partial


def test_what_could_stand_in_its_place() -> None:
    with pytest.raises(BadPath) as error:
        read("response.body.topics[].errorC")
    assert error.value.near == ("response.body.topics[].errorCode",)
    with pytest.raises(BadPath) as error:
        read("response.body.apiKeys.apiKey")
    assert error.value.near == ("response.body.apiKeys[]",)
    with pytest.raises(BadPath) as error:
        read("response.body.controllerId.x")
    assert error.value.near == ()


def test_members() -> None:
    found = dict(members("response.body.apiKeys[]"))
    assert found == {
        "response.body.apiKeys[].apiKey": Type.API,
        "response.body.apiKeys[].maxVersion": Type.NUMBER,
        "response.body.apiKeys[].minVersion": Type.NUMBER,
    }
    assert dict(members("request.body"))["request.body.topicData[]"] is Type.STRUCT
    assert list(members("request.body.acks")) == list(members("request.body.nothing.x")) == list(members("x")) == []
    assert [listed(name) for name in ("response.body.topics", "response.body.controllerId", "request.body", "x")] == [
        True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "step"),
    [("a", Step("a")), ("a[]", Step("a", each=True)), ("a-b_9[12]", Step("a-b_9", index=12)),
     ("a[0]", Step("a", index=0)), ("9a", None), ("a[", None), ("a[1", None), ("a[-1]", None),
     ("a[1234567890]", None), ("a[]b", None), ("", None)],
)  # fmt: skip
def test_steps(text: str, step: Step | None) -> None:
    assert read_step(text) == step
    assert step is None or str(step) == text


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ((), [{"a": [{"b": 1}, {"b": None}, {"b": 2}, 7], "c": {"d": 0}, "e": []}]),
        ((Step("a", each=True), Step("b")), [1, 2]),
        ((Step("a", index=2), Step("b")), [2]),
        ((Step("a", index=4),), []),
        ((Step("a", index=3),), [7]),
        ((Step("c"), Step("d")), [0]),
        ((Step("c", each=True),), []),
        ((Step("c", index=0),), []),
        ((Step("c"), Step("d"), Step("x")), []),
        ((Step("e"),), [[]]),
        ((Step("e", each=True),), []),
        ((Step("x"),), []),
    ],
)
def test_what_a_path_finds(steps: tuple[Step, ...], found: list[object]) -> None:
    body = {"a": [{"b": 1}, {"b": None}, {"b": 2}, 7], "c": {"d": 0}, "e": []}
    assert list(Path("request", steps).find(body)) == found


def test_what_a_path_needs() -> None:
    def needs(*names: str) -> tuple[bool, bool]:
        path = Path("request", tuple(map(Step, names)))
        return path.opens, path.inside

    assert needs("records", "batches") == (False, False)
    assert needs("records", "batches", "records") == (True, False)
    assert needs("batches", "x", "records", "decoded") == (True, True)
    assert bodies.is_path("request.body")
    assert bodies.is_path("request.body.x")
    assert not bodies.is_path("request.bodyx")


@pytest.mark.parametrize("path", ["response.body.apiKeys[].zzzzz", "response.body.topics[].zzzzz"])
def test_the_place_of_an_error_is_found_behind_names_of_any_length(path: str) -> None:
    with pytest.raises(BadPath) as error:
        read(path)
    assert path[error.value.start : error.value.end] == "zzzzz"


def test_what_is_no_body_has_no_members() -> None:
    for name in ("a", "request", "z.body", ""):
        assert list(members(name)) == []
        assert not listed(name)
