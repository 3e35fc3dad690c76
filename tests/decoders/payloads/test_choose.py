"""Which viewer is chosen and why, and what is shown if it fails."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import cbor2
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.batches.compiled import text_or_base64
from kproxy.decoders.payloads.choose import Chooser, Rule, Shown
from kproxy.decoders.payloads.jsonschema import JsonSchemaViewer
from kproxy.decoders.payloads.jsonvalue import DEPTH, NotJsonError, json_value
from kproxy.decoders.payloads.schemas import NONE, IdKind, Missing, Schema, Schemas
from kproxy.decoders.payloads.viewer import Content, Payload
from tests.decoders.payloads.support import VIEWERS, Given, avro, json_schema

ORDER = avro({"type": "record", "name": "O", "fields": [{"name": "n", "type": "long"}]}, number=42)
KNOWN = Given({(IdKind.ID, 42): ORDER}, {"orders-key": avro("string")})
FRAMED = b"\0\0\0\0\x2a\x0e"
UNKNOWN = b"\0\0\0\0\x2b\x0e"


def show(data: bytes, *rules: str, topic: str | None = "orders", part: str = "value", schemas: Schemas = KNOWN) -> Any:
    return Chooser(VIEWERS, [Rule.parse(rule) for rule in rules], schemas).show(topic, part, data, ())


def look(data: bytes, part: str = "value") -> Shown:
    return Chooser(VIEWERS, (), KNOWN).look("orders", part, data)


def test_the_form_of_a_payload_that_a_schema_reads() -> None:
    assert show(FRAMED) == {
        "base64": "AAAAACoO", "format": "avro", "schemaId": 42, "reason": "schema id 42, test", "decoded": {"n": 7},
    }  # fmt: skip
    chosen = show(FRAMED, "orders=avro")
    assert chosen == {"base64": "AAAAACoO", "format": "avro", "schemaId": 42, "decoded": {"n": 7}}
    assert show(FRAMED, topic=None)["decoded"] == {"n": 7}


@pytest.mark.parametrize(
    ("data", "viewer", "value"),
    [
        (b"plain \xc3\xa4", "text", "plain ä"),
        (b"", "text", ""),
        (b' {"a": [1, null]}', "json", {"a": [1, None]}),
        (b"[1]", "json", [1]),
        (b"{no", "text", "{no"),
        (b"12", "text", "12"),
        (msgpack.packb({"a": b"\xff", "b": 1 << 63}), "msgpack", {"a": {"base64": "/w=="}, "b": 1 << 63}),
        (cbor2.dumps({"a": [Decimal("1.5"), 1 << 70]}), "cbor", {"a": [{"tag": 4, "value": [-1, 15]}, 1 << 70]}),
        (b"\xd9\xd9\xf7\x01", "cbor", 1),
        (b"\xff\xff\xff\xff\xff\xff\xff\xfe", "integer", -2),
        (b"\x00\x00\x00\x07", "integer", 7),
        (b"\x81\xff", "hex", "81ff"),
        (FRAMED, "avro", {"n": 7}),
    ],
)
def test_automatic_viewers(data: bytes, viewer: str, value: Any) -> None:
    shown = look(data)
    assert (shown.viewer, shown.value, shown.error) == (viewer, value, None)
    assert shown.reason
    assert shown.automatic


@given(st.binary(max_size=50))
def test_text_and_bytes_look_as_without_viewers(data: bytes) -> None:
    shown = look(data)
    if shown.viewer in {"text", "hex"} and shown.error is None:
        assert shown.to_json(data) == text_or_base64(data)
    if isinstance(text_or_base64(data), str) and not data.lstrip().startswith((b"{", b"[")):
        assert shown.viewer == "text"


def test_a_schema_that_is_not_there_is_said() -> None:
    assert show(UNKNOWN) == {"base64": "AAAAACsO", "error": "schema 43 not found (404)"}
    chosen = show(UNKNOWN, "orders=avro")
    assert chosen == {"base64": "AAAAACsO", "format": "avro", "error": "avro: schema 43 not found (404)"}
    guessed = look(b"\0\0\0\x01\x8b\xcf\xe5\x68")
    assert (guessed.viewer, guessed.value) == ("integer", 0x18BCFE568)
    assert guessed.reason == "8 bytes, an int64; schema 395 not found (404)"


def test_text_stays_readable_without_its_schema() -> None:
    header = (b"__value_schema_id", b"\x01" + bytes(16))
    assert Chooser(VIEWERS, (), KNOWN).show("t", "value", b"abc", [header]) == {
        "base64": "YWJj",
        "format": "text",
        "reason": "UTF-8 without control characters",
        "error": "schema 00000000-0000-0000-0000-000000000000 not found (404)",
        "decoded": "abc",
    }


def test_bytes_that_the_schema_does_not_read() -> None:
    shown = look(FRAMED + b"x")
    assert (shown.viewer, shown.error, shown.failed) == ("avro", "avro: 1 byte after the value", True)
    assert "decoded" not in shown.to_json(FRAMED + b"x")


def test_a_topic_s_schema_reads_what_names_none() -> None:
    shown = look(b"\x02a", "key")
    assert (shown.viewer, shown.value, shown.reason) == ("avro", "a", "test")
    # a reference to a missing schema, with framing and without
    assert show(b"\0\0\0\0\x2b\x02a", part="key")["decoded"] == "a"
    assert show(b"\x02\x00", part="key")["decoded"] == "\0"


def test_header_values_have_no_schema() -> None:
    assert look(FRAMED, "header").viewer == "hex"
    assert look(b'{"a":1}', "header").viewer == "json"


@pytest.mark.parametrize(
    ("rules", "topic", "part", "viewer"),
    [
        (["orders=hex"], "orders", "value", "hex"),
        (["orders=hex"], "orders", "key", "hex"),
        (["orders=hex"], "orders", "header", None),
        (["orders=hex"], "other", "value", None),
        (["orders=hex"], None, "value", None),
        (["*=hex"], None, "value", "hex"),
        (["orders.key=hex"], "orders", "value", None),
        (["orders.header=hex"], "orders", "header", "hex"),
        (["*=hex", "orders.*=json"], "orders.eu", "value", "json"),
        (["orders.*=json", "*=hex"], "orders.eu", "value", "hex"),
        (["orders.value.value=json"], "orders.value", "value", "json"),
        (["a=b=json"], "a=b", "value", "json"),
    ],
)
def test_rules(rules: list[str], topic: str | None, part: str, viewer: str | None) -> None:
    assert Chooser(VIEWERS, [Rule.parse(rule) for rule in rules]).rule(topic, part) == viewer


@pytest.mark.parametrize("text", ["orders", "=json", "orders=", ""])
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match="is not TOPIC"):
        Rule.parse(text)


def test_a_rule_for_a_viewer_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no viewer 'xml': there are avro, cbor"):
        Chooser(VIEWERS, [Rule.parse("orders=xml")])


class Broken:
    name = "broken"
    title = "Broken"
    priority = 5000
    plain = False

    def __init__(self, *, guesses: bool) -> None:
        self._guesses = guesses

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        del payload, schemas
        if not self._guesses:
            raise RuntimeError
        return "always"

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        del payload, schemas
        raise ZeroDivisionError("by zero")


def test_a_viewer_that_raises_is_named_and_harms_nobody() -> None:
    chooser = Chooser([*VIEWERS, Broken(guesses=True)])
    assert chooser.show("t", "value", b"x", ())["error"] == "broken: ZeroDivisionError: by zero"
    assert Chooser([*VIEWERS, Broken(guesses=False)]).show("t", "value", b"x", ()) == "x"
    assert Chooser([]).show("t", "value", b"\xff", ()) == {"base64": "/w==", "error": "no viewer is installed"}


# --- JSON Schema -----------------------------------------------------------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}, "home": {"$ref": "home.json"}},
    "patternProperties": {"^(x+)+$": {"type": "string"}},
    "additionalProperties": False,
}


def checked(schema: Schema, data: bytes) -> Shown:
    schemas = Given(names={"people-value": schema})
    return Chooser(VIEWERS, (), schemas).look("people", "value", data)


def test_a_document_that_breaks_its_schema_is_shown_with_the_place() -> None:
    schema = json_schema(PERSON, **{"home.json": {"properties": {"town": {"type": "string"}}}})
    assert checked(schema, b'{"name": "b", "home": {"town": "Ulm"}, "y": 1}').error is None
    wrong = checked(schema, b'{"home": {"town": 7}}')
    assert (wrong.value, wrong.failed) == ({"home": {"town": 7}}, False)
    assert wrong.error == "jsonschema: $.home.town: 7 is not of type 'string'"
    assert wrong.to_json(b"{}")["decoded"] == {"home": {"town": 7}}


def test_without_the_library_a_document_is_shown_and_said_to_be_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.decoders.payloads.jsonschema.is_installed", lambda: False)
    shown = checked(json_schema(PERSON), b'{"name": 7}')
    assert shown.value == {"name": 7}
    assert shown.error == "jsonschema: not checked against the schema: pip install 'kafka-kproxy[schemas]'"
    assert JsonSchemaViewer().problem(json_schema({"type": 7})) is None


def test_expressions_are_not_tried() -> None:
    hostile = json.dumps({"name": "a" * 60 + "!", "x" * 60 + "!": 1}).encode()
    assert checked(json_schema(PERSON), hostile).error is None


@pytest.mark.system
def test_the_steps_of_a_check_are_counted() -> None:
    """The number of references doubles at each level; all pairs of elements must be compared."""
    doubling: dict[str, Any] = {f"d{i}": {"allOf": [{"$ref": f"#/definitions/d{i + 1}"}] * 10} for i in range(12)}
    hostile = {"$ref": "#/definitions/d0", "definitions": doubling | {"d12": {"type": "object"}}}
    assert "not checked to the end" in str(checked(json_schema(hostile), b'{"a": 1}').error)
    different = json.dumps({"a": [{"n": n} for n in range(50_000)]}).encode()
    unique = json_schema({"properties": {"a": {"uniqueItems": True}}})
    assert "not checked to the end" in str(checked(unique, different).error)
    assert "non-unique" in str(checked(unique, b'{"a": [1, 2, 1]}').error)
    assert checked(unique, b'{"a": [1, 2, 3]}').error is None


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"$ref": "http://127.0.0.1:1/no.json"}, "cannot be followed"),
        ({"$ref": "#"}, "cannot be followed"),
        ({"type": "nothing"}, "a bad schema"),
    ],
)
def test_a_schema_that_leads_nowhere(schema: Any, complaint: str) -> None:
    shown = checked(json_schema(schema), b'{"a": 1}')
    assert shown.value == {"a": 1}
    assert complaint in (shown.error or "")


# --- values and hostile bytes ----------------------------------------------------------------------------------------


def test_values_that_json_lacks() -> None:
    assert json_value({1: float("nan"), None: float("-inf"), b"k": 1}) == {
        "1": "NaN", "null": "-Infinity", '{"base64": "aw=="}': 1,
    }  # fmt: skip
    assert json_value({1: "a", "1": "b"}) == [{"key": "1", "value": "a"}, {"key": "1", "value": "b"}]
    assert json_value(1 << 5000) == hex(1 << 5000)
    assert json_value("\ud800") == "?"
    deep: Any = []
    for _ in range(DEPTH):
        deep = [deep]
    assert json_value(deep) == deep
    with pytest.raises(NotJsonError):
        json_value([deep])
    with pytest.raises(NotJsonError):
        json_value([[0] * 1000] * 1001)


HOSTILE = [
    b"\xdd\x00\x10\x00\x00" * 1000 + bytes(1 << 20),  # MessagePack: nested arrays of a million items
    b"\xdf\xff\xff\xff\xff",
    b"\x91" * 100_000,
    b"\xc7\x0c\xff" + b"\xff" * 12,  # a time out of range
    b"\x9b\x7f" + b"\xff" * 7,  # CBOR: an array of 2^63 - 1 items
    b"\x9a\x00\xff\xff\xff" * 1000,
    b"\x81" * 100_000,
    b"\xd8\x1c\x81\xd8\x1d\x00",  # a list that contains itself
    b"\xc5\x82\x1b\x7f" + b"\xff" * 7 + b"\x01",  # a bigfloat of 2^(2^63)
    b"\xd8\x23\x65(a+)+",
    b"\xc2\x5a\x00\x00\x40\x00" + b"\xff" * 16384,
    b"[" * 100_000,
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b"[" + b"9" * 100_000 + b"]",
    b"[1e999999, NaN]",
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(data[:12]))
def test_hostile_bytes_end_in_every_viewer(data: bytes) -> None:
    chooser = Chooser(VIEWERS, (), KNOWN)
    for viewer in (None, *(one.name for one in VIEWERS)):
        json.dumps(chooser.look("orders", "value", data, viewer=viewer).to_json(data))


SOME = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(0, 9), inner, max_size=4),
    max_leaves=10,
)
BYTES = st.binary(max_size=80) | st.one_of(
    SOME.map(msgpack.packb), SOME.map(cbor2.dumps), st.binary().map(lambda data: b"\0\0\0\0\x2a" + data)
)


@given(
    BYTES, st.sampled_from([None, *(viewer.name for viewer in VIEWERS)]), st.sampled_from(["key", "value", "header"])
)
def test_any_bytes_in_any_viewer_have_a_json_form(data: bytes, viewer: str | None, part: str) -> None:
    shown = Chooser(VIEWERS, (), KNOWN).look("orders", part, data, [(b"__value_schema_id", data)], viewer)
    json.dumps(shown.to_json(data), allow_nan=False).encode()
    assert shown.error is not None or not shown.failed


@given(SOME)
def test_packed_values_come_back(value: Any) -> None:
    chooser = Chooser(VIEWERS)
    for viewer, pack in (("msgpack", msgpack.packb), ("cbor", cbor2.dumps)):
        shown = chooser.look("t", "value", pack(value), viewer=viewer)
        assert json.dumps(shown.value) == json.dumps(json_value(value))


def test_without_schemas_the_options_that_give_them_are_named() -> None:
    for found in (NONE.by_id(IdKind.ID, 42), NONE.by_name("orders", "value")):
        assert isinstance(found, Missing)
        assert "neither --schemas nor --registry is given" in found.reason
