from __future__ import annotations

from typing import Any

import pytest

from kproxy.decoders.compiler import decoder
from kproxy.decoders.schema import Field, Struct
from kproxy.decoders.schema.model import ALWAYS
from kproxy.decoders.writer import WriteError, write
from tests.decoders.support import RELEASES, decoded, every_message
from tests.decoders.test_compiler import message


@pytest.mark.parametrize("release", RELEASES)
def test_every_golden_message_is_written_to_the_bytes_that_kafkas_classes_wrote(release: str) -> None:
    for one, read in decoded(release):
        assert read.message is not None
        assert read.body is not None
        assert write(read.message, read.version, read.body) == one.frame[read.body_start :], one


def test_defaults_of_every_message_can_be_written_and_read() -> None:
    for definition, version in every_message():
        data = write(definition, version, {})
        read, end = decoder(definition, version)(data, 0, len(data))
        assert end == len(data)
        assert write(definition, version, read) == data


def test_defaults_are_the_definitions() -> None:
    definition = message(
        Field("a", "int32", default="-1"),
        Field("b", "bool", default="true"),
        Field("c", "string", nullable=ALWAYS, default="null"),
        Field("d", "int64", default="0x7fffffffffffffff"),
        Field("e", "string", default="x"),
    )
    assert write(definition, 0, {}) == bytes.fromhex("ffffffff 01 ffff 7fffffffffffffff 0001 78")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Field("a", "int8"), 128),
        (Field("a", "int16"), -32769),
        (Field("a", "uint16"), -1),
        (Field("a", "uint32"), 2**32),
        (Field("a", "int64"), 2**63),
        (Field("a", "int32"), "1"),
        (Field("a", "int32"), None),
        (Field("a", "float64"), "x"),
        (Field("a", "uuid"), b"short"),
        (Field("a", "string"), None),
        (Field("a", "string"), 5),
        (Field("a", "string"), "\ud800"),
        (Field("a", "string"), "x" * 32768),
        (Field("a", "bytes"), None),
        (Field("a", "bytes"), "text"),
        (Field("a", "int8", array=True), None),
        (Field("a", "int8", array=True), [1, 300]),
        (Field("a", "S", struct=Struct("S", ALWAYS, ())), None),
        (Field("a", "S", struct=Struct("S", ALWAYS, ())), {"strange": 1}),
    ],
)
def test_values_that_do_not_fit_name_their_field(field: Field, value: Any) -> None:
    with pytest.raises(WriteError) as caught:
        write(message(field), 0, {"a": value})
    assert caught.value.path.startswith("a")


@pytest.mark.parametrize("text", ["x" * 32_767, "\u00e9" * 16_383 + "x"])
def test_the_longest_text_is_written(text: str) -> None:
    """The length of a string is an int16 that counts bytes of UTF-8."""
    assert write(message(Field("a", "string")), 0, {"a": text}) == b"\x7f\xff" + text.encode()


def test_a_name_that_the_version_does_not_have_is_refused() -> None:
    with pytest.raises(WriteError, match="no field strange"):
        write(message(Field("a", "int8")), 0, {"a": 1, "strange": 2})


def test_known_tags_are_written_between_unknown_ones_by_number() -> None:
    definition = message(
        Field("five", "int8", tagged=ALWAYS, tag=5), Field("two", "int8", tagged=ALWAYS, tag=2), flexible=True
    )
    values = {"five": 50, "two": 20, "_unknownTaggedFields": [(1, b"a"), (3, b"b"), (9, b"c")]}
    data = write(definition, 0, values)
    assert data == b"\x05\x01\x01a\x02\x01\x14\x03\x01b\x05\x01\x32\x09\x01c"
    assert decoder(definition, 0)(data, 0, len(data))[0] == values
