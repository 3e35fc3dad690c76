from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.decoders.compiler import decoder, source_of
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.schema import Field, Message, Struct, Versions
from kproxy.decoders.schema.layout import layout
from kproxy.decoders.tree import tree, values
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.decoders.support import RELEASES, decoded, every_message, same, smallest
from tests.support.golden import plain
from tests.support.places_to_cut import Ends, each_end

ALL = Versions(0, 32767)


def message(*fields: Field, flexible: bool = False) -> Message:
    none = Versions(32767, -1)
    return Message("Test", "data", None, Versions(0, 0), ALL if flexible else none, fields, "0.0.0")


@pytest.mark.parametrize("release", RELEASES)
def test_every_golden_message_reads_as_kafkas_classes_read_it(release: str) -> None:
    for one, read in decoded(release):
        assert not read.problems, one
        assert read.message is not None
        body = plain(body_json(read.body or {}, read.message, read.version, View(show_secrets=True)))
        assert body == one.body, one
        assert list(body) == list(one.body), one


@pytest.mark.parametrize("release", RELEASES)
def test_every_golden_message_reads_the_same_from_a_memoryview_amid_other_bytes(release: str) -> None:
    for one, read in decoded(release):
        assert read.message is not None
        body = one.frame[read.body_start :]
        end = 3 + len(body)
        for buffer in (b"\xff\xff\xff" + body + b"\xff\xff", memoryview(b"\x00\x01\x02" + body + b"\x7f")):
            assert decoder(read.message, read.version)(buffer, 3, end) == (read.body, end), one


@each_end
def test_a_message_cut_at_any_byte_is_truncated_and_never_anything_else(ends: Ends) -> None:
    for one, read in smallest("4.4.0"):
        assert read.message is not None
        function = decoder(read.message, read.version)
        for end in ends(read.body_start, len(one.frame)):
            with pytest.raises(DecodeError) as caught:
                function(one.frame, read.body_start, end)
            assert caught.value.code is Code.TRUNCATED, (one, end)
            assert read.body_start <= caught.value.offset <= end
            with pytest.raises(DecodeError) as cut:
                function(one.frame[:end], read.body_start, end)
            assert (cut.value.offset, cut.value.path) == (caught.value.offset, caught.value.path)


def test_bytes_after_the_message_are_left() -> None:
    for one, read in smallest("4.4.0"):
        assert read.message is not None
        data = one.frame + b"\x01\x02\x03"
        assert decoder(read.message, read.version)(data, read.body_start, len(data))[1] == len(one.frame)


def test_every_definition_compiles() -> None:
    for definition, version in every_message():
        assert "def decode(" in source_of(definition, version)[0]
        assert decoder(definition, version) is decoder(definition, version)


def check_any(definition: Message, version: int, data: bytes) -> None:
    """Assert what holds for any bytes: values that tree and writer confirm, or one error with its place."""
    noted: list[Problem] = []
    node = tree(definition, version, data, 0, len(data))
    problems = [n.problem for n in node.walk() if n.problem is not None]
    stops = [p for p in problems if p.code is not Code.BAD_UTF8]
    if stops:
        with pytest.raises(DecodeError) as caught:
            decoder(definition, version)(data, 0, len(data))
        assert [caught.value.problem("")] == stops
        assert 0 <= caught.value.offset <= len(data)
        return
    read, end = decoder(definition, version)(data, 0, len(data), noted)
    assert noted == problems
    assert end == node.end
    assert same(values(node, layout(definition, version)), read)
    written = write(definition, version, read)
    again, after = decoder(definition, version)(written, 0, len(written))
    assert after == len(written)
    assert same(again, read)


MESSAGES = st.sampled_from(every_message())


@settings(max_examples=375, deadline=None)
@given(MESSAGES, st.binary(max_size=80))
def test_any_bytes_give_values_or_a_decode_error(which: tuple[Message, int], data: bytes) -> None:
    check_any(*which, data)


SMALL_NUMBERS = st.lists(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 8, 0x41, 0x7F, 0x80, 0xFE, 0xFF]), max_size=80)


@settings(max_examples=375, deadline=None)
@given(MESSAGES, SMALL_NUMBERS)
def test_bytes_that_are_mostly_small_numbers_give_values_or_a_decode_error(
    which: tuple[Message, int], data: list[int]
) -> None:
    check_any(*which, bytes(data))


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_golden_messages_with_bytes_changed_give_values_or_a_decode_error(data: st.DataObject) -> None:
    one, read = data.draw(st.sampled_from(smallest(data.draw(st.sampled_from(RELEASES)))))
    body = bytearray(one.frame[read.body_start :])
    if body:
        for _ in range(data.draw(st.integers(1, 3))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert read.message is not None
    check_any(read.message, read.version, bytes(body))


@pytest.mark.parametrize("count", [4, 100, 2**31 - 1])
@pytest.mark.parametrize("flexible", [False, True])
def test_more_elements_than_bytes_are_refused_before_a_list_is_made(count: int, flexible: bool) -> None:
    empty = Struct("Nothing", ALL, ())
    definition = message(Field("things", "Nothing", array=True, struct=empty), flexible=flexible)
    data = count.to_bytes(4, "big") + b"\x00\x00\x00"
    if flexible:
        data = b"\xff\xff\xff\xff\x07\x00\x00\x00"
    with pytest.raises(DecodeError) as caught:
        decoder(definition, 0)(data, 0, len(data))
    assert caught.value.code is Code.TRUNCATED
    assert caught.value.path == "things"


@pytest.mark.parametrize(
    ("field", "data", "code"),
    [
        (Field("a", "string"), b"\xff\xff", Code.BAD_LENGTH),
        (Field("a", "string", nullable=ALL), b"\xff\xfe", Code.BAD_LENGTH),
        (Field("a", "bytes"), b"\xff\xff\xff\xff", Code.BAD_LENGTH),
        (Field("a", "bytes", nullable=ALL), b"\x80\x00\x00\x00", Code.BAD_LENGTH),
        (Field("a", "int32", array=True), b"\xff\xff\xff\xff", Code.BAD_LENGTH),
        (Field("a", "int32", array=True, nullable=ALL), b"\xff\xff\xff\xfe", Code.BAD_LENGTH),
        (Field("a", "records"), b"\x7f\xff\xff\xff", Code.TRUNCATED),
        (Field("a", "string"), b"\x7f\xff", Code.TRUNCATED),
    ],
)
def test_bad_lengths_are_placed(field: Field, data: bytes, code: Code) -> None:
    with pytest.raises(DecodeError) as caught:
        decoder(message(field), 0)(data + b"abc", 0, len(data) + 3)
    assert (caught.value.code, caught.value.path) == (code, "a")


TAGGED = Field("t", "int16", tagged=ALL, tag=1)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00", {}),
        (b"\x01\x01\x02\x00\x07", {"t": 7}),
        (b"\x01\x05\x01x", {"_unknownTaggedFields": [(5, b"x")]}),
        (b"\x02\x05\x01x\x01\x02\x00\x07", {"t": 7, "_unknownTaggedFields": [(5, b"x")]}),
        (b"\x02\x05\x01x\x05\x00", {"_unknownTaggedFields": [(5, b"x"), (5, b"")]}),
        (b"\x01\x81\x00\x82\x80\x00\x00\x07", {"t": 7}),
        (b"\x01\x80\x02\x01x", {"_unknownTaggedFields": [(256, b"x")]}),
    ],
)
def test_tagged_fields(data: bytes, expected: dict[str, Any]) -> None:
    definition = message(TAGGED, flexible=True)
    assert decoder(definition, 0)(data, 0, len(data)) == (expected, len(data))
    check_any(definition, 0, data)


@pytest.mark.parametrize(
    ("data", "code", "offset", "path"),
    [
        (b"\x02\x01\x02\x00\x07\x01\x02\x00\x08", Code.BAD_LENGTH, 5, "_unknownTaggedFields"),
        (b"\x01\x01\x03\x00\x07\x00", Code.BAD_LENGTH, 3, "t"),
        (b"\x01\x01\x01\x00\x07", Code.TRUNCATED, 3, "t"),
        (b"\x01\x01\x09\x00\x07", Code.TRUNCATED, 3, "t"),
        (b"\x01\x09\x09\x00\x07", Code.TRUNCATED, 3, "_unknownTaggedFields[9]"),
        (b"\x7f\x09\x00", Code.TRUNCATED, 0, "_unknownTaggedFields"),
        (b"\xff\xff\xff\xff\xff\x01", Code.BAD_VARINT, 0, "_unknownTaggedFields"),
    ],
)
def test_tagged_fields_that_do_not_fit(data: bytes, code: Code, offset: int, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decoder(message(TAGGED, flexible=True), 0)(data, 0, len(data))
    assert (caught.value.code, caught.value.offset, caught.value.path) == (code, offset, path)


def test_tagged_fields_stand_where_the_definition_has_them() -> None:
    definition = message(TAGGED, Field("plain", "int8"), flexible=True)
    data = b"\x09\x02\x01\x02\x00\x07\x02\x00"
    assert list(decoder(definition, 0)(data, 0, len(data))[0]) == ["t", "plain", "_unknownTaggedFields"]


def test_text_that_is_not_utf8_is_read_and_reported() -> None:
    definition = message(Field("names", "string", array=True), flexible=True)
    data = b"\x03\x02a\x03\xffb\x00"
    problems: list[Problem] = []
    assert decoder(definition, 0)(data, 0, len(data), problems) == ({"names": ["a", "\ufffdb"]}, len(data))
    assert [(p.code, p.offset, p.path) for p in problems] == [(Code.BAD_UTF8, 4, "names[1]")]
    assert decoder(definition, 0)(memoryview(data), 0, len(data))[0] == {"names": ["a", "\ufffdb"]}


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 31, 32, 33, 200])
@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("type_", ["bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid"])
def test_arrays_of_each_fixed_type_at_every_length_that_is_read_differently(
    type_: str, flexible: bool, count: int
) -> None:
    inner = Struct("Pair", ALL, (Field("x", type_), Field("y", "int8")))
    definition = message(
        Field("a", type_, array=True), Field("pairs", "Pair", array=True, struct=inner), flexible=flexible
    )
    value: Any = {"bool": True, "uuid": bytes(range(16)), "float64": 1.5}.get(type_, 7)
    given_values = {"a": [value] * count, "pairs": [{"x": value, "y": index % 100} for index in range(count)]}
    data = write(definition, 0, given_values)
    assert decoder(definition, 0)(data, 0, len(data)) == (given_values, len(data))
    check_any(definition, 0, data)
    if flexible and count:
        given_values["pairs"][-1]["_unknownTaggedFields"] = [(3, b"z")]
        check_any(definition, 0, write(definition, 0, given_values))
        tagged = write(definition, 0, given_values)
        assert decoder(definition, 0)(tagged, 0, len(tagged))[0] == given_values


def test_bytes_are_slices_of_the_buffer() -> None:
    data = bytearray(b"\x00\x00\x00\x02ab")
    read = decoder(message(Field("a", "bytes")), 0)(memoryview(data), 0, 6)[0]
    data[4:] = b"xy"
    assert read["a"] == b"xy"


def long_message() -> tuple[Message, bytes]:
    inner = Struct("S", ALL, (Field("s", "string"),))
    definition = message(Field("a", "S", array=True, struct=inner), Field("z", "string"))
    return definition, write(definition, 0, {"a": [{"s": "é"}] * 500, "z": "end"})


def test_a_long_message_is_placed_less_exactly_but_never_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.decoders.compiler.PLACING", 100)
    definition, data = long_message()
    function = decoder(definition, 0)
    cases = [
        (data[:-1], Code.TRUNCATED),
        (data[:2004], Code.TRUNCATED),
        (data[:-5] + b"\xff" + data[-4:], Code.BAD_LENGTH),
    ]
    for broken, code in cases:
        with pytest.raises(DecodeError) as caught:
            function(broken, 0, len(broken))
        assert (caught.value.code, caught.value.path) == (code, "")
        assert 2000 <= caught.value.offset <= len(broken)
    text = bytearray(data)
    text[-1] = 0xFF
    problems: list[Problem] = []
    assert function(bytes(text), 0, len(text), problems)[0]["z"] == "en\ufffd"
    assert [(p.code, p.offset) for p in problems] == [(Code.BAD_UTF8, len(text))]


def test_a_tree_ends_at_its_limit() -> None:
    definition, data = long_message()
    node = tree(definition, 0, data, 0, len(data), limit=100)
    assert sum(1 for _ in node.walk()) == 101
    assert [one.path for one in node.walk() if one.more] == ["a[49]"]
    assert node.end < len(data)
    assert not any(one.more for one in tree(definition, 0, data, 0, len(data)).walk())
