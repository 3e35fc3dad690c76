"""The registry's client against a registry that is slow, gone, locked, or says odd things."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.decoders.payloads.schemas import IdKind, Missing, Schema, SchemaType
from kproxy.schemas import http as http_module
from kproxy.schemas import registry as registry_module
from kproxy.schemas.cache import DiskCache
from kproxy.schemas.http import Access, address
from kproxy.schemas.registry import Registry
from tests.support.registry import Running, guid, registry

INT = {"schema": '"int"'}
NOBODY = Access({})


@pytest.fixture
def running() -> Iterator[Running]:
    with registry() as one:
        one.state.register("orders-value", INT)
        yield one


def client(url: str, *, wait: float = 20.0, access: Access = NOBODY, **more: Any) -> Registry:
    return Registry(url, access, wait=wait, **more)


def found(result: Schema | Missing) -> Schema:
    assert isinstance(result, Schema), result
    return result


def missing(result: Schema | Missing) -> Missing:
    assert isinstance(result, Missing)
    return result


def test_a_schema_is_asked_for_once(running: Running) -> None:
    asked = client(running.url)
    first = asked.by_id(IdKind.ID, 1)
    assert found(first).parts[-1].content == b'"int"'
    assert asked.by_id(IdKind.ID, 1) is first
    assert running.state.asked == ["/schemas/ids/1"]
    assert found(asked.by_id(IdKind.GUID, guid(1))).id == guid(1)


def test_what_is_not_there_is_not_asked_for_again(running: Running) -> None:
    asked = client(running.url)
    for _ in range(3):
        assert asked.by_id(IdKind.ID, 42) == Missing("schema 42 not found (404)")
    assert len(running.state.asked) == 1


def test_it_is_asked_for_again_after_a_while(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "NOT_FOUND_SECONDS", 0.0)
    asked = client(running.url)
    missing(asked.by_id(IdKind.ID, 2))
    running.state.register("later", {"schema": '"long"'})
    assert found(asked.by_id(IdKind.ID, 2))


def test_bytes_that_look_like_ids_do_not_flood_it(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "MOST_REFUSED", 5)
    asked = client(running.url)
    reasons = [missing(asked.by_id(IdKind.ID, number)).reason for number in range(100, 120)]
    assert len(running.state.asked) == 5
    assert reasons[-1] == "schema 119 is not requested: 5 other schemas were not found"


def test_references_come_with_it_and_only_once(running: Running) -> None:
    state = running.state
    state.register("a/b", {"schema": '"long"'})
    inner = {"name": "inner", "subject": "a/b", "version": 1}
    state.register("middle", {"schema": '"string"', "references": [inner]})
    outer = [{"name": "middle", "subject": "middle", "version": 1}, inner]
    number = state.register("outer", {"schema": '"bytes"', "references": outer})
    parts = found(client(running.url).by_id(IdKind.ID, number)).parts
    assert [part.name for part in parts] == ["inner", "middle", ""]
    assert sum("a%2Fb" in path for path in state.asked) == 1


def test_references_in_a_circle_end(running: Running) -> None:
    around = {"name": "around", "subject": "around", "version": 1}
    number = running.state.register("around", {"schema": '"bytes"', "references": [around]})
    assert len(found(client(running.url).by_id(IdKind.ID, number)).parts) == 2
    lost = {"name": "lost", "subject": "lost", "version": 3}
    number = running.state.register("loser", {"schema": '"int"', "references": [lost]})
    reason = missing(client(running.url).by_id(IdKind.ID, number)).reason
    assert reason == f"schema {number}: its reference lost: not found (404)"


def test_a_registry_that_is_gone_is_told_of_once_and_left_alone() -> None:
    with registry() as one:
        url = one.url
    told: list[str] = []
    asked = client(url, warn=told.append)
    for number in range(1, 50):
        assert missing(asked.by_id(IdKind.ID, number)).reason == "registry not reachable: connection refused"
    assert told == ["registry not reachable: connection refused"]


def test_it_is_told_of_once_however_often_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "PAUSE_SECONDS", 0.0)
    with registry() as one:
        url = one.url
    told: list[str] = []
    asked = client(url, warn=told.append)
    for number in range(1, 5):
        missing(asked.by_id(IdKind.ID, number))
    assert len(told) == 1


def test_it_is_tried_again_after_a_pause(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(http_module, "READ_SECONDS", 1.0)
    running.state.delay = 5.0
    asked = client(running.url)
    assert missing(asked.by_id(IdKind.ID, 1)).reason == "registry not reachable: no answer in 1 s"
    running.state.delay = 0.0
    assert found(asked.by_id(IdKind.ID, 1))


def test_a_slow_registry_is_waited_for_once(running: Running) -> None:
    running.state.delay = 1.0
    came = threading.Event()
    asked = client(running.url, wait=0.0, arrived=came.set)
    for _ in range(1000):
        answer = missing(asked.by_id(IdKind.ID, 1))
        assert answer == Missing("schema 1 has not arrived from the registry yet", pending=True)
        if came.is_set():
            break
    assert came.wait(20)
    assert found(asked.by_id(IdKind.ID, 1))
    assert len(running.state.asked) == 1


def test_an_answer_that_drips_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "TOTAL_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def drip() -> None:
            side, _ = listener.accept()
            with side:
                side.recv(1 << 16)
                side.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not stop.wait(0.05):
                    try:
                        side.sendall(b" ")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        asked = client(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert missing(asked.by_id(IdKind.ID, 1)).reason == "registry not reachable: no complete answer in 0 s"
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "the answer is not JSON: is there a schema registry at this address?"),
        (b"[]", "the answer is not a JSON object"),
        (b"[" * 100_000, "the answer is not JSON: is there a schema registry at this address?"),
        (b"{}", "the registry's answer contains no schema"),
        (b'{"schema": "x", "schemaType": "THRIFT"}', "schemas of type THRIFT are not supported"),
        (b'{"schema": "x", "schemaType": ["AVRO"]}', "schemas of type ['AVRO'] are not supported"),
        (b'{"schema": "message A {}", "schemaType": "PROTOBUF"}', "the registry has Protobuf as .proto text only"),
        (b'{"schema": "x", "references": 7}', "its references are not a list"),
        (b'{"schema": "x", "references": [7]}', "a reference without name, subject and version"),
        (b" " * ((8 << 20) + 1), "an answer of more than 8388608 bytes"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_odd_answers(running: Running, body: bytes, reason: str) -> None:
    running.state.raw["/schemas/ids/9"] = body
    assert missing(client(running.url).by_id(IdKind.ID, 9)).reason.startswith(f"schema 9: {reason}")


def test_it_does_not_follow_to_another_place(running: Running) -> None:
    with registry() as other:
        other.state.register("orders-value", INT)
        running.state.redirect = other.url + "/schemas/ids/1"
        access = Access.of({"KPROXY_REGISTRY_TOKEN": "secret"})
        reason = missing(client(running.url, access=access).by_id(IdKind.ID, 1)).reason
        assert reason == "schema 1: the registry redirects to another address (302): give the new address"
        assert not other.state.asked


@pytest.mark.parametrize(
    ("environment", "header"),
    [
        (
            {"KPROXY_REGISTRY_USER": "ann", "KPROXY_REGISTRY_PASSWORD": "geheim"},
            "Basic " + base64.b64encode(b"ann:geheim").decode(),
        ),
        ({"KPROXY_REGISTRY_TOKEN": "abc"}, "Bearer abc"),
    ],
)
def test_the_environment_says_who_asks(running: Running, environment: dict[str, str], header: str) -> None:
    running.state.credentials = header
    assert missing(client(running.url).by_id(IdKind.ID, 1)).reason == "schema 1 not authorised (401)"
    assert found(client(running.url, access=Access.of(environment)).by_id(IdKind.ID, 1))


def test_a_file_with_authorities_that_is_not_there() -> None:
    access = Access.of({"KPROXY_REGISTRY_CA": "no such file"})
    assert "registry not reachable" in missing(client("https://127.0.0.1:1", access=access).by_id(IdKind.ID, 1)).reason


@pytest.mark.parametrize(
    "text", ["registry:8081", "ftp://host", "http://", "http://ann:geheim@host", "http://ann@host"]
)
def test_addresses_that_are_not_taken_are_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="a registry's address") as caught:
        address(text)
    assert "geheim" not in str(caught.value)
    assert address("https://host:8081/prefix/?x=1") == "https://host:8081/prefix"


# --- Apicurio --------------------------------------------------------------------------------------------------------

RECORD = json.dumps({"type": "record", "name": "R", "fields": []}).encode()


@pytest.mark.parametrize(
    ("base", "kind", "path"),
    [
        ("/apis/registry/v3", IdKind.GLOBAL_ID, "/apis/registry/v3/ids/globalIds/7"),
        ("/apis/registry/v2", IdKind.CONTENT_ID, "/apis/registry/v2/ids/contentIds/7"),
        ("/apis/registry/v3", IdKind.ID, "/apis/registry/v3/ids/contentIds/7"),
        ("/apis/ccompat/v7", IdKind.GLOBAL_ID, "/apis/registry/v3/ids/globalIds/7"),
        ("", IdKind.CONTENT_ID, "/apis/registry/v2/ids/contentIds/7"),
    ],
)
def test_apicurio_s_own_api(running: Running, base: str, kind: IdKind, path: str) -> None:
    running.state.raw[path] = RECORD
    schema = found(client(running.url + base).by_id(kind, 7))
    assert (schema.type, schema.parts[-1].content) == (SchemaType.AVRO, RECORD)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'"string"', SchemaType.AVRO),
        (b'["null", "int"]', SchemaType.AVRO),
        (b'{"type": "array", "items": "int"}', SchemaType.AVRO),
        (b'{"type": "object"}', SchemaType.JSON),
        (b'{"$ref": "#/x"}', SchemaType.JSON),
        (b'{"type": "array", "items": {"type": "string"}}', SchemaType.JSON),
    ],
)
def test_the_type_of_what_apicurio_gives(running: Running, body: bytes, kind: SchemaType) -> None:
    running.state.raw["/apis/registry/v3/ids/contentIds/1"] = body
    assert found(client(running.url + "/apis/registry/v3").by_id(IdKind.CONTENT_ID, 1)).type is kind


def test_what_apicurio_s_own_api_cannot_give(running: Running) -> None:
    asked = client(running.url + "/apis/registry/v3")
    running.state.raw["/apis/registry/v3/ids/contentIds/1"] = b'syntax = "proto3";'
    assert "a descriptor set by --schemas" in missing(asked.by_id(IdKind.CONTENT_ID, 1)).reason
    assert "GUID" in missing(asked.by_id(IdKind.GUID, guid(1))).reason


# --- on disk ---------------------------------------------------------------------------------------------------------


def test_schemas_are_kept_for_a_day(running: Running, tmp_path: Path) -> None:
    asked = client(running.url, cache=DiskCache(tmp_path, running.url))
    schema = found(asked.by_id(IdKind.ID, 1))
    (file,) = tmp_path.rglob("*.json")
    kept = DiskCache(tmp_path, running.url).get(IdKind.ID, 1)
    assert kept is not None
    assert (kept.type, kept.parts, kept.id) == (schema.type, schema.parts, 1)
    assert DiskCache(tmp_path, "http://elsewhere").get(IdKind.ID, 1) is None
    old = time.time() - 25 * 3600
    os.utime(file, (old, old))
    assert DiskCache(tmp_path, running.url).get(IdKind.ID, 1) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"type": "AVRO", "parts": []}', b'{"type": "X", "parts": [["", ""]]}']
)
def test_a_damaged_file_is_asked_for_again(running: Running, tmp_path: Path, content: bytes) -> None:
    cache = DiskCache(tmp_path, running.url)
    found(client(running.url, cache=cache).by_id(IdKind.ID, 1))
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(content)
    assert cache.get(IdKind.ID, 1) is None
    assert found(client(running.url, cache=cache).by_id(IdKind.ID, 1)).parts


def test_a_disk_that_takes_nothing_does_not_matter(running: Running, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert found(client(running.url, cache=DiskCache(tmp_path / "file", running.url)).by_id(IdKind.ID, 1))
