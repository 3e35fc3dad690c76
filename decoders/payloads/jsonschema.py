"""A viewer for JSON that is checked against its JSON Schema.

Schemas that a schema refers to are never fetched; only those that come with the schema are used. Regular expressions
are ignored, because matching one can take forever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Final

from kproxy.decoders.extras import installing
from kproxy.decoders.payloads import json as plain_json
from kproxy.decoders.payloads.reading import Reading, SchemaViewer
from kproxy.decoders.payloads.schemas import Schema, SchemaType
from kproxy.decoders.payloads.viewer import Content

LARGEST: Final = 1 << 20
"""Largest size in bytes of a document that is checked; larger ones are shown unchecked."""
MOST_STEPS: Final = 500_000
"""Maximum number of keywords that are evaluated for one document.

Nested references could multiply them without limit.
"""
_COMPARED: Final = 100
"""Number of comparisons between two elements that together count as one step."""


class JsonSchemaViewer(SchemaViewer):
    name = "jsonschema"
    title = "JSON with its schema"
    type = SchemaType.JSON

    def read(self, reading: Reading) -> Content:
        """The document, even if it violates its schema; then the violation is its `complaint`."""
        value = plain_json.parse(reading.body)
        if len(reading.body) > LARGEST:
            return Content(value, reading.schema, f"more than {LARGEST} bytes: not checked against the schema")
        if not is_installed():
            return Content(value, reading.schema, f"not checked against the schema: {installing('schemas')}")
        return Content(value, reading.schema, self.problem(reading.schema) or _breach(reading.schema, value))

    def problem(self, schema: Schema) -> str | None:
        if not is_installed():
            return None  # it cannot be judged
        check = check_of(schema)
        return check if isinstance(check, str) else None


@cache
def is_installed() -> bool:
    """Whether the library that checks documents is installed; cached, because looking for a missing module is slow."""
    return find_spec("jsonschema") is not None


def _breach(schema: Schema, value: Any) -> str | None:
    """The first violation of the schema in a document, and its place; None if there is none."""
    try:
        error = check_of(schema).first_error(value)
    except _TooMuchError:
        return f"more than {MOST_STEPS} steps: not checked to the end against the schema"
    except Exception as wrong:  # noqa: BLE001 (a reference that leads nowhere or round, and the like)
        return f"the schema cannot be followed: {wrong}"
    if error is None:
        return None
    message = error.message if len(error.message) <= 200 else f"{error.message[:200]}…"
    return f"{error.json_path}: {message}"


class _TooMuchError(Exception):
    """The check of a document has reached MOST_STEPS."""


class _Check:
    """Checks documents against one schema."""

    def __init__(self, schema: Schema) -> None:
        self._left = 0
        self._validator = _validator(schema, self._counted)

    def first_error(self, value: Any) -> Any:
        """The first violation in a document; None if there is none.

        Raises _TooMuchError, and errors of bad references.
        """
        self._left = MOST_STEPS
        return next(self._validator.iter_errors(value), None)

    def _counted(self, name: str, check: Any) -> Any:
        def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            self._left -= 1
            if name == "uniqueItems" and isinstance(instance, list):
                self._left -= len(instance) ** 2 // _COMPARED
            if self._left < 0:
                raise _TooMuchError
            return check(validator, value, instance, schema)

        return checked


@lru_cache(maxsize=1000)
def check_of(schema: Schema) -> Any:
    """The checker for a schema; a text with the reason if the schema is invalid."""
    try:
        return _Check(schema)
    except Exception as error:  # noqa: BLE001 (a bad schema raises errors of many types)
        return f"a bad schema: {getattr(error, 'message', None) or error}"


def _validator(schema: Schema, counted: Callable[[str, Any], Any]) -> Any:
    from jsonschema import validators
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT7

    contents = [json.loads(part.content) for part in schema.parts]
    resources = [
        (part.name, Resource.from_contents(content, default_specification=DRAFT7))
        for part, content in zip(schema.parts, contents, strict=True)
        if part.name
    ]
    known: type[Any] = validators.validator_for(contents[-1], default=validators.Draft7Validator)
    known.check_schema(contents[-1])
    checks = {**known.VALIDATORS, **_without_expressions(known)}
    cautious = validators.extend(known, {name: counted(name, check) for name, check in checks.items()})
    return cautious(contents[-1], registry=Registry().with_resources(resources))


def _without_expressions(known: type[Any]) -> dict[str, Any]:
    def ignored(*_: Any) -> Iterator[Any]:
        return iter(())

    def unless_patterns(keyword: str) -> Any:
        check = known.VALIDATORS[keyword]

        def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
            return () if "patternProperties" in schema else check(validator, value, instance, schema)

        return checked

    replaced: dict[str, Any] = {name: ignored for name in ("pattern", "patternProperties") if name in known.VALIDATORS}
    for name in ("additionalProperties", "unevaluatedProperties"):
        if name in known.VALIDATORS:
            replaced[name] = unless_patterns(name)
    return replaced
