"""JSON that is checked against its JSON Schema.

Schemas are never fetched from where they point to: what a schema comes with is all there is. Regular expressions are
not tried, because one can take forever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from decoders.payloads import json as plain_json
from decoders.payloads.reading import Reading, SchemaViewer
from decoders.payloads.schemas import Schema, SchemaType
from decoders.payloads.viewer import Content

LARGEST: Final = 1 << 20
"""Bytes of a document that is checked; larger ones are only shown."""


class JsonSchemaViewer(SchemaViewer):
    name = "jsonschema"
    title = "JSON with its schema"
    type = SchemaType.JSON

    def read(self, reading: Reading) -> Content:
        """A document that breaks its schema is shown all the same."""
        value = plain_json.parse(reading.body)
        if len(reading.body) > LARGEST:
            return Content(value, reading.schema, f"more than {LARGEST} bytes: not checked against the schema")
        return Content(value, reading.schema, self.problem(reading.schema) or _breach(reading.schema, value))

    def problem(self, schema: Schema) -> str | None:
        validator = validator_of(schema)
        return validator if isinstance(validator, str) else None


def _breach(schema: Schema, value: Any) -> str | None:
    """Where a document first breaks its schema, and how."""
    try:
        error = next(validator_of(schema).iter_errors(value), None)
    except Exception as wrong:  # noqa: BLE001 (a reference that leads nowhere or round, and the like)
        return f"the schema cannot be followed: {wrong}"
    if error is None:
        return None
    message = error.message if len(error.message) <= 200 else f"{error.message[:200]}…"
    return f"{error.json_path}: {message}"


@lru_cache(maxsize=1000)
def validator_of(schema: Schema) -> Any:
    """What checks documents; text where the schema is bad."""
    try:
        return _validator(schema)
    except Exception as error:  # noqa: BLE001 (a bad schema raises errors of many types)
        return f"a bad schema: {getattr(error, 'message', None) or error}"


def _validator(schema: Schema) -> Any:
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
    cautious = validators.extend(known, _without_expressions(known))
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
