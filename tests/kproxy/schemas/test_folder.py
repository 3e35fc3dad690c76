"""Schemas out of files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kproxy.decoders.batches.record import Header
from kproxy.decoders.payloads.choose import Chooser, Shown
from kproxy.decoders.payloads.schemas import IdKind, Missing, Schema
from kproxy.schemas import folder
from kproxy.schemas.folder import load
from tests.decoders.payloads.support import VIEWERS
from tests.support.proto import classes, compiled

GUID = "00000000-0000-0000-0000-0000000000ab"
POINT = {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "long"}]}
PROTO = """
    syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
    message First { int32 n = 1; } message Order { google.protobuf.Timestamp at = 1; }
"""


def look(path: Path, topic: str, data: bytes, part: str = "value", headers: Sequence[Header] = ()) -> Shown:
    return Chooser(VIEWERS, (), load(path)).look(topic, part, data, headers)


def test_names_say_what_a_file_is_for(tmp_path: Path) -> None:
    (tmp_path / "geo.Point.avsc").write_text(json.dumps(POINT))
    (tmp_path / "a.b-value.avsc").write_text('"geo.Point"')
    (tmp_path / "a.b-key.avsc").write_text('"string"')
    (tmp_path / "42.avsc").write_text('{"type": "array", "items": "geo.Point"}')
    (tmp_path / f"{GUID.upper()}.avsc").write_text('"int"')
    (tmp_path / "people-value.json").write_text('{"properties": {"home": {"$ref": "home.json"}}}')
    (tmp_path / "home.json").write_text('{"type": "string"}')
    (tmp_path / "readme.txt").write_text("no schema")
    loaded = load(tmp_path)
    assert not loaded.warnings
    assert look(tmp_path, "a.b", b"\x0e").value == {"x": 7}
    assert look(tmp_path, "a.b", b"\x0e").reason == "a.b-value.avsc"
    assert look(tmp_path, "a.b", b"\x02k", "key").value == "k"
    assert look(tmp_path, "other", b"\0\0\0\0\x2a\x02\x0e\0").value == [{"x": 7}]
    header = (b"__value_schema_id", b"\x01" + bytes(15) + b"\xab")
    assert look(tmp_path, "other", b"\x0e", headers=[header]).value == 7
    assert look(tmp_path, "people", b'{"home": 1}').error == "jsonschema: $.home: 1 is not of type 'string'"


def test_descriptor_sets(tmp_path: Path) -> None:
    descriptors = compiled(tmp_path, {"shop.proto": PROTO})
    (tmp_path / "out.desc").unlink()
    (tmp_path / "orders-value.shop.Order.desc").write_bytes(descriptors)
    (tmp_path / "first-value.pb").write_bytes(descriptors)
    (tmp_path / "7.desc").write_bytes(descriptors)
    order = classes(descriptors, "shop.Order")[0]()
    order.at.seconds = 1
    data = order.SerializeToString()
    assert look(tmp_path, "orders", data).value == {"at": "1970-01-01T00:00:01Z"}
    assert look(tmp_path, "orders", data).viewer == "protobuf"
    assert look(tmp_path, "first", b"\x08\x05").value == {"n": 5}
    assert look(tmp_path, "other", b"\0\0\0\0\x07\x02\x02" + data).value == {"at": "1970-01-01T00:00:01Z"}
    assert not load(tmp_path).warnings


@pytest.mark.parametrize(
    ("name", "content", "warning"),
    [
        ("a-value.avsc", b"{", "a bad schema"),
        ("a-value.avsc", b'"no.such.Type"', "no.such.Type"),
        ("a-value.json", b'{"type": 7}', "a bad schema"),
        ("a-value.desc", b"\xff\xff", "not a FileDescriptorSet"),
        ("a-value.desc", b"", "a FileDescriptorSet without files"),
        ("a-value.desc", b"\x0a\x02\x0a\x00", ""),
        ("shop.desc", b"", "its name gives neither topic nor id"),
    ],
)
def test_a_bad_file_is_named_and_left_out(tmp_path: Path, name: str, content: bytes, warning: str) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b-value.avsc").write_text('"int"')
    loaded = load(tmp_path)
    if warning:
        (said,) = loaded.warnings
        assert said.startswith(f"{tmp_path / name}: ")
        assert warning in said
        assert isinstance(loaded.by_name("a", "value"), Missing)
    assert isinstance(loaded.by_name("b", "value"), Schema)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert loaded.by_id(IdKind.ID, 42) == Missing(f"schema 42 not found: no 42.avsc in {tmp_path}")
    assert loaded.by_name("a", "key") == Missing(f"no schema: no a-key.avsc in {tmp_path}")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "no")


def test_files_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "LARGEST", 10)
    monkeypatch.setattr(folder, "MOST", 2)
    (tmp_path / "a-value.avsc").write_text('"int"' + " " * 10)
    (tmp_path / "b-value.avsc").mkdir()
    (tmp_path / "c-value.avsc").write_text('"int"')
    first, second, third = load(tmp_path).warnings
    assert first.endswith("a-value.avsc: more than 10 bytes")
    assert "b-value.avsc: " in second
    assert third.endswith("more than 2 files, the rest is not read")
