"""Requests to schema registries: Confluent's API, and Apicurio's native one."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlsplit

from kproxy.decoders.payloads.schemas import IdKind, Part, Schema, SchemaType
from kproxy.schemas.http import RefusedError

MOST_PARTS: Final = 1000
"""Maximum number of schemas that a schema may refer to, directly or indirectly."""

Get = Callable[[str], bytes]
"""A function that returns the body of the HTTP response for a URL; raises UnreachableError, RefusedError."""

NATIVE: Final = "/apis/registry/v"
_ENDPOINTS: Final = {IdKind.GLOBAL_ID: "globalIds", IdKind.CONTENT_ID: "contentIds", IdKind.ID: "contentIds"}
_TEXT_ONLY: Final = "the registry has Protobuf as .proto text only: give a descriptor set by --schemas instead"
_AVRO: Final = {"record", "enum", "fixed", "error"}


def fetch(get: Get, url: str, kind: IdKind, value: int | str) -> Schema:
    """Fetches a schema and all schemas that it refers to. Raises UnreachableError, RefusedError.

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
        raise RefusedError(f"schemas of type {answer.get('schemaType')} are not supported") from None
    if type_ is SchemaType.PROTOBUF:
        answer = _object(get(f"{place}?format=serialized"))
    parts: dict[str, Part] = {}
    _add_references(get, url, type_, answer, parts, set())
    return Schema(type_, (*parts.values(), Part("", _content(type_, answer))), "registry", value)


def _add_references(
    get: Get, url: str, type_: SchemaType, answer: dict[str, Any], parts: dict[str, Part], asked: set[str]
) -> None:
    """Adds to `parts` the schemas that `answer` refers to; a schema comes after those that it refers to itself.

    `asked` holds the names that were fetched already.
    """
    references = answer.get("references") or []
    if not isinstance(references, list):
        raise RefusedError("its references are not a list")
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
        raise RefusedError("the registry's answer contains no schema")
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
        raise RefusedError("the answer is not JSON: is there a schema registry at this address?") from None
    if not isinstance(answer, dict):
        raise RefusedError("the answer is not a JSON object")
    return answer


# --- Apicurio --------------------------------------------------------------------------------------------------------


def _of_apicurio(get: Get, url: str, kind: IdKind, value: int | str) -> Schema:
    if kind is IdKind.GUID:
        raise RefusedError("Apicurio's own API has no GUIDs")
    whole = "references=DEREFERENCE" if f"{NATIVE}3" in url else "dereference=true"
    body = get(f"{url}/ids/{_ENDPOINTS[kind]}/{value}?{whole}")
    return Schema(_guess(body), (Part("", body),), "registry", value)


def _guess(body: bytes) -> SchemaType:
    """Guesses the type of a schema from its text alone. Raises RefusedError for Protobuf."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(_TEXT_ONLY) from None
    if isinstance(content, dict) and content.get("type") not in _AVRO and not isinstance(content.get("items"), str):
        return SchemaType.JSON
    return SchemaType.AVRO
