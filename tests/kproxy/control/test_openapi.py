"""The OpenAPI description says what the table of routes says, and is itself well-formed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kproxy.control import bodies
from kproxy.control.actions import ACTIONS
from kproxy.control.api import COMMANDS, DESCRIBE, ROUTES
from kproxy.faults.files import MOST
from tests.kproxy.control.support import DESCRIPTION, Caller, resolved

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
OPERATIONS = {
    (method.upper(), path): operation
    for path, item in DESCRIPTION["paths"].items()
    for method, operation in item.items()
    if method in METHODS
}
BODIES = [(path, kind) for (_, path), one in OPERATIONS.items() if "requestBody" in one for kind in
          resolved(one["requestBody"])["content"]]  # fmt: skip


def inside(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from inside(one)


def test_every_route_is_described_and_every_described_path_is_routed() -> None:
    assert len(ROUTES) == len(OPERATIONS)
    assert {(route.method, route.path) for route in ROUTES} == set(OPERATIONS)


def test_every_route_has_an_action_and_every_action_but_a_few_a_route() -> None:
    assert {route.action for route in ROUTES} - {*COMMANDS, DESCRIBE} == set(ACTIONS) - {
        "reload",
        "intercepted",
        "decide",
    }


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_what_a_route_takes_and_returns_is_described(route: Any) -> None:
    operation = OPERATIONS[route.method, route.path]
    statuses = {str(route.status), "401"}
    statuses |= {"404"} if "{name}" in route.path else set()
    statuses |= {"408", "413", "415", "422"} if route.takes_rules else set()
    statuses |= {"409"} if route.action in {"add", "flush"} else set()
    assert set(operation["responses"]) == statuses
    assert ("requestBody" in operation) == route.takes_rules
    parameters = DESCRIPTION["paths"][route.path].get("parameters", [])
    assert [resolved(one)["name"] for one in parameters] == re.findall(r"{(\w+)}", route.path)


def test_references_lead_somewhere_and_everything_is_used() -> None:
    used = {one["$ref"] for one in inside(DESCRIPTION) if "$ref" in one}
    components = DESCRIPTION["components"]
    there = {f"#/components/{kind}/{name}" for kind, named in components.items() for name in named}
    assert used == {one for one in there if "/securitySchemes/" not in one}


def test_it_has_the_form_of_openapi_3_1() -> None:
    assert DESCRIPTION["openapi"] == "3.1.0"
    assert {"title", "version"} <= set(DESCRIPTION["info"])
    assert set(DESCRIPTION) == {"openapi", "info", "security", "tags", "paths", "components"}
    assert [set(one) for one in DESCRIPTION["security"]] == [set(DESCRIPTION["components"]["securitySchemes"])]
    ids = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(ids)) == len(ids)
    tags = {one["name"] for one in DESCRIPTION["tags"]}
    for path, item in DESCRIPTION["paths"].items():
        assert path.startswith("/")
        assert set(item) <= METHODS | {"parameters"}
    for operation in OPERATIONS.values():
        assert set(operation["tags"]) <= tags
        assert operation["summary"]
        assert all(resolved(one)["description"] for one in operation["responses"].values())
        assert "security" not in operation, "every operation needs the token"


def test_its_schemas_are_schemas() -> None:
    schemas = [one["schema"] for one in inside(DESCRIPTION) if "schema" in one]
    schemas += DESCRIPTION["components"]["schemas"].values()
    assert len(schemas) > 10
    for schema in schemas:
        Draft202012Validator.check_schema(schema)


def test_limits_are_those_of_the_code() -> None:
    given = DESCRIPTION["components"]["requestBodies"]["Rules"]
    assert f" {bodies.LARGEST} bytes" in given["description"]
    assert {one["maxItems"] for one in inside(DESCRIPTION) if "maxItems" in one} == {MOST}
    assert {bodies.FORMS[kind] for kind in given["content"]} == {bodies.TEXT, bodies.JSON, bodies.YAML}


@pytest.mark.parametrize(("path", "kind"), BODIES)
async def test_examples_are_accepted_and_fit_their_schema(path: str, kind: str) -> None:
    content = DESCRIPTION["components"]["requestBodies"]["Rules"]["content"][kind]
    example = content["example"]
    Draft202012Validator({"components": DESCRIPTION["components"], **content["schema"]}).validate(example)
    reply = await Caller()("POST", path, example if isinstance(example, str) else json.dumps(example), kind)
    assert reply.status in {200, 201}


async def test_it_is_served() -> None:
    assert (await Caller()("GET", "/openapi.json")).body == DESCRIPTION
