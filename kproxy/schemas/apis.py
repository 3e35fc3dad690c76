"""Requests to schema registries and their answers: Confluent's API, and Apicurio's native one."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlsplit

from kproxy.decoders.payloads.schemas import IdKind, Part, Schema, SchemaType
from kproxy.schemas.http import RefusedError

MOST_PARTS: Final = 1000
"""Most files that a schema may refer to, directly or indirectly."""

Get = Callable[[str], bytes]
"""Returns the body of the answer from a URL; raises UnreachableError, RefusedError."""

NATIVE: Final = "/apis/registry/v"
_ENDPOINTS: Final = {IdKind.GLOBAL_ID: "globalIds", IdKind.CONTENT_ID: "contentIds", IdKind.ID: "contentIds"}
_TEXT_ONLY: Final = "the registry has Protobuf as .proto text only: a descriptor set in --schemas reads it"
_AVRO: Final = {"record", "enum", "fixed", "error"}


def fetch(get: Get, url: str, kind: IdKind, value: int | str) -> Schema:
    """A schema with all schemas that it refers to. Raises UnreachableError, RefusedError.

    A URL that contains /apis/registry/v is Apicurio's native API, where four-byte ids are content ids. Any other URL is
    Confluent's API, or Apicurio's compatible one. Global and content ids are always looked up in the native API.
    """
    if NATIVE in url:
        return _of_apicurio(get, url, kind, value)
    if kind in {IdKind.GLOBAL_ID, IdKind.CONTENT_ID}:
        parts = urlsplit(url)
        root = f"{parts.scheme}://{parts.netloc}{NATIVE}"
        try:
            return _of_apicurio(get, f"{root}3", kind, value)
        except RefusedError as error:
            if error.status != 404:
                raise
            return _of_apicurio(get, f"{root}2", kind, value)
    return _of_confluent(get, url, kind, value)


# --- Confluent -------------------------------------------------------------------------------------------------------


def _of_confluent(get: Get, url: str, kind: IdKind, value: int | str) -> Schema:
    place = f"{url}/schemas/{'guids' if kind is IdKind.GUID else 'ids'}/{value}"
    answer = _object(get(place))
    try:
        type_ = SchemaType(answer.get("schemaType") or SchemaType.AVRO)
    except ValueError:
        raise RefusedError(f"a schema of type {answer.get('schemaType')}") from None
    if type_ is SchemaType.PROTOBUF:
        answer = _object(get(f"{place}?format=serialized"))
    parts: dict[str, Part] = {}
    _add_references(get, url, type_, answer, parts, set())
    return Schema(type_, (*parts.values(), Part("", _content(type_, answer))), "registry", value)


def _add_references(
    get: Get, url: str, type_: SchemaType, answer: dict[str, Any], parts: dict[str, Part], asked: set[str]
) -> None:
    """Adds the schemas that a schema refers to, each after those that it refers to itself."""
    references = answer.get("references") or []
    if not isinstance(references, list):
        raise RefusedError("its references are no list")
    for reference in references:
        try:
            name, subject, version = str(reference["name"]), str(reference["subject"]), int(reference["version"])
        except (KeyError, TypeError, ValueError):
            raise RefusedError("a reference without name, subject and version") from None
        if name in asked:
            continue
        if len(asked) >= MOST_PARTS:
            raise RefusedError(f"more than {MOST_PARTS} references")
        asked.add(name)
        place = f"{url}/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
        try:
            referred = _object(get(place + ("&format=serialized" if type_ is SchemaType.PROTOBUF else "")))
        except RefusedError as error:
            raise RefusedError(f"its reference {name}: {error}", error.status) from None
        _add_references(get, url, type_, referred, parts, asked)
        parts[name] = Part(name, _content(type_, referred))


def _content(type_: SchemaType, answer: dict[str, Any]) -> bytes:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise RefusedError("an answer without schema")
    if type_ is not SchemaType.PROTOBUF:
        return text.encode("utf-8", "replace")
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise RefusedError(_TEXT_ONLY) from None


def _object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError("an answer that is no JSON: is it a schema registry?") from None
    if not isinstance(answer, dict):
        raise RefusedError("an answer that is no JSON object")
    return answer


# --- Apicurio --------------------------------------------------------------------------------------------------------


def _of_apicurio(get: Get, url: str, kind: IdKind, value: int | str) -> Schema:
    if kind is IdKind.GUID:
        raise RefusedError("Apicurio's own API has no GUIDs")
    whole = "references=DEREFERENCE" if f"{NATIVE}3" in url else "dereference=true"
    body = get(f"{url}/ids/{_ENDPOINTS[kind]}/{value}?{whole}")
    return Schema(_guess(body), (Part("", body),), "registry", value)


def _guess(body: bytes) -> SchemaType:
    """The type of a schema, from its text alone. Raises RefusedError for Protobuf."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(_TEXT_ONLY) from None
    if isinstance(content, dict) and content.get("type") not in _AVRO and not isinstance(content.get("items"), str):
        return SchemaType.JSON
    return SchemaType.AVRO
